"""`gsat.maximise`: masks, bounds, losses that are not finite, and what it refuses."""

import math

import numpy as np
import pytest
import torch

import gsat
from strategies import batches, normal

M, D = 9, 6  # fewer features than samples: the low-rank prox then works on the other side
COSTS = [
    gsat.Universal(0.3),
    gsat.GroupSparse(0.3),
    gsat.GroupSparse(0.3, k=2),
    gsat.LowRank(0.3),
    gsat.LowRank(0.3, k=2),
    gsat.Unstructured(),
    gsat.PerBatch(gsat.LowRank(0.3)),
]
SOLVERS = ["proximal", "admm", "linearised"]


def wave(z):
    """A loss that rises in every feature, neither convex nor concave."""
    flat = z.reshape(len(z), -1)
    return ((flat + 0.3 * torch.sin(flat)) * torch.arange(1, flat.shape[1] + 1)).sum(1)


def solve(loss, x, cost, *, lam=6.0, **options):
    return gsat.maximise(loss, x, cost, lam=lam, batch=batches(len(x)), **options)


# ---- the residual


def test_a_perturbation_without_a_bound_is_warned_of():
    with pytest.warns(RuntimeWarning, match="alpha = 1"):
        solve(wave, normal(M, D, seed=3), gsat.GroupSparse(1.0), lam=0.1)


# ---- feature_mask


@pytest.mark.parametrize("shape", [(M, D), (4, 30), (5, 1, 2, 4)])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_masked_features_do_not_move(cost, solver, shape):
    x, mask = normal(*shape, seed=1), torch.arange(math.prod(shape[1:])).reshape(shape[1:]) % 3 != 1
    found = solve(wave, x, cost, solver=solver, feature_mask=mask)
    assert not found.delta[:, ~mask].any()
    if solver != "admm" or getattr(cost, "k", None) is None:  # ADMM need not settle on one of the hard forms
        assert found.delta[:, mask].any()
    for given in (mask.numpy(), mask.tolist()):
        assert torch.equal(solve(wave, x, cost, solver=solver, feature_mask=given).delta, found.delta)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_mask_is_the_problem_without_these_features(solver):
    x, slope, mask = normal(M, D, seed=2), normal(M, D, seed=3), torch.tensor([True, False, True, True, False, True])
    for cost in (gsat.Universal(0.3), gsat.GroupSparse(0.3), gsat.LowRank(0.3), gsat.Unstructured()):
        whole = solve(lambda z: (z * slope).sum(1), x, cost, solver=solver, n_inner=80, feature_mask=mask)
        part = solve(lambda z: (z * slope[:, mask]).sum(1), x[:, mask], cost, solver=solver, n_inner=80)
        torch.testing.assert_close(whole.delta[:, mask], part.delta, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_happens_at_masked_features_does_not_matter(solver):
    x = normal(M, D, seed=4)

    def loss(z):  # the gradient of the root is infinite where z = x
        return (z[:, :3] * torch.arange(1.0, 4.0)).sum(1) + (z[:, 3:] - x[:, 3:]).abs().sqrt().sum(1)

    found = solve(loss, x, gsat.Universal(0.3), solver=solver, feature_mask=[True] * 3 + [False] * 3)
    assert found.delta[:, :3].all()


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ([True] * 5, ValueError, r"feature_mask must have the shape of one sample \(6,\), got \(5,\)"),
        (torch.ones(M, D, dtype=torch.bool), ValueError, r"feature_mask must have the shape of one sample \(6,\)"),
        ([1, 0, 1, 0, 1, 0], TypeError, "feature_mask must be boolean, got torch.int64"),
        (torch.ones(D), TypeError, "feature_mask must be boolean, got torch.float32"),
    ],
)
def test_masks_are_checked(mask, error, message):
    with pytest.raises(error, match=message):
        gsat.maximise(wave, normal(M, D, seed=5), gsat.LowRank(), lam=1.0, feature_mask=mask)


# ---- bounds


@pytest.mark.parametrize(
    "bounds", [(0, 1), (torch.zeros(D), torch.linspace(0.4, 1, D)), ([0.0] * D, 1.0), (0, math.inf)]
)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_the_loss_sees_the_bounds_and_delta_keeps_its_structure(cost, solver, bounds):
    x, seen = torch.rand(M, D, generator=torch.Generator().manual_seed(6), dtype=torch.float64), []
    low, high = (torch.as_tensor(end, dtype=torch.float64) for end in bounds)
    found = solve(lambda z: seen.append(z.detach()) or wave(z), x, cost, solver=solver, bounds=bounds)
    assert all(((z >= low) & (z <= high)).all() for z in seen)
    bound = cost.bind(batches(M)) if isinstance(cost, gsat.PerBatch) else cost
    assert bound.value(found.delta).isfinite()
    value = wave(torch.clamp(x + found.delta, low, high)).sum() - 6 * bound.value(found.delta)
    assert found.objective == pytest.approx(float(value) / M, rel=1e-5)
    if solver == "proximal":
        assert (x + found.delta > high).any() == (bounds[1] is not math.inf)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (1.0, r"bounds must be a pair \(lo, hi\), got 1\.0"),
        ((0, 1, 2), r"bounds must be a pair \(lo, hi\), got \(0, 1, 2\)"),
        ((1, 0), r"bounds must have lo <= hi, got \(1, 0\)"),
        ((math.nan, 1), r"bounds must have lo <= hi, got \(nan, 1\)"),
        ((torch.zeros(5), 1), r"bounds lo must broadcast to the shape of one sample \(6,\), got \(5,\)"),
        ((0, torch.ones(M, D)), r"bounds hi must broadcast to the shape of one sample \(6,\), got \(9, 6\)"),
    ],
)
def test_bounds_are_checked(bounds, message):
    with pytest.raises(ValueError, match=message):
        gsat.maximise(wave, normal(M, D, seed=7), gsat.LowRank(), lam=1.0, bounds=bounds)


# ---- losses that are not finite


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_loss_that_is_not_finite_at_zero_is_an_error(solver, bad):
    x = normal(M, D, seed=8)
    with pytest.raises(FloatingPointError, match="not finite at step 0"):
        gsat.maximise(lambda z: z.sum(1) + bad, x, gsat.LowRank(), lam=1.0, solver=solver)
    with pytest.raises(FloatingPointError, match="not finite at step 0"):
        gsat.maximise(lambda z: (z - x).norm(dim=1).sqrt(), x, gsat.LowRank(), lam=1.0, solver=solver)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cost", COSTS, ids=repr)
@pytest.mark.parametrize("solver", ["proximal", "admm"])
def test_a_loss_that_is_finite_at_zero_alone_is_an_error(solver, cost, dtype):
    x = normal(M, D, seed=9, dtype=dtype)

    def loss(z):
        return z.sum(1) * (1 if torch.equal(z.detach(), x) else math.nan)

    with pytest.raises(FloatingPointError, match=r"not finite at step [1-9]\d*, however short the step"):
        solve(loss, x, cost, solver=solver, n_inner=100)


def test_a_step_is_short_by_the_size_of_the_data_also_where_squares_overflow():
    x = 1e20 * normal(M, D, seed=10, dtype=torch.float32)
    far = 2 * float(x.abs().max())

    def loss(z):
        return torch.where(z.abs() < far, z, math.nan).sum(1) * (1e6 / far)

    found = gsat.maximise(loss, x, gsat.Unstructured(), lam=1e-36)
    assert found.delta.isfinite().all()


@pytest.mark.parametrize("cost", COSTS, ids=repr)
@pytest.mark.parametrize("solver", ["proximal", "admm"])
def test_a_loss_with_a_finite_domain_is_not_an_error(solver, cost):
    x, slope = 0.2 * normal(M, D, seed=10), normal(M, D, seed=11)
    at_zero = float((x * slope).sum()) / M

    def loss(z):
        inside = z.square().sum(1, keepdim=True) < 4
        return torch.where(inside, z * slope, math.nan).sum(1)

    found = solve(loss, x, cost, lam=0.05, solver=solver, n_inner=30)
    assert math.isfinite(found.objective)
    assert found.objective >= at_zero - 1e-12
    if solver == "proximal":
        assert found.objective > at_zero
        assert loss(x + found.delta).isfinite().all()


@pytest.mark.filterwarnings("ignore:the loss .* has no maximum")
@pytest.mark.parametrize("n_inner", [1, 2, 3, 20])
@pytest.mark.parametrize("solver", SOLVERS)
def test_an_infinite_loss_is_never_the_answer(solver, n_inner):
    found = gsat.maximise(
        lambda z: torch.exp(200 * z).sum(1),
        torch.zeros(M, D),
        gsat.Unstructured(),
        lam=0.1,
        solver=solver,
        n_inner=n_inner,
    )
    assert math.isfinite(found.objective)
    assert found.delta.isfinite().all()


@pytest.mark.parametrize("eta1", [50.0, 1e12])
@pytest.mark.parametrize("loss", [lambda z: z.sum(1), lambda z: 0.1 * z.square().sum(1)], ids=["linear", "quadratic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_a_step_of_admm_that_is_too_long_is_named(cost, dtype, loss, eta1):
    x = normal(M, D, seed=12, dtype=dtype)
    with pytest.raises(FloatingPointError, match=r"not finite at step [1-9]\d*: eta1 = .* too large"):
        solve(loss, x, cost, lam=2.0, solver=gsat.ADMM(eta1=eta1), n_inner=400)


@pytest.mark.parametrize("lam", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_extreme_lam_is_no_error(cost, solver, lam):
    x = normal(M, D, seed=13, dtype=torch.float32)
    found = solve(lambda z: torch.tanh(z).sum(1), x, cost, lam=lam, solver=solver)
    assert found.delta.isfinite().all()
    assert found.objective >= float(torch.tanh(x).sum(dtype=torch.float64)) / M - 1e-6


# ---- what it refuses


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"lam": 0}, ValueError, "lam must be > 0.*, got 0"),
        ({"lam": -2.5}, ValueError, r"lam must be > 0.*, got -2\.5"),
        ({"lam": math.nan}, ValueError, "lam must be .*got nan"),
        ({"lam": math.inf}, ValueError, "lam must be .*finite.*, got inf"),
        ({"lam": "auto"}, TypeError, "lam must be a number, got 'auto'"),
        ({"n_inner": 0}, ValueError, "n_inner must be >= 1, got 0"),
        ({"n_inner": 5.0}, TypeError, r"n_inner must be a whole number, got 5\.0"),
        (
            {"solver": "newton"},
            ValueError,
            "solver must be one of proximal, admm, admm-paper, linearised .*, got 'newton'",
        ),
        ({"solver": object()}, TypeError, "solver must be .*init and step and finish, got <object"),
        ({"x": torch.ones(M, D, dtype=torch.int64)}, TypeError, "x must have a floating-point dtype, got torch.int64"),
        ({"x": np.ones((M, D))}, TypeError, "x must be a torch tensor, got ndarray"),
        ({"x": torch.ones(0, D)}, ValueError, r"x must hold at least one sample and one feature, got shape \(0, 6\)"),
        ({"x": torch.tensor(1.0)}, ValueError, r"x must have shape \(samples, \*features\), got a scalar"),
        (
            {"loss": lambda z: z.sum()},
            ValueError,
            r"per sample, shape \(9,\), got \(\); use reduction=\"none\"",
        ),
        ({"loss": lambda z: z}, ValueError, r"one value per sample, shape \(9,\), got \(9, 6\)"),
        ({"loss": lambda z: 3.0}, ValueError, r"one value per sample, shape \(9,\), got float"),
        ({"loss": lambda z: z.detach().sum(1)}, ValueError, "loss must be differentiable in its input"),
        ({"batch": list(range(8))}, ValueError, r"batch must have one id per sample \(9\), got 8"),
        ({"cost": "low-rank"}, TypeError, "cost must .*got 'low-rank'"),
        ({"cost": gsat.LowRank}, TypeError, "cost must .*got <class"),
    ],
)
def test_input_is_checked(changed, error, message):
    options = {"loss": wave, "x": normal(M, D, seed=14), "cost": gsat.LowRank(), "lam": 1.0} | changed
    loss, x, cost = (options.pop(name) for name in ("loss", "x", "cost"))
    with pytest.raises(error, match=message):
        gsat.maximise(loss, x, cost, **options)


def test_a_loss_of_something_else_is_not_differentiable_in_its_input():
    weight = torch.ones(D, requires_grad=True)
    with pytest.raises(ValueError, match="loss must be differentiable in its input"):
        gsat.maximise(lambda z: z.detach() @ weight, torch.ones(M, D), gsat.LowRank(), lam=1.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: gsat.ADMM(rho=0), ValueError, "rho must be > 0.*, got 0"),
        (lambda: gsat.ADMM(rho=-1.0), ValueError, r"rho must be > 0.*, got -1\.0"),
        (lambda: gsat.ADMM(eta1=0.0), ValueError, r"eta1 must be > 0.*, got 0\.0"),
        (lambda: gsat.ADMM(eta1="fast"), TypeError, "eta1 must be a number.*, got 'fast'"),
        (lambda: gsat.Proximal(relax=-1), ValueError, "relax must be >= 0, got -1"),
    ],
)
def test_solvers_are_checked(make, error, message):
    with pytest.raises(error, match=message):
        make()


# ---- problems without a maximum


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("cost", [gsat.Universal(0.3), gsat.GroupSparse(0.3), gsat.LowRank(0.3), gsat.Unstructured()])
def test_a_loss_that_outgrows_the_cost_is_told_with_the_least_lam(cost, solver):
    """½(w·z − y)² has the curvature ‖w‖² along w: there is a maximum where λ is above ‖w‖²/(2·ridge)."""
    x, w = normal(M, D, seed=20), 3 * normal(D, seed=21)
    square, least = float(w @ w), float(w @ w) / (2 * cost.ridge)

    def loss(z):
        return 0.5 * (z @ w - 1).square()

    with pytest.warns(RuntimeWarning, match=r"above 2·lam·ridge = .* has no maximum.* take lam above") as caught:
        found = gsat.maximise(loss, x, cost, lam=0.01 * least, solver=solver, n_inner=30)
    told = str(caught[0].message)
    assert float(told.split("curvature ")[1].split()[0]) == pytest.approx(square, rel=0.05)
    assert float(told.split("take lam above ")[1]) == pytest.approx(least, rel=0.05)
    assert float(x.norm()) < float(found.delta.norm()) <= 1000 * float(x.norm()) * (1 + 1e-9)
    assert found.objective > float(loss(x).mean())
    enough = gsat.maximise(loss, x, cost, lam=1.5 * least, solver=solver, n_inner=30)  # a warning is an error
    assert float(enough.delta.norm()) < 100 * float(x.norm())


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_loss_that_grows_linearly_has_a_maximum_however_far(solver):
    x = normal(M, D, seed=22)
    found = gsat.maximise(
        lambda z: torch.nn.functional.softplus(z.sum(1)), x, gsat.Unstructured(), lam=1e-3, solver=solver
    )
    assert float(found.delta.norm()) > 5 * float(x.norm())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_loss_that_overflows_is_told_too(dtype):
    """At three times the perturbation it is infinite, and a difference of infinite losses is no number."""
    x, w = normal(M, D, seed=23, dtype=torch.float32).to(dtype), torch.ones(D, dtype=dtype)
    losses = {
        torch.float16: lambda z: 0.5 * (z @ w - 1).square(),
        torch.float32: lambda z: (z @ w).exp(),  # of a Poisson regression
    }
    with pytest.warns(RuntimeWarning, match=r"the loss is infinite .* has no maximum.* take a larger lam"):
        found = gsat.maximise(losses[dtype], x, gsat.LowRank(), lam=1e-3)
    assert found.unbounded
    assert found.delta.isfinite().all()


@pytest.mark.parametrize("cost", [gsat.LowRank(0.3), gsat.Unstructured()])
def test_a_loss_that_outgrows_the_cost_is_told_where_x_is_zero(cost):
    w = normal(D, seed=21)
    with pytest.warns(RuntimeWarning, match=r"has no maximum.* where ‖x‖ = 0; take lam above"):
        found = gsat.maximise(lambda z: 0.5 * (z @ w - 1).square(), torch.zeros(M, D).double(), cost, lam=1e-3)
    assert float(found.delta.norm()) <= 1000 * (1 + 1e-9)
    assert not gsat.maximise(lambda z: z @ w, torch.zeros(M, D).double(), cost, lam=1.0).unbounded
