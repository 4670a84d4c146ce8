"""Checkpoints: whole or not at all, only of this run, and a resumed run equals an unbroken one bit by bit."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

import gsat
import strategies  # noqa: F401  one thread
from gsat import attacks, defences, registry
from gsat.models import build, seeded
from gsat.training import checkpoint
from gsat.training.checkpoint import Checkpoint, optimizer_state, restore_optimizer
from gsat.training.history import Step, cut_back
from gsat.training.loop import Validation, gdadmm

RUN = {"group_size": 20, "weights": {"0.weight": [3, 2]}}


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor]:
    table = gsat.data.load("digits")
    return torch.as_tensor(table.X).float()[:300], torch.as_tensor(table.y).long()[:300]


def net(hidden: int = 20) -> nn.Sequential:
    with seeded(3):
        return nn.Sequential(
            nn.Linear(64, hidden), nn.BatchNorm1d(hidden), nn.ELU(), nn.Dropout(0.3), nn.Linear(hidden, 10)
        )


class Killed(Exception):  # noqa: N818
    pass


def train(digits: Any, defence: Any, model: nn.Module | None = None, *, stop: int | None = None, **options: Any) -> Any:
    """A run of 20 steps, or one that is killed in step `stop` or soon after, with the model and the history."""
    model = net() if model is None else model

    def kill(step: Step, model: nn.Module) -> None:
        if stop is not None and step.t >= stop:
            raise Killed

    settings = {"n_outer": 20, "group_size": 30, "eta0": 1e-2, "generator": Generator().manual_seed(7)}
    with seeded(11):
        history = gdadmm(model, *digits, defence, callbacks=[kill], checkpoint_every=3, **(settings | options))
    return model, history


def saved(folder: Path, step: int, value: float = 1.0) -> Path:
    tensors = {
        "model:w": torch.full((3, 2), value),
        "random:torch": torch.get_rng_state(),
        "defence:shift": torch.zeros(0),
    }
    return checkpoint.save(folder, Checkpoint(step, tensors, {"lam": value, "list": [1, None, 0.1]}), RUN)


def test_round_trip_and_the_two_newest_are_kept(tmp_path: Path) -> None:
    for step in (0, 7, 14, 100):
        saved(tmp_path, step, 0.1 * step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000014", "step-000000100"]
    found = checkpoint.latest(tmp_path, RUN)
    assert found.step == 100
    assert found.numbers == {"lam": 10.0, "list": [1, None, 0.1]}
    assert torch.equal(found.tensors["model:w"], torch.full((3, 2), 10.0))
    assert found.tensors["defence:shift"].shape == (0,)
    assert checkpoint.latest(tmp_path / "nowhere", RUN) is None


def truncate(path: Path) -> None:
    file = path / "tensors.safetensors"
    file.write_bytes(file.read_bytes()[:-5])


def flip(path: Path) -> None:
    file = path / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 16
    file.write_bytes(bytes(data))


def change_number(path: Path) -> None:
    file = path / "state.json"
    text = file.read_text()
    assert '"lam": 2.0' in text
    file.write_text(text.replace('"lam": 2.0', '"lam": 3.0'))


def change_run(path: Path) -> None:
    file = path / "state.json"
    file.write_text(file.read_text().replace('"group_size": 20', '"group_size": 21'))


def drop_checksum(path: Path) -> None:
    head = json.loads((path / "state.json").read_text())
    del head["sha256"]
    (path / "state.json").write_text(json.dumps(head))


DAMAGES: list[Any] = [
    truncate,
    flip,
    change_number,
    change_run,
    drop_checksum,
    lambda path: (path / "state.json").unlink(),
    lambda path: (path / "tensors.safetensors").unlink(),
    lambda path: (path / "state.json").write_bytes(b""),
    lambda path: (path / "state.json").write_bytes(b'{"format": 1, "st'),
    lambda path: (path / "state.json").write_bytes(b"\xff\xfe\x00"),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_passed_over(tmp_path: Path, damage: Any) -> None:
    older, newer = saved(tmp_path, 7, 1.0), saved(tmp_path, 14, 2.0)
    damage(newer)
    with pytest.warns(UserWarning, match=r"step-000000014 is damaged: .*; going on from step-000000007"):
        assert checkpoint.latest(tmp_path, RUN).step == 7
    (older / "tensors.safetensors").write_bytes(b"")
    message = r"no checkpoint in .* can be read: .*step-000000014 is damaged.*step-000000007 is damaged"
    with pytest.raises(ValueError, match=message):
        checkpoint.latest(tmp_path, RUN)


def test_a_foreign_one_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, 7)
    with pytest.raises(ValueError, match=r"step-000000007 is of another run: group_size 20 there, 21 here"):
        checkpoint.latest(tmp_path, RUN | {"group_size": 21})
    head = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(head | {"format": 1}))
    with pytest.raises(ValueError, match="step-000000007 must have format 2, got 1: it is of another version of gsat"):
        checkpoint.latest(tmp_path, RUN)
    (path / "state.json").write_text("[1]")
    with pytest.raises(ValueError, match="must have format 2, got None"):
        checkpoint.latest(tmp_path, RUN)


def test_the_draft_of_a_killed_writer_is_ignored_and_cleared_away(tmp_path: Path) -> None:
    saved(tmp_path, 7)
    killed = f"""
import os
from pathlib import Path
from gsat._files import whole_folder
with whole_folder(Path({str(tmp_path)!r}) / "step-000000014") as draft:
    (draft / "tensors.safetensors").write_bytes(b"half of it")
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -9
    assert len(list(tmp_path.iterdir())) == 2
    assert checkpoint.latest(tmp_path, RUN).step == 7
    assert checkpoint.newest(tmp_path).name == "step-000000007"
    saved(tmp_path, 14)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000007", "step-000000014"]


@pytest.mark.parametrize(
    "make",
    [
        lambda weights: torch.optim.Adam(weights, lr=0.02, betas=(0.8, 0.95), amsgrad=True),
        lambda weights: torch.optim.AdamW(weights, lr=0.02, weight_decay=0.1),
        lambda weights: torch.optim.SGD(weights, lr=0.02),
        lambda weights: torch.optim.SGD(weights, lr=0.02, momentum=0.9, nesterov=True),
        lambda weights: torch.optim.RMSprop(weights, lr=0.02),
    ],
)
def test_optimizers_round_trip_through_the_files(digits: Any, tmp_path: Path, make: Any) -> None:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(digits[0]), digits[1]).backward()
        optimizer.step()

    first, second = build("elu", (64,), 10), build("elu", (64,), 10)
    one = make([{"params": first[1].parameters()}, {"params": first[3].parameters(), "lr": 0.5}])
    two = make([{"params": second[1].parameters()}, {"params": second[3].parameters(), "lr": 0.5}])
    for _ in range(3):
        step(first, one)
    tensors, numbers = optimizer_state(one)
    checkpoint.save(tmp_path, Checkpoint(3, tensors, numbers), RUN)
    found = checkpoint.latest(tmp_path, RUN)
    second.load_state_dict(first.state_dict())
    restore_optimizer(two, found.tensors, found.numbers)
    assert two.state_dict()["param_groups"] == one.state_dict()["param_groups"]
    for _ in range(3):
        step(first, one)
        step(second, two)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def per_batch() -> defences.Defence:
    return defences.GSAT(gsat.PerBatch(gsat.Universal(), n_random=4), n_inner=4)


@pytest.mark.parametrize(
    "make", [per_batch, lambda: defences.UniversalAT(0.5), lambda: registry.named("low-rank", eps=1.0, n_inner=4)]
)
@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("stop", [1, 10, 17])
def test_resumed_equals_unbroken(digits: Any, tmp_path: Path, make: Any, everything: bool, stop: int) -> None:
    options: dict[str, Any] = {}
    if everything:
        rule = Validation(*digits, attacks.FGM(0.5), every=4, patience=9)
        options = {"ema": 0.8, "validation": rule, "schedule": "cosine", "log_every": 2}
    whole, history = train(digits, make(), out=tmp_path / "whole", **options)
    with pytest.raises(Killed):
        train(digits, make(), stop=stop, out=tmp_path / "run", **options)
    torch.manual_seed(99)  # whatever a new process has
    model, resumed = train(
        digits, make(), net(), out=tmp_path / "run", resume=True, generator=Generator().manual_seed(1234),
        **options,
    )  # fmt: skip
    states = model.state_dict()
    assert all(torch.equal(value, states[name]) for name, value in whole.state_dict().items())
    assert resumed == history
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == (tmp_path / "whole" / "log.jsonl").read_bytes()


def test_a_finished_run_is_only_opened(digits: Any, tmp_path: Path) -> None:
    for name, options in (
        ("plain", {}),
        ("early", {"validation": Validation(*digits, every=1, patience=2), "eta0": 1e-9, "ema": 0.5}),
    ):
        whole, history = train(digits, per_batch(), out=tmp_path / name, **options)
        calls: list[Step] = []
        model = net()
        settings = {"n_outer": 20, "group_size": 30, "eta0": 1e-2, "out": tmp_path / name, "resume": True} | options
        again = gdadmm(
            model, *digits, per_batch(), callbacks=[lambda step, _, calls=calls: calls.append(step)], **settings
        )
        assert calls == []
        assert again == history
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), whole.parameters(), strict=True))
    assert history.stopped_early


def test_a_damaged_newest_checkpoint_of_a_run_costs_only_time(digits: Any, tmp_path: Path) -> None:
    whole, _ = train(digits, per_batch())
    with pytest.raises(Killed):
        train(digits, per_batch(), stop=10, out=tmp_path)
    truncate(checkpoint.newest(tmp_path / "checkpoint"))
    with pytest.warns(UserWarning, match="step-000000009 is damaged: .*; going on from step-000000006"):
        model, history = train(digits, per_batch(), out=tmp_path, resume=True)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), whole.parameters(), strict=True))
    assert [step.t for step in history] == list(range(20))


@pytest.mark.parametrize(
    ("defence", "options", "message"),
    [
        (per_batch, {"group_size": 31}, "group_size 30 there, 31 here"),
        (per_batch, {"model": net(21)}, r"weights .* there, .* here"),
        (per_batch, {"n_outer": 30}, "n_outer 20 there, 30 here"),
        (per_batch, {"budget": 0.1}, "target"),
        (per_batch, {"lam": 0.3}, "lam 'auto' there, 0.3 here"),
        (per_batch, {"ema": 0.9}, "ema None there, 0.9 here"),
        (defences.ERM, {}, "defence 'gsat' there, 'erm' here"),
        (lambda: defences.GSAT(gsat.LowRank()), {}, "adversary .*Universal.* there, .*LowRank.* here"),
        (lambda: defences.GSAT(gsat.PerBatch(gsat.Universal(0.4), 4)), {}, "adversary .*0.5.* there, .*0.4.* here"),
    ],
)
def test_the_run_of_another_setting_is_not_resumed(
    digits: Any, tmp_path: Path, defence: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Killed):
        train(digits, per_batch(), stop=4, out=tmp_path)
    before = (tmp_path / "log.jsonl").read_bytes()
    with pytest.raises(ValueError, match=f"is of another run: .*{message}"):
        train(digits, defence(), out=tmp_path, resume=True, **options)
    assert (tmp_path / "log.jsonl").read_bytes() == before


@pytest.mark.parametrize("make", ["gsat", "pgd"])
def test_the_run_of_another_metric_is_not_resumed(digits: Any, tmp_path: Path, make: str) -> None:
    """Metrics that have the same repr."""
    first, second = (gsat.Metric(torch.eye(64)[k : k + 3], torch.full((3,), 5.0)) for k in (0, 3))

    def defence(metric: gsat.Metric) -> defences.Defence:
        return defences.GSAT(gsat.LowRank(), metric=metric) if make == "gsat" else defences.PGD(0.1, metric=metric)

    with pytest.raises(Killed):
        train(digits, defence(first), stop=4, out=tmp_path)
    with pytest.raises(ValueError, match=r"is of another run: (inner|adversary) .* there, .* here"):
        train(digits, defence(second), out=tmp_path, resume=True)
    train(digits, defence(first), out=tmp_path, resume=True)


def test_weights_in_another_memory_format_are_kept(digits: Any, tmp_path: Path) -> None:
    images = (digits[0].view(-1, 1, 8, 8).expand(-1, 2, 8, 8), digits[1])
    model = build("alexnet", (2, 8, 8), 10, width=0.05).to(memory_format=torch.channels_last)
    train(images, defences.ERM(), model, out=tmp_path, n_outer=2)
    assert checkpoint.newest(tmp_path / "checkpoint").name == "step-000000002"


def logged(path: Path, n: int) -> tuple[list[Step], list[bytes]]:
    """A log of n steps, as they are and as lines."""
    steps = [Step(t, 0.1 * t, lam=None if t else 2.0) for t in range(n)]
    path.write_text("".join(json.dumps(asdict(step)) + "\n" for step in steps))
    return steps, path.read_bytes().splitlines(keepends=True)


def test_the_log_is_cut_back(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    steps, lines = logged(path, 5)
    path.write_bytes(b"".join(lines)[:-9])  # the line that was being written when the run was killed
    assert cut_back(path, 4) == steps[:4]
    assert path.read_bytes() == b"".join(lines[:4])
    assert cut_back(path, 2) == steps[:2]
    assert cut_back(tmp_path / "none.jsonl", 0) == []
    assert not (tmp_path / "log.jsonl.damaged").exists()


@pytest.mark.parametrize(
    "bad", [b"{]\n", b"\xff\xfe\n", b'{"t": "two", "loss": 1.0}\n', b"[" * 100_000 + b"\n", b"7\n"]
)
def test_a_damaged_line_of_the_log_is_told_and_kept_beside(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "log.jsonl"
    steps, lines = logged(path, 5)
    path.write_bytes(b"".join([*lines[:2], bad, *lines[3:]]))
    with pytest.warns(UserWarning, match=r"log\.jsonl: line 3 is damaged and kept in log\.jsonl\.damaged"):
        assert cut_back(path, 5) == [*steps[:2], *steps[3:]]
    assert path.read_bytes() == b"".join([*lines[:2], *lines[3:]])
    assert (tmp_path / "log.jsonl.damaged").read_bytes() == bad
    path.write_bytes(b"other\n" + path.read_bytes())
    with pytest.warns(UserWarning, match="line 1 is damaged"):
        cut_back(path, 5)
    assert (tmp_path / "log.jsonl.damaged").read_bytes() == bad + b"other\n"


def test_a_log_that_was_cut_before_the_checkpoint_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    steps, lines = logged(path, 5)
    path.write_bytes(b"".join(lines)[:-9])
    with pytest.warns(UserWarning, match="line 5 is damaged"):
        assert cut_back(path, 5) == steps[:4]
    path.write_bytes(b"".join(lines[:2]))
    with pytest.warns(UserWarning, match=r"3 of the 5 steps .*, the first is 2"):
        assert cut_back(path, 5) == steps[:2]
