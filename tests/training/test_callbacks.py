"""What watches a run: called in order, ended whatever happens, and without an influence on the weights."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

import gsat
from gsat import defences
from gsat.models import build
from gsat.training import Step, gdadmm
from gsat.training.callbacks import Callback, watched
from gsat.training.state import Run, adam
from strategies import normal

X, Y = normal(30, 6, seed=1, dtype=torch.float32), torch.arange(30) % 2


def train(**options: Any) -> tuple[nn.Module, Any]:
    model = build("elu", (6,), 2, hidden=4)
    settings = {"n_outer": 7, "group_size": 10, "eta0": 1e-2, "generator": Generator().manual_seed(3)}
    defence = defences.GSAT(gsat.LowRank(0.2), n_inner=3)
    return model, gdadmm(model, X, Y, defence, **(settings | options))


def weights(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten() for value in model.parameters()])


class Witness(Callback):
    def __init__(self, name: str, seen: list[str], fails: bool = False) -> None:
        self.name, self.seen, self.fails = name, seen, fails

    def begin(self, run: Run) -> None:
        if self.fails:
            raise RuntimeError("no")
        self.seen.append(f"{self.name} begins")

    def end(self, run: Run) -> None:
        self.seen.append(f"{self.name} ends")


def test_each_that_began_ends_whatever_happens() -> None:
    model = build("elu", (6,), 2, hidden=4)
    run = Run(model, X, Y, defences.ERM(), 3, 10, adam(model, 1e-3))
    seen: list[str] = []
    with pytest.raises(ZeroDivisionError), watched(run, [Witness("a", seen), Callback(), Witness("b", seen)]):
        raise ZeroDivisionError
    assert seen == ["a begins", "b begins", "b ends", "a ends"]
    seen.clear()
    with pytest.raises(RuntimeError, match="no"), watched(run, [Witness("a", seen), Witness("b", seen, fails=True)]):
        seen.append("not reached")
    assert seen == ["a begins", "a ends"]


class FakeWriter:
    """Stands for TensorBoard's writer."""

    def __init__(self, folder: str) -> None:
        self.folder, self.rows, self.closed = folder, [], False
        WRITERS.append(self)

    def add_scalar(self, name: str, value: float, t: int) -> None:
        self.rows.append((name, value, t))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


WRITERS: list[Any] = []


def test_log_board_bar_and_listeners_see_the_same_steps_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    board = ModuleType("torch.utils.tensorboard")
    board.SummaryWriter = FakeWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    WRITERS.clear()
    told: list[Step] = []
    plain, _ = train()
    model, history = train(
        log_every=3, out=tmp_path / "run", tensorboard=tmp_path / "board", progress=True,
        callbacks=[lambda step, _: told.append(step)],
    )  # fmt: skip
    assert torch.equal(weights(model), weights(plain))
    assert [step.t for step in told] == [0, 3, 6]
    assert told == history.steps
    (writer,) = WRITERS
    assert writer.folder == str(tmp_path / "board")
    assert writer.closed
    assert [(value, t) for name, value, t in writer.rows if name == "loss"] == [(step.loss, step.t) for step in told]
    assert {name for name, _, _ in writer.rows} == {"loss", "mean_norm", "lam", "measure", "learning_rate"}
    shown = capsys.readouterr().err
    assert "gsat" in shown
    assert "7/7" in shown
    assert f"loss={told[-1].loss:.3f}" in shown


def test_a_board_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match="tensorboard= needs the package tensorboard: pip install tensorboard"):
        train(tensorboard=tmp_path)


def test_signals_are_the_callers_again_after_a_run_and_after_a_failure(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    during: list[Any] = []
    train(out=tmp_path / "run", callbacks=[lambda *_: during.append(signal.getsignal(signal.SIGTERM))])
    assert during[0] != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before

    def fail(step: Step, model: nn.Module) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(out=tmp_path / "other", callbacks=[fail])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_perturbation_can_be_asked_for_after_its_step() -> None:
    defence = defences.GSAT(gsat.LowRank(0.2), n_inner=3)
    norms: list[tuple[float, float]] = []

    def look(step: Step, model: nn.Module) -> None:
        delta = defence.delta
        assert delta is not None
        norms.append((float(delta.double().norm(dim=1).mean()), step.mean_norm))

    gdadmm(build("elu", (6,), 2, hidden=4), X, Y, defence, n_outer=5, group_size=10, eta0=0.1, callbacks=[look])
    assert len(norms) == 5
    for measured, recorded in norms:
        assert measured == pytest.approx(recorded, rel=1e-5)
