"""What two ranks decide together: where a run ends, what is kept, and that nobody waits for a rank that has left."""

import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rank_runs import ALL, DEFENCES, all_runs, leave_at_once, net, samples, slow, train

from gsat._ranks import RankLeft
from gsat.training import Diverged
from ranks import on_ranks, start


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def found(folder: Path) -> list[dict[str, Any]]:
    """The outcome of every run on each of two ranks."""
    return on_ranks(all_runs, 2, folder, folder)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", [name for name in ALL if name.startswith("nan")])
def test_a_loss_that_is_not_finite_on_one_rank_ends_all_with_the_same_message(found: Any, name: str) -> None:
    messages = {str(own[name]) for own in found}
    assert all(isinstance(own[name], Diverged) for own in found)
    assert len(messages) == 1
    assert "not finite at step 0" in messages.pop() or "nan at step 0" in str(found[0][name])


@pytest.mark.parametrize(
    ("name", "kind"), [("fault own", KeyError), ("fault shared", KeyError), ("wrong input", ValueError)]
)
def test_a_rank_that_fails_tells_why_and_the_other_does_not_wait(found: Any, name: str, kind: type) -> None:
    assert isinstance(found[1][name], kind)
    assert isinstance(found[0][name], RankLeft)
    assert "the message of that process says why" in str(found[0][name])


@pytest.mark.parametrize("name", ["fewer own", "fewer shared"])
def test_a_rank_may_have_fewer_samples(found: Any, name: str) -> None:
    (weights, lam), (others, same_lam) = found[0][name], found[1][name]
    assert same(weights, others)
    assert lam == same_lam


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other samples", r"X must be the same on all ranks, which share it out, got \[50, 51\]"),
        ("one sample", r"every rank needs at least one sample, got \[1, 0\]"),
        ("own cost", 'group="shared" needs a cost whose sums go over all ranks .* got Own'),
        ("own attack", 'group="shared" needs a defence .* got structured'),
        ("attack per batch", 'universal with batch= needs group="own"'),
        ("tiny group", r"group_size must be at least the number of ranks \(2\), got 1"),
        ("many features", "needs at most 4,096 features, .* got 4,097"),
    ],
)
def test_what_cannot_be_done_is_told_on_every_rank(found: Any, name: str, message: str) -> None:
    for own in found:
        with pytest.raises(ValueError, match=message):
            raise own[name]


def test_who_leaves_as_soon_as_all_have_joined_is_not_missed_by_the_others(tmp_path: Path) -> None:
    assert on_ranks(leave_at_once, 2, tmp_path, 60) == [["mine"] * 60] * 2


@pytest.mark.parametrize("measure", ["accuracy", "loss"])
def test_ranks_stop_early_together_and_measure_as_one_process(found: Any, measure: str) -> None:
    steps, best, early = found[0][f"validation {measure}"]
    assert (steps, best, early) == found[1][f"validation {measure}"]
    assert early
    assert len(steps) < 60
    assert any((step.validation_loss if measure == "loss" else step.validation) == best for step in steps)


def test_statistics_of_batch_norm_are_averaged(found: Any) -> None:
    both = [own["batch norm"] for own in found]
    assert same(both[0][0], both[1][0])
    for name in ("1.running_mean", "1.running_var"):
        mean = (both[0][1][name] + both[1][1][name]) / 2
        assert not torch.allclose(both[0][1][name], both[1][1][name])
        assert torch.allclose(both[0][0][name], mean, atol=1e-6)


@pytest.mark.parametrize("form", list(DEFENCES))
@pytest.mark.parametrize("how", ["mended", "again"])
def test_a_resumed_run_ends_with_the_bits_of_an_unbroken_one(found: Any, form: str, how: str, folder: Path) -> None:
    weights, steps = found[0][f"whole {form}"]
    for own in found:
        assert same(own[f"{how} {form}"][0], weights)
        assert own[f"{how} {form}"][1] == steps
    logs = {(folder / place / form / "log.jsonl").read_text() for place in ("whole", "broken", "stopped")}
    assert len(logs) == 1


@pytest.mark.parametrize("form", list(DEFENCES))
def test_a_signal_to_one_rank_stops_all_after_a_checkpoint(found: Any, form: str) -> None:
    assert isinstance(found[0][f"broken {form}"], RankLeft)
    assert [own[f"stopped {form}"].code for own in found] == [143, 143]


def test_another_number_of_ranks_is_refused_with_the_reason(found: Any, folder: Path) -> None:
    with pytest.raises(
        ValueError, match=r"is of a run of 2 processes and goes on with as many only, .* here there are 1"
    ):
        train(
            net(dropout=0.2), *samples(), DEFENCES["own"](), n_outer=16, ema=0.9, out=folder / "whole/own", resume=True
        )


@pytest.mark.parametrize("form", list(DEFENCES))
def test_a_run_of_which_a_rank_was_killed_ends_as_an_unbroken_one(form: str, tmp_path: Path) -> None:
    for rank in start(slow, 2, tmp_path, tmp_path / "whole", 0.0, form):
        assert rank.outcome() is None
    draw = random.Random(4)
    for kill in range(3):
        ranks = start(slow, 2, tmp_path, tmp_path / "killed", 0.02 if kill < 2 else 0.0, form)
        if kill < 2:
            log, before = tmp_path / "killed" / "log.jsonl", draw.randint(3, 9) * (kill + 1)
            while not log.exists() or len(log.read_bytes().splitlines()) < before:
                time.sleep(0.002)
            time.sleep(0.02 * draw.random())
            ranks[kill].process.kill()
            assert isinstance(ranks[kill].outcome(), EOFError)
            assert isinstance(ranks[1 - kill].outcome(), RankLeft)
        else:
            assert [rank.outcome() for rank in ranks] == [None, None]
    for end in ("end0.pt", "end1.pt"):
        whole, killed = (torch.load(tmp_path / place / end) for place in ("whole", "killed"))
        assert same(whole, killed)
    logs = {(tmp_path / place / "log.jsonl").read_text() for place in ("whole", "killed")}
    assert len(logs) == 1
