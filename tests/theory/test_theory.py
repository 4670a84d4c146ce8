"""Theorem 3: the step sizes, the measure of stationarity, and training that becomes stationary with them."""

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import gsat
from gsat.solvers.admm import ADMMState
from gsat.solvers.oracle import Oracle
from gsat.theory.step_sizes import _maximiser
from strategies import normal

COSTS = [gsat.Universal(0.3), gsat.GroupSparse(0.05), gsat.LowRank(0.1), gsat.Unstructured()]


@pytest.fixture(scope="module")
def benchmark():
    """The benchmark as a module: its problem is smooth and meets the assumptions."""
    path = Path(__file__).parents[2] / "benchmarks" / "stationarity.py"
    spec = importlib.util.spec_from_file_location("stationarity_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- the step sizes


def test_the_step_sizes_by_hand():
    """β = 0.6, λ(1−α) = 1.5, ρ = 0.4: ℓ̃ = 0.6 + 3 + 0.4 = 4, mu = 2.4, κ = 5/3."""
    steps = gsat.schedule(beta=0.6, lam=2.0, alpha=0.25, rho=0.4)
    assert (steps.ell, steps.mu, steps.kappa) == pytest.approx((4.0, 2.4, 5 / 3))
    assert steps.eta1 == pytest.approx(0.25)
    assert steps.eta0 == pytest.approx(1 / (16 * (8 / 3) ** 2 * 4))
    assert steps.reach == pytest.approx(0.6 / 2.4)
    assert steps.smoothness == pytest.approx(0.6 + 0.36 / 2.4)
    with pytest.raises(AttributeError, match="cannot assign"):
        steps.eta0 = 1.0


def test_the_bound_of_theorem_3_by_hand():
    """With the numbers above and a = 1.5: 128·(25/9)·4·0.5 = 711.1, 5·(5/3)·16·0.09 = 12, (1 + 1.5·√(3 + 0.4/1.5))²."""
    steps = gsat.schedule(beta=0.6, lam=2.0, alpha=0.25, rho=0.4)
    last = (1 + 1.5 * math.sqrt(3 + 0.4 / 1.5)) ** 2
    assert steps.iterations(0.1, gap=0.5, distance=0.3) == pytest.approx((6400 / 9 + 12) * last * 100)
    assert steps.iterations(0.01, gap=0.5) == pytest.approx(100 * steps.iterations(0.1, gap=0.5))
    with pytest.raises(ValueError, match=r"eps must be > 0, got 0"):
        steps.iterations(0, gap=1)
    with pytest.raises(ValueError, match=r"gap must be >= 0, got -1"):
        steps.iterations(0.1, gap=-1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": 1.6}, r"beta must be <= lam·\(1 − alpha\) = 1\.5, got 1\.6; take lam >= 2\.13333"),
        ({"alpha": 0.71}, r"beta must be <= lam·\(1 − alpha\) = 0\.58, got 0\.6"),
        ({"alpha": 1.0}, r"alpha must be >= 0 and < 1, got 1\.0"),
        ({"alpha": -0.1}, r"alpha must be >= 0 and < 1, got -0\.1"),
        ({"beta": 0.0}, r"beta must be > 0, got 0\.0"),
        ({"lam": -2.0}, r"lam must be > 0, got -2\.0"),
        ({"rho": 0.0}, r"rho must be > 0, got 0\.0"),
    ],
)
def test_outside_the_regime(change, message):
    with pytest.raises(ValueError, match=message):
        gsat.schedule(**{"beta": 0.6, "lam": 2.0, "alpha": 0.25, "rho": 0.4, **change})


def test_the_border_of_the_regime_belongs_to_it():
    assert gsat.schedule(1.5, 2.0, 0.25, 0.4).mu == pytest.approx(1.5)


@pytest.mark.parametrize("cost", COSTS[:3], ids=repr)
def test_admm_converges_with_the_corrected_step_and_not_with_the_printed_one(cost):
    beta, rho, m = 0.8, 0.7, 6
    lam = 2 * beta / (1 - cost.alpha)
    peak, x = normal(m, 4, seed=2), torch.zeros(m, 4, dtype=torch.float64)

    def loss(z):  # its curvature is −β: the worst for a long step
        return -beta / 2 * (z - 3 * peak).square().sum(1)

    steps = gsat.schedule(beta, lam, cost.alpha, rho)
    best = gsat.maximise(loss, x, cost, lam=lam, n_inner=400).objective
    found = gsat.maximise(loss, x, cost, lam=lam, solver=gsat.ADMM(rho=rho, eta1=steps.eta1), n_inner=400)
    assert found.objective == pytest.approx(best, rel=1e-6)
    assert found.residual < 1e-6
    long = gsat.maximise(loss, x, cost, lam=lam, solver=gsat.ADMM(rho=rho, eta1=1 / beta), n_inner=60)
    assert not long.delta.any()  # far worse than not to move at all
    assert best > long.objective + 0.05


# ---- how far from stationary


def largest(weight, x, y, cost, lam):
    """F(w) for the loss −y·⟨w, x⟩, which is straight in x: the inner maximum has a closed form."""
    slope = -y[:, None] * weight
    delta = cost.linear_maximum(slope.detach(), lam)
    return ((-y * (x @ weight)).sum() + (slope * delta).sum() - lam * cost.value(delta)) / len(x)


class Straight(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return x @ self.weight


def straight_loss(outputs, y):
    return -y * outputs


@pytest.mark.parametrize(
    "cost", [*COSTS, gsat.PerBatch(gsat.Universal(0.3)).bind("aabbba")], ids=lambda c: type(c).__name__
)
def test_the_closed_form_of_a_straight_loss(cost):
    x, y, lam = normal(6, 4, seed=1), torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, 1.0]).double(), 0.8
    weight = normal(4, seed=2).requires_grad_()
    (slope,) = torch.autograd.grad(largest(weight, x, y, cost, lam), weight)
    found = gsat.stationarity(Straight(weight.detach()), x, y, cost, lam, loss=straight_loss)
    assert found == pytest.approx(float(slope.norm()), rel=1e-9)
    still = float((-y[:, None] * x).mean(0).norm())
    assert abs(found - still) > 0.01 * still  # the adversary makes a difference


@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_it_is_the_gradient_of_the_inner_maximum(cost):
    """Against central differences of F along random directions, for a network; the largest of all is ‖∇F‖."""
    x, y, lam = normal(7, 4, seed=3), torch.arange(7) % 3, 6.0
    model = gsat.models.build("elu", (4,), 3, seed=1, hidden=5).double()

    def value(shift):
        moved = [weight.detach() + part for weight, part in zip(model.parameters(), shift, strict=True)]

        def loss(z):
            out = torch.func.functional_call(model, dict(zip(dict(model.named_parameters()), moved, strict=True)), (z,))
            return cross_entropy(out, y, reduction="none")

        return gsat.maximise(loss, x, cost, lam=lam, n_inner=300).objective

    shapes, step = [weight.shape for weight in model.parameters()], 1e-5
    parts, total = [torch.zeros(shape, dtype=torch.float64) for shape in shapes], 0.0
    for part in parts:
        for index in range(part.numel()):
            ends = []
            for sign in (1, -1):
                part.view(-1)[index] = sign * step
                ends.append(value(parts))
            part.view(-1)[index] = 0
            total += ((ends[0] - ends[1]) / (2 * step)) ** 2
    assert gsat.stationarity(model, x, y, cost, lam) == pytest.approx(math.sqrt(total), rel=1e-4)


def test_it_is_zero_at_a_minimum_and_at_weights_that_are_held():
    x, y = normal(8, 3, seed=4), torch.tensor([1.0, -1.0] * 4).double()
    centre = (y[:, None] * x).mean(0)

    def loss(outputs, labels):  # ½‖w‖² is carried in the second column; the mean of −y·x·w is −w·centre
        return -labels * outputs[:, 0] + outputs[:, 1]

    class Regular(Straight):
        def forward(self, z):
            return torch.stack([z @ self.weight, (self.weight.square().sum() / 2).expand(len(z))], 1)

    cost, lam = gsat.Unstructured(), 2.0  # F = ½‖w‖² − w·centre + ‖w‖²/(4λ)
    best = centre / (1 + 1 / (2 * lam))
    assert gsat.stationarity(Regular(best), x, y, cost, lam, loss=loss) < 1e-12
    assert gsat.stationarity(Regular(2 * best), x, y, cost, lam, loss=loss) == pytest.approx(float(centre.norm()))
    model = gsat.models.build("elu", (3,), 2, seed=1, hidden=4)
    whole = gsat.stationarity(model, x.float(), y > 0, cost, lam)
    model[1].requires_grad_(False)
    assert 0 < gsat.stationarity(model, x.float().numpy(), (y > 0).numpy(), cost, lam) < whole
    with pytest.raises(ValueError, match="model must have weights that require a gradient, got none"):
        gsat.stationarity(model.requires_grad_(False), x.float(), y > 0, cost, lam)


def test_the_model_is_left_as_it_is():
    x, y = normal(6, 3, seed=5, dtype=torch.float32), torch.arange(6) % 2
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.ELU(), nn.Linear(4, 2)).train()
    cross_entropy(model(x), y).backward()
    before = [(weight.clone(), weight.grad.clone()) for weight in model.parameters()]
    first, second = (gsat.stationarity(model, x, y, gsat.LowRank(0.1), 3.0) for _ in range(2))
    assert first == second > 0
    assert model.training
    for weight, (value, grad) in zip(model.parameters(), before, strict=True):
        assert torch.equal(weight, value)
        assert torch.equal(weight.grad, grad)


def test_inputs():
    x, y, model = normal(6, 3, seed=6), torch.arange(6) % 2, gsat.models.build("elu", (3,), 2, hidden=4)
    with pytest.raises(ValueError, match=r"lam must be > 0, got 0"):
        gsat.stationarity(model, x, y, gsat.LowRank(), 0)
    with pytest.raises(ValueError, match=r"y must have one label per sample of X \(6, at least 1\), got 5"):
        gsat.stationarity(model, x, y[:5], gsat.LowRank(), 1.0)
    batch = ["a", "b", "a", "b", "a", "b"]
    per_batch = gsat.stationarity(model, x, y, gsat.PerBatch(gsat.Universal(0.2)), 1.0, batch=batch)
    assert per_batch != gsat.stationarity(model, x, y, gsat.Universal(0.2), 1.0)
    steep = gsat.models.build("elu", (3,), 2, hidden=40)
    with torch.no_grad():
        for weight in steep.parameters():
            weight *= 8
    with pytest.warns(RuntimeWarning, match="inner maximum was not found to high accuracy: at n_inner = 3 the next"):
        gsat.stationarity(steep, x, y, gsat.LowRank(0.1), 1e-3, n_inner=3)


# ---- training with these steps


@pytest.mark.parametrize("cost", COSTS[:3], ids=repr)
def test_training_becomes_stationary(cost, benchmark):
    beta = (benchmark.B**2 + benchmark.R**2) / (6 * math.sqrt(3)) + 0.25 + benchmark.TAU
    lam, rho = 2 * beta / (1 - cost.alpha), beta / 2
    steps = gsat.schedule(beta, lam, cost.alpha, rho)
    quick = replace(steps, eta0=8 * steps.eta0)  # a test has no time
    marks, values, (w, far, size) = benchmark.descend(cost, lam, quick, rho, 1500)
    means = benchmark.averages(marks, values)
    assert values[-1] < 0.02 * values[0]
    assert means[-1] < 0.5 * means[0]
    assert w < benchmark.B
    assert far < benchmark.R
    assert size > 0.01
    eps = 1.2 * means[-1] ** 0.5
    measured, allowed = benchmark.first_below(marks, means, eps), benchmark.bound(cost, lam, steps, eps)
    assert 1 < measured < 1500
    assert 8 * measured < allowed  # eight of the steps that the theorem is about are one here


def test_the_first_iteration_below_a_size(benchmark):
    marks, means = np.array([1, 10, 100]), np.array([1.0, 1e-2, 1e-4])
    assert benchmark.first_below(marks, means, 10**-1.5) == pytest.approx(10**1.5)
    assert benchmark.first_below(marks, means, 10**-0.5) == pytest.approx(10**0.5)
    assert benchmark.first_below(marks, means, 1.0) == 1
    assert benchmark.first_below(marks, means, 1e-3) == math.inf


@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_the_smoothness_of_f(cost, benchmark):
    """Lemma 2: Δ*(w)/√m moves at most β/μ times as far as w, and ∇F turns at most β + β²/μ times as fast."""
    beta = (benchmark.B**2 + benchmark.R**2) / (6 * math.sqrt(3)) + 0.25 + benchmark.TAU
    lam = 1.02 * beta / (1 - cost.alpha)  # near the border of the regime, where the bounds are largest
    steps = gsat.schedule(beta, lam, cost.alpha)
    x, y = benchmark.problem()
    moved, turned = [], []
    for seed in range(8):
        one, way = normal(benchmark.D, seed=seed), normal(benchmark.D, seed=100 + seed)
        one = one * 0.9 / one.norm()
        other = one + (0.01 if seed % 2 else 0.4) * way / way.norm()
        (first, first_slope), (second, second_slope) = (_maximum(w, x, y, cost, lam, benchmark) for w in (one, other))
        far = float((other - one).norm())
        moved.append(float((second - first).norm()) / math.sqrt(len(x)) / far)
        turned.append(float((second_slope - first_slope).norm()) / far)
    assert 0.02 * steps.reach < max(moved) <= steps.reach
    assert 0.05 * steps.smoothness < max(turned) <= steps.smoothness


def _maximum(w, x, y, cost, lam, benchmark):
    """Δ*(w) and ∇F(w), by Danskin's theorem."""
    model = benchmark.Linear(w).requires_grad_(False)
    delta = _maximiser(lambda z: benchmark.smooth_loss(model(z), y), x, cost, lam, 1000, None)
    model.requires_grad_(True)
    (slope,) = torch.autograd.grad(benchmark.smooth_loss(model(x + delta), y).mean(), model.w)
    return delta, slope


def test_the_smoothness_of_the_benchmark(benchmark):
    """No Hessian of the loss in (w, x) has a larger norm than β, on the set on which it is claimed."""
    beta = (benchmark.B**2 + benchmark.R**2) / (6 * math.sqrt(3)) + 0.25 + benchmark.TAU
    d, top = benchmark.D, 0.0
    for seed in range(60):
        v = normal(2, d, seed=seed)
        w, x = (radius * part / part.norm() for radius, part in zip((benchmark.B, benchmark.R), v, strict=True))
        x = x + (0.9 if seed % 2 else 0.0) * (benchmark.R * w / w.norm() - x)  # also samples along w
        y = torch.tensor([1.0 if seed % 4 < 2 else -1.0]).double()

        def loss(both, y=y):
            outputs = torch.stack([both[:d] @ both[d:], benchmark.TAU / 2 * both[:d].square().sum()])
            return benchmark.smooth_loss(outputs[None], y)[0]

        hessian = torch.autograd.functional.hessian(loss, torch.cat([w, x]))
        top = max(top, float(torch.linalg.eigvalsh(hessian).abs().max()))
    assert 0.5 * beta < top <= beta


def test_the_slope_and_the_averages_of_the_benchmark(benchmark):
    marks = np.unique(np.geomspace(1, 10_000, 80).round()).astype(int)
    assert benchmark.slope(marks, 3.0 / marks) == pytest.approx(-1)
    assert benchmark.averages(np.array([1, 2, 4]), np.array([4.0, 2.0, 0.0])) == pytest.approx([4.0, 3.5, 2.25])


def test_a_step_of_the_benchmark_is_one_of_admm(benchmark):
    """The variables of ADMM are carried over: two steps of one are not one step of two."""
    x, y = benchmark.problem()
    model = benchmark.Linear(torch.full((benchmark.D,), 0.5, dtype=torch.float64)).requires_grad_(False)
    solver, cost = gsat.ADMM(rho=0.3, eta1=0.2), gsat.LowRank(0.1)
    state = ADMMState(*(torch.zeros_like(x) for _ in range(3)))
    for _ in range(3):
        state = solver.step(Oracle(lambda z: benchmark.smooth_loss(model(z), y), x), cost, state, lam=1.5)
    whole = gsat.maximise(lambda z: benchmark.smooth_loss(model(z), y), x, cost, lam=1.5, solver=solver, n_inner=3)
    torch.testing.assert_close(state.delta, whole.delta)
