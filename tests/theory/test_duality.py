"""Maxima from above, the best price on exact problems, and limits of means."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import gsat
from gsat import transport
from gsat.solvers.oracle import Oracle
from gsat.theory.dual import best_lam, concave_maximum
from gsat.theory.intervals import mean_at_least, student
from networks import COSTS, net
from strategies import normal

# ---- maxima from above


def inner_problem(cost, seed=0, m=5, factor=1.3):
    """A group, its loss, and a price at which S is concave."""
    model, x = net(4, 6, 3, seed=seed, gain=1.5), normal(m, 4, seed=seed)
    y, beta = torch.arange(m) % 3, gsat.curvature_bound(model)
    lam = factor * beta / (2 * cost.ridge)
    model.requires_grad_(False)
    return lambda z: cross_entropy(model(z), y, reduction="none"), x, lam, 2 * lam * cost.ridge - beta


def on_structure(name, u):
    return u.mean(0).expand_as(u).clone() if name == "universal" else u


@pytest.mark.parametrize("n_inner", [2, 3, 6])
@pytest.mark.parametrize("name", COSTS)
def test_the_slope_is_a_super_gradient(name, n_inner):
    """S(U) ≤ S(Δ) + ⟨s, U − Δ⟩ − μ/2·‖U − Δ‖² for every U."""
    cost = COSTS[name]
    for seed in range(8):
        loss, x, lam, modulus = inner_problem(cost, seed)
        found = concave_maximum(Oracle(loss, x), cost, lam=lam, modulus=modulus, n_inner=n_inner)
        value = float(found.losses.sum()) - lam * float(cost.value(found.delta))
        assert found.losses.tolist() == pytest.approx(loss(x + found.delta).tolist())
        for trial in range(20):
            u = on_structure(name, found.delta + normal(*x.shape, seed=trial) * 10.0 ** (trial % 5 - 3))
            step = u - found.delta
            at = float(loss(x + u).sum()) - lam * float(cost.value(u))
            room = value + float((found.slope * step).sum()) - modulus / 2 * float(step.square().sum()) - at
            assert room >= -1e-9 * max(1, abs(value), abs(at))


@pytest.mark.parametrize("name", COSTS)
def test_a_short_ascent_is_corrected_by_its_gap(name):
    cost, first = COSTS[name], []
    for seed in range(6):
        loss, x, lam, modulus = inner_problem(cost, seed, factor=1.05)
        runs = [concave_maximum(Oracle(loss, x), cost, lam=lam, modulus=modulus, n_inner=n) for n in (2, 3, 5, 400)]
        values = [float(run.losses.sum()) - lam * float(cost.value(run.delta)) for run in runs]
        gaps = [run.gap(modulus) for run in runs]
        best = max(values[-1], len(x) * gsat.maximise(loss, x, cost, lam=lam, n_inner=200).objective)
        assert gaps[-1] <= 1e-9 * best
        assert values[-1] == pytest.approx(best, rel=1e-8)
        for value, gap in zip(values, gaps, strict=True):
            assert value <= best + 1e-9
            assert value + gap >= best - 1e-9
        assert gaps[0] >= gaps[1] >= gaps[2] >= gaps[3]
        first.append(gaps[0] / best)
    assert max(first) > 1e-4  # it has something to correct


def test_the_slope_is_the_gradient_where_the_cost_is_smooth():
    """So the sign of the last term of s is right."""
    cost = gsat.Unstructured()
    loss, x, lam, modulus = inner_problem(cost)
    found = concave_maximum(Oracle(loss, x), cost, lam=lam, modulus=modulus, n_inner=2)
    gradient = Oracle(loss, x)(found.delta)[1] - 2 * lam * found.delta
    torch.testing.assert_close(found.slope, gradient, rtol=1e-9, atol=1e-12)
    assert float(gradient.norm()) > 1e-4


def test_the_gap_is_exact_for_a_loss_of_constant_curvature():
    """S is then a parabola with the modulus μ in every direction, and S(Δ) + ‖s‖²/(2μ) its maximum."""
    beta, lam, x, centre = 1.7, 1.4, normal(3, 4, seed=1), normal(3, 4, seed=2)
    found = concave_maximum(
        Oracle(lambda z: beta / 2 * (z - centre).square().sum(1), x),
        gsat.Unstructured(),
        lam=lam,
        modulus=2 * lam - beta,
        n_inner=2,
    )
    value = float(found.losses.sum()) - lam * float(found.delta.square().sum())
    # max_δ β/2·‖δ + a‖² − λ‖δ‖² = ‖a‖²·λβ/(2λ − β)
    exact = float((x - centre).square().sum()) * lam * beta / (2 * lam - beta)
    assert value < 0.9 * exact
    assert value + found.gap(2 * lam - beta) == pytest.approx(exact, rel=1e-12)
    assert float(found.gaps(2 * lam - beta).sum()) == pytest.approx(found.gap(2 * lam - beta), rel=1e-12)


# ---- the best price: exact problems


def small(name, seed):
    """Atoms, weights, a loss at each atom of z, and m; for universal z is made of shifted x."""
    rng = np.random.default_rng(seed)
    x, p = rng.normal(size=(2, 3)), rng.dirichlet(np.ones(2))
    shifts = np.concatenate([np.zeros((1, 3)), rng.normal(size=(2, 3))])
    z = (x[None] + shifts[:, None]).reshape(-1, 3)
    if name != "universal":
        z = np.concatenate([x, rng.normal(size=(3, 3))])
    return x, p, z, rng.normal(size=len(z)) ** 2


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("name", COSTS)
def test_the_bound_at_the_best_price_is_the_worst_risk(name, m):
    cost = COSTS[name]
    x, p, z, loss = small(name, seed=m)
    groups = [list(group) for group in product(range(len(x)), repeat=m)]
    weights = np.array([p[group].prod() for group in groups])

    targets = np.array(list(product(range(len(z)), repeat=m)))
    moves = torch.from_numpy(z[targets][None] - x[groups][:, None])
    costs = np.array([[float(cost.value(move)) for move in row] for row in moves])

    def dual(lam):
        values = (loss[targets].sum(1) - lam * costs) / m
        best = values.argmax(1)
        return weights @ values.max(1), weights @ costs[np.arange(len(groups)), best] / m

    largest = dual(1e-9)[1]
    worst = []
    for radius in (0.0, 0.03 * largest, 0.2 * largest, 0.7 * largest, 1.5 * largest):
        worst.append(transport.worst_risk_within(loss, x, p, z, cost, m, radius).value)
        lam = best_lam(dual, radius, start=0.3, ratio=1 + 1e-10)
        mean = weights @ [transport.c_transform(loss, x[group], z, cost, lam).value for group in groups]
        assert lam * radius + mean == pytest.approx(worst[-1], abs=1e-6)
    assert worst[0] == pytest.approx(p @ loss[: len(x)], abs=1e-6)
    assert all(a < b for a, b in pairwise(worst[:4]))
    assert worst[-1] == pytest.approx(dual(1e-9)[0], abs=1e-6)


# ---- intervals


@pytest.mark.parametrize("law", ["exponential", "lognormal", "rare"])
def test_the_lower_limit_of_a_mean_is_right_as_often_as_it_says(law):
    rng, error, wrong, tight = np.random.default_rng(0), 0.2, 0, []
    for _ in range(400):
        values, mean = {
            "exponential": (rng.exponential(2.0, 40), 2.0),
            "lognormal": (rng.lognormal(0.0, 1.5, 40), np.exp(1.125)),
            "rare": (50.0 * (rng.random(40) < 0.02) + 0.1, 1.1),
        }[law]
        limit = mean_at_least(values, error)
        wrong += limit > mean
        tight.append(limit / values.mean())
    assert wrong <= 400 * error
    assert 0.05 < np.median(tight) < 1


def test_the_lower_limit_of_nearly_constant_values_is_near_them():
    values = 3.0 + 0.01 * np.random.default_rng(1).normal(size=50)
    assert 0.85 * 3 < mean_at_least(values, 0.025) < values.mean()
    assert mean_at_least(values, 1e-6) < mean_at_least(values, 0.025)
    assert mean_at_least(1e-9 * values, 0.025) == pytest.approx(1e-9 * mean_at_least(values, 0.025))
    assert mean_at_least(np.zeros(9), 0.1) == 0
    assert mean_at_least(np.array([0.0, 0.0, 0.0, 1.0]), 0.01) < 0.05
    with pytest.raises(ValueError, match="values must be >= 0, got -1"):
        mean_at_least(np.array([2.0, -1.0]), 0.1)


def test_student():
    low, high = student(np.array([1.0, 2.0, 4.0, 5.0]), 0.9)
    assert (low, high) == pytest.approx((3 - 2.353363 * 1.825742 / 2, 3 + 2.353363 * 1.825742 / 2), rel=1e-5)
