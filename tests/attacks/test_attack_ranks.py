"""Attacks on a group that several ranks share against one process with the same samples."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from attack_cases import CLASSES, Case, D, N, evaluated, fails, perturbations, samples, tables

import gsat
from gsat import attacks
from gsat._ranks import RankLeft
from ranks import on_ranks, outcomes

X, Y = samples()
BLOCKS = [j // 3 for j in range(D)]
METRIC = gsat.Metric.from_batches(X, Y)
STRUCTURED = [
    (attacks.Universal, {}),
    (attacks.GroupSparse, {"k": 3}),
    (attacks.GroupSparse, {"k": 2, "feature_groups": BLOCKS}),
    (attacks.LowRank, {"rank": 2}),
]
CASES = [
    Case(kind(0.8, steps=8, strength=strength, **options), plain=plain)
    for kind, options in [*STRUCTURED, (attacks.PGD, {})]
    for strength in ("fast", "standard")
    for plain in (False, True)
]
CASES += [Case(kind(0.8, steps=6, strength="strong", **options)) for kind, options in STRUCTURED]
CASES += [
    Case(kind(0.8, steps=8, restarts=2, random_start=True, metric=METRIC, **options)) for kind, options in STRUCTURED
]
CASES += [
    Case(kind(0.8, steps=8, loss="margin", bounds=(-3.0, 3.0), **options), plain=True) for kind, options in STRUCTURED
]
CASES += [
    Case(kind(0.8, steps=6, strength="standard", **options), surrogate=True) for kind, options in (*STRUCTURED[:2],)
]
CASES += [Case(attacks.FGM(0.8)), Case(attacks.LowRank(0.8, rank=20, steps=10)), Case(attacks.LowRank(0.8, rank=0))]
MASK = torch.arange(D) % 2 == 0
CASES += [Case(attacks.LowRank(0.8, rank=1, steps=10, feature_mask=MASK), plain=True)]


@pytest.mark.parametrize("world", [2])
def test_ranks_find_what_one_process_finds(world: int, tmp_path: Path) -> None:
    found = on_ranks(perturbations, world, tmp_path, CASES)
    for i, case in enumerate(CASES):
        whole = case.perturbation(X, Y)
        assert float(whole.norm()) > 1 or case.attack.size == 0, case
        assert torch.allclose(torch.cat([own[i] for own in found]), whole, rtol=0, atol=1e-6), case


TABLES = [*CASES[0:16:2], Case(attacks.PGD(0.8, steps=5)), Case(attacks.FGM(0.8))]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    return on_ranks(tables, 2, folder, TABLES, folder)


@pytest.mark.parametrize(
    ("name", "options"),
    [("groups", {"group_size": 22}), ("batches", {"batch": [f"b{i % 7 // 3}" for i in range(N)]})],
)
def test_all_ranks_return_the_table_of_one_process(found: Any, name: str, options: dict[str, Any]) -> None:
    whole = evaluated(TABLES, "own", **options)
    assert whole["accuracy"].nunique() > 3
    for own in found:
        pd.testing.assert_frame_equal(own[name], whole, rtol=1e-6)


def test_one_rank_writes_finished_rows_and_all_read_them(found: Any) -> None:
    for own in found:
        pd.testing.assert_frame_equal(own["again"], own["kept"])
        assert own["lines"] == own["lines again"] == len(own["kept"])


def test_a_single_process_shares_with_nobody() -> None:
    pd.testing.assert_frame_equal(evaluated(TABLES[:1], "shared"), evaluated(TABLES[:1], "own"))
    with pytest.raises(ValueError, match="group must be one of own, shared, got 'all'"):
        evaluated(TABLES[:1], "all")


def test_other_samples_are_told_on_all_ranks(tmp_path: Path) -> None:
    for error in outcomes(fails, 2, tmp_path, "sizes"):
        assert isinstance(error, ValueError)
        assert "X must be the same in all processes" in str(error)
        assert f"[{N}, {N - 1}]" in str(error)


def test_a_rank_that_cannot_go_on_takes_the_others_with_it(tmp_path: Path) -> None:
    first, second = outcomes(fails, 2, tmp_path, "leaves")
    assert isinstance(first, RankLeft)
    assert "y must have one label per sample" in str(second)


def test_a_loss_that_is_not_finite_on_one_rank_ends_all(tmp_path: Path) -> None:
    for error in outcomes(fails, 2, tmp_path, "overflow"):
        assert isinstance(error, FloatingPointError)
        assert "not finite" in str(error)


def test_the_classes_of_both_ranks_count() -> None:
    assert set(Y[: N // 2].tolist()) < set(range(CLASSES)) == set(Y.tolist())
