"""Costs of columns behind a linear first layer: the ascent in the row space finds what the plain path finds."""

import math

import pytest
import torch
from torch import nn

import gsat
from gsat.costs import scaled
from gsat.models import seeded
from gsat.shortcuts.paths import Columns, Plain
from networks import Opaque, Skip
from strategies import normal

M, D, H, K = 24, 60, 7, 3
MASK = torch.arange(D) % 3 > 0
BLOCKS = [j // 4 for j in range(D)]
COSTS = [
    gsat.GroupSparse(0.2),
    gsat.GroupSparse(0.6),
    gsat.GroupSparse(0.0),
    gsat.GroupSparse(0.3, feature_groups=BLOCKS),
    scaled(gsat.GroupSparse(0.15), 1.7),
    scaled(gsat.GroupSparse(0.2, feature_groups=BLOCKS), 0.6),
]
HARD = [gsat.GroupSparse(0.4, k=9), scaled(gsat.GroupSparse(0.3, k=4, feature_groups=BLOCKS), 1.3)]


def network(dtype=torch.float64, bias=True, h=H):
    with seeded(3):
        model = nn.Sequential(nn.Flatten(), nn.Linear(D, h, bias=bias), nn.ELU(), nn.Linear(h, K))
    for weight in model.parameters():
        weight.data *= 2.5
    return model.to(dtype).eval()


def group(dtype=torch.float64, m=M, shape=(D,)):
    return normal(m, *shape, seed=1).to(dtype), torch.arange(m) % K


def solved(cost, model, x, y, **options):
    """The path, and the solution of both paths: the ascent in the row space, and that of the features."""
    path, found = gsat.Adversary(cost, **options).solve(model, x, y)
    plain, expected = gsat.Adversary(cost, **options).solve(Opaque(model), x, y)
    assert type(plain) is Plain
    return path, found, expected


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "mask"])
@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_both_paths_end_at_the_same_maximum(cost, mask, bias):
    x, y = group(shape=(12, 5))
    mask = None if mask is None else mask.view(12, 5)
    path, found, expected = solved(cost, network(bias=bias), x, y, lam=0.5, n_inner=1500, feature_mask=mask)
    assert isinstance(path, Columns)
    assert float(expected.delta.norm()) > 0.1
    torch.testing.assert_close(found.delta, expected.delta, rtol=0, atol=1e-6)
    assert found.objective == pytest.approx(expected.objective, rel=1e-9)
    assert found.residual < 1e-6
    assert cost.measure(found.delta) == cost.measure(expected.delta)
    if mask is not None:
        assert not found.delta[:, ~mask].any()


@pytest.mark.parametrize("m", [3, 24, 60])  # fewer samples than units, and more
@pytest.mark.parametrize("n_inner", [2, 5, 20])
@pytest.mark.parametrize("cost", COSTS + HARD, ids=repr)
def test_with_few_gradients_it_gains_as_much(cost, n_inner, m):
    x, y = group(m=m)
    path, found, expected = solved(cost, network(h=10), x, y, lam=0.4, n_inner=n_inner)
    rest = float(nn.functional.cross_entropy(network(h=10)(x), y).detach())
    assert isinstance(path, Columns)
    assert found.n_gradients <= n_inner
    assert found.objective - rest >= 0.9 * (expected.objective - rest) - 1e-9
    again = gsat.Adversary(cost, lam=0.4, n_inner=n_inner)
    moved = again(network(h=10), x, y)
    losses = nn.functional.cross_entropy(network(h=10)(moved), y, reduction="sum")
    assert float(losses.detach()) - 0.4 * float(cost.value(moved - x)) == pytest.approx(m * found.objective, rel=1e-9)


@pytest.mark.parametrize("cost", HARD, ids=repr)
def test_at_most_k_columns_move(cost):
    x, y = group()
    _, found, expected = solved(cost, network(), x, y, lam=0.5, n_inner=300)
    assert 0 < cost.measure(found.delta) <= getattr(cost, "cost", cost).k
    assert found.objective >= 0.97 * expected.objective


@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_float32(cost):
    x, y = group(torch.float32)
    path, found, expected = solved(cost, network(torch.float32), x, y, lam=0.6, n_inner=200)
    assert isinstance(path, Columns)
    assert found.objective == pytest.approx(expected.objective, rel=1e-4)
    assert float((found.delta - expected.delta).norm() / expected.delta.norm()) < 5e-3


def test_it_is_left_alone_where_it_would_not_hold():
    x, y = group()
    cases = {
        "solver": ({"solver": "admm"}, network()),
        "bounds": ({"bounds": (-2, 2)}, network()),
        "skip": ({}, Skip(network())),
        "units": ({}, network(h=D)),
    }
    for options, model in cases.values():
        path, _ = gsat.Adversary(gsat.GroupSparse(0.2), lam=0.5, n_inner=4, **options).solve(model, x, y)
        assert type(path) is Plain
    for cost in (gsat.GroupSparse(1.0), gsat.PerBatch(gsat.GroupSparse(0.2), n_random=3)):
        path, _ = gsat.Adversary(cost, lam=0.5, n_inner=4).solve(network(), x, y, warn=False)
        assert type(path) is Plain


def test_a_price_that_nothing_pays_leaves_the_group_alone():
    x, y = group()
    path, found = gsat.Adversary(gsat.GroupSparse(0.5), lam=1e4, n_inner=20).solve(network(), x, y)
    assert isinstance(path, Columns)
    assert not found.delta.any()
    assert found.delta.shape == x.shape


def test_an_ascent_without_end_stops_within_reach_and_says_so():
    x, y = group()
    adversary = gsat.Adversary(gsat.GroupSparse(0.1), lam=1e-6, loss=lambda z, y: z.square().sum(1))
    with pytest.warns(RuntimeWarning, match="no maximum"):
        path, found = adversary.solve(network(), x, y)
    assert isinstance(path, Columns)
    assert float(found.delta.norm()) <= 1000 * float(x.norm()) * (1 + 1e-9)


def test_a_trial_that_is_not_finite_is_a_rejected_step():
    x, y = group()

    def loss(z, y):
        return torch.where(z.norm(dim=1) > 30, math.nan, nn.functional.cross_entropy(z, y, reduction="none"))

    path, found = gsat.Adversary(gsat.GroupSparse(0.1), lam=0.01, loss=loss, n_inner=40).solve(network(), x, y)
    rest = float(nn.functional.cross_entropy(network()(x), y).detach())
    assert isinstance(path, Columns)
    assert found.delta.isfinite().all()
    assert found.objective > rest


def test_training_takes_the_same_way():
    x, y = group(m=60)
    weights = []
    for wrap in (nn.Sequential, Opaque):
        model = wrap(network())
        defence = gsat.defences.GSAT(gsat.GroupSparse(0.1), n_inner=400)
        gsat.gdadmm(model, x, y, defence, n_outer=4, group_size=20, eta0=1e-2, lam=20.0)
        weights.append(torch.cat([weight.detach().reshape(-1) for weight in model.parameters()]))
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-5, atol=1e-5)
