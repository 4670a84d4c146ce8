"""gdadmm on several ranks against one process with the same groups."""

from pathlib import Path

import pytest
import torch
from rank_cases import Case, D, all_trained, expected

import gsat
from gsat import attacks
from ranks import on_ranks

BLOCKS = [j // 3 for j in range(D)]
COSTS = [
    gsat.Universal(0.3),
    gsat.GroupSparse(0.3),
    gsat.GroupSparse(0.3, k=3),
    gsat.GroupSparse(0.3, feature_groups=BLOCKS),
    gsat.GroupSparse(0.3, k=2, feature_groups=BLOCKS),
    gsat.LowRank(0.3),
    gsat.LowRank(0.3, k=2),
    gsat.Unstructured(),
]
SOLVERS = ["proximal", "admm", "linearised"]
CASES = [
    Case(cost, solver, plain=(i + j) % 2 == n, metric=i % 3 == j, lam="auto" if i % 2 == j % 2 else 0.3, group=group)
    for n, group in enumerate(["shared", "own"])
    for i, cost in enumerate(COSTS)
    for j, solver in enumerate(SOLVERS)
]
CASES += [Case(gsat.Universal(0.3), n_inner=20, lam="auto")]  # enough gradients for a tournament of shifts
CASES += [
    Case(gsat.PerBatch(cost), batches=True, lam="auto", group=group) for group in ("shared", "own") for cost in COSTS
]
CASES += [Case(gsat.PerBatch(cost, n_random=3), lam="auto") for cost in (gsat.Universal(0.3), gsat.LowRank(0.3))]
ATTACKS = [
    attacks.Universal(0.8, steps=6),
    attacks.GroupSparse(0.8, k=3, steps=6),
    attacks.GroupSparse(0.8, k=2, feature_groups=BLOCKS, steps=6),
    attacks.LowRank(0.8, rank=2, steps=6),
]
CASES += [
    Case(attack, plain=(i + n) % 2 == 0, group=group)
    for i, attack in enumerate(ATTACKS)
    for n, group in enumerate(["shared", "own"])
]


@pytest.mark.parametrize("world", [2])
def test_ranks_take_the_steps_of_one_process_with_the_same_groups(world: int, tmp_path: Path) -> None:
    found = on_ranks(all_trained, world, tmp_path, CASES)
    for i, case in enumerate(CASES):
        for own in found[1:]:
            assert torch.equal(own[i][0], found[0][i][0]), case
        weights, lam, mean_norm = expected(case, world)
        assert torch.allclose(found[0][i][0], weights, rtol=0, atol=1e-6), case
        assert found[0][i][1:] == (lam if lam is None else pytest.approx(lam), pytest.approx(mean_norm)), case
        assert mean_norm > 1e-2, case
