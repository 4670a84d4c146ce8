"""The three solvers of the inner problem against closed forms, optimality conditions and each other."""

from itertools import accumulate, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy, softplus

import gsat
from gsat.models import ELUNet, seeded
from gsat.solvers.oracle import Oracle
from gsat.solvers.starts import blended
from strategies import batches, blocks, normal

M, D = 7, 12
ALPHA, LAM, RHO = 0.3, 0.6, 1.7
STRUCTURES = [
    gsat.Universal(ALPHA),
    gsat.GroupSparse(ALPHA),
    gsat.GroupSparse(ALPHA, feature_groups=blocks(D)),
    gsat.LowRank(ALPHA),
    gsat.Unstructured(),
    gsat.PerBatch(gsat.Universal(ALPHA)),
    gsat.PerBatch(gsat.LowRank(ALPHA)),
]
HARD = [gsat.GroupSparse(ALPHA, k=3), gsat.LowRank(ALPHA, k=2), gsat.GroupSparse(ALPHA, k=1, feature_groups=blocks(D))]
SOLVERS = [gsat.Proximal(), gsat.ADMM(rho=RHO), gsat.Linearised()]


def solve(loss, x, cost, **options):
    """`maximise`, with batches for the costs that need them."""
    options.setdefault("lam", LAM)
    batch = batches(len(x)) if isinstance(cost, gsat.PerBatch) else None
    return gsat.maximise(loss, x, cost, batch=batch, **options)


def bound(cost, m=M):
    return cost.bind(batches(m)) if isinstance(cost, gsat.PerBatch) else cost


def apart(a, b):
    """The relative difference in norm."""
    return float((a - b).norm() / b.norm())


def total(loss, point):
    """Σ_i ℓ(point_i) as a number."""
    with torch.no_grad():
        return float(loss(point).double().sum())


def closed_form(gradient, cost, lam=LAM):
    """argmax ⟨G, Δ⟩ − λ·c(Δ)."""
    alpha = 0.0 if isinstance(cost, gsat.Unstructured) else ALPHA
    return bound(cost).shrink(gradient / (2 * lam * (1 - alpha)), alpha / (2 * (1 - alpha)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("cost", STRUCTURES, ids=repr)
def test_linear_loss_has_a_closed_form(cost, solver, dtype):
    x, slope = normal(M, D, seed=1, dtype=dtype), normal(M, D, seed=2, dtype=dtype)
    expected = closed_form(slope, cost)
    found = solve(lambda z: (z * slope).sum(1), x, cost, solver=solver, n_inner=60)
    assert apart(found.delta, expected) <= 1e-4
    value = float((slope * (x + expected)).sum()) - LAM * float(bound(cost).value(expected))
    assert found.objective == pytest.approx(value / M, rel=1e-5)
    assert found.residual <= 1e-3 * float(expected.norm())


@pytest.mark.parametrize("solver", ["proximal", "linearised"])
@pytest.mark.parametrize("cost", HARD, ids=repr)
def test_linear_loss_has_a_closed_form_for_hard_forms(cost, solver):
    x, slope = normal(M, D, seed=3), normal(M, D, seed=4)
    found = solve(lambda z: (z * slope).sum(1), x, cost, solver=solver, n_inner=60)
    assert apart(found.delta, closed_form(slope, cost)) <= 1e-4


@pytest.mark.parametrize("cost", STRUCTURES, ids=repr)
def test_one_linearised_gradient_is_enough_for_a_linear_loss(cost):
    x, slope = normal(M, D, seed=5), normal(M, D, seed=6)
    found = solve(lambda z: (z * slope).sum(1), x, cost, solver="linearised", n_inner=1)
    assert apart(found.delta, closed_form(slope, cost)) <= 1e-12
    assert found.n_gradients == 1


@pytest.mark.parametrize("relax", [0, 1, 4, 7])
@pytest.mark.parametrize("m", [3, 19, 20, 45])
def test_every_relaxed_start_ends_at_the_maximum(m, relax):
    x, slope = normal(m, D, seed=20), normal(m, D, seed=21)
    for cost in (gsat.Universal(ALPHA), gsat.GroupSparse(ALPHA), gsat.LowRank(ALPHA)):
        for n_inner in (4, 19, 20, 40):
            solver = gsat.Proximal(relax=relax)
            found = solve(lambda z: (z * slope).sum(1), x, cost, solver=solver, n_inner=n_inner)
        assert apart(found.delta, closed_form(slope, cost)) <= 1e-4


def elu_net(seed=0):
    """A small ELU net in float64, its per-sample loss for M samples, and the bound β on the loss's curvature."""
    with seeded(seed):
        net = ELUNet(D, 3, hidden=6).double()
    x, y = normal(M, D, seed=seed + 7), torch.arange(M) % 3
    first, second = net[1].weight.detach(), net[3].weight.detach()
    spread = (second.max(0).values - second.min(0).values).max()
    norms = torch.linalg.matrix_norm(first, 2) ** 2, torch.linalg.matrix_norm(second, 2) ** 2
    return (lambda z: cross_entropy(net(z), y, reduction="none")), x, float(norms[0] * (norms[1] / 2 + spread))


def gradient_at(loss, point):
    point = point.clone().requires_grad_()
    return torch.autograd.grad(loss(point).sum(), point)[0]


@pytest.mark.parametrize("cost", STRUCTURES, ids=repr)
def test_solvers_agree_where_the_problem_is_concave(cost):
    loss, x, beta = elu_net()
    alpha = 0.0 if isinstance(cost, gsat.Unstructured) else 0.02
    soft = gsat.PerBatch(type(cost.cost)(alpha)) if isinstance(cost, gsat.PerBatch) else cost
    if alpha and not isinstance(cost, gsat.PerBatch):
        soft = type(cost)(alpha)
    lam = 1.1 * beta / (1 - alpha)
    found = {
        "proximal": solve(loss, x, soft, lam=lam, solver="proximal", n_inner=200),
        "admm": solve(loss, x, soft, lam=lam, solver=gsat.ADMM(rho=RHO), n_inner=2000),
        "linearised": solve(loss, x, soft, lam=lam, solver="linearised", n_inner=100),
    }
    best = found["proximal"].delta
    assert best.norm() > 1e-3
    for name, solution in found.items():
        delta, eta = solution.delta, 1 / beta
        assert apart(delta, best) <= 1e-4, name
        following = bound(soft).prox(delta + eta * gradient_at(loss, x + delta), eta * lam)
        assert apart(following, delta) <= 1e-4, name
        assert solution.residual <= 1e-4 * float(best.norm()), name


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("cost", [*STRUCTURES, *HARD], ids=repr)
@settings(max_examples=2 * settings.default.max_examples // 5)
@given(st.floats(-3, 3), st.sampled_from([1, 2, 3, 5, 20]), st.integers(0, 50))
def test_objective_is_never_below_that_of_no_perturbation(cost, solver, log_lam, n_inner, seed):
    loss, x, _ = elu_net(seed)
    lam, calls = 10**log_lam, []
    found = solve(lambda z: calls.append(z.requires_grad) or loss(z), x, cost, lam=lam, solver=solver, n_inner=n_inner)
    at_zero = total(loss, x)
    value = total(loss, x + found.delta) - lam * float(bound(cost).value(found.delta))
    assert found.objective >= at_zero / M - 1e-12 * abs(at_zero)
    assert found.objective == pytest.approx(value / M, rel=1e-5, abs=1e-9)
    assert found.n_gradients == sum(calls) <= n_inner
    assert 0 <= found.n_steps <= found.n_gradients


def test_twenty_gradients_unless_told_otherwise():
    x, slope = normal(M, D, seed=8), normal(M, D, seed=9)
    assert gsat.maximise(lambda z: (z * slope).sum(1), x, gsat.LowRank(), lam=LAM, solver="admm").n_gradients == 20


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("n_inner", [1, 2, 3, 5, 20])
def test_every_gradient_counts(solver, n_inner):
    x, slope = normal(M, D, seed=8), normal(M, D, seed=9)
    found = solve(lambda z: (z * slope).sum(1), x, gsat.LowRank(ALPHA), lam=0.1, solver=solver, n_inner=n_inner)
    assert found.objective > float((x * slope).sum()) / M
    assert found.delta.norm() > 0


@pytest.mark.parametrize("n_inner", [2, 3, 4, 7, 20])
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_a_cliff_does_not_cost_the_best_point(solver, n_inner):
    x, slope = torch.zeros(M, D, dtype=torch.float64), normal(M, D, seed=10)

    def cliff(z):
        return (z * slope).sum(1) - 1e3 * (z.norm(dim=1) - 1).clamp(min=0)

    found = solve(cliff, x, gsat.Unstructured(), lam=0.2, solver=solver, n_inner=n_inner)
    assert found.objective >= 0
    if isinstance(solver, gsat.Linearised):
        longer = solve(cliff, x, gsat.Unstructured(), lam=0.2, solver=solver, n_inner=n_inner + 1)
        assert longer.objective >= found.objective
    if isinstance(solver, gsat.Proximal) and n_inner == 20:
        assert found.objective > 0.5 * float(slope.norm(dim=1).mean())


@pytest.mark.parametrize("n_inner", [2, 3, 4, 5])
def test_the_best_point_may_be_one_in_the_middle(n_inner):
    slope = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    trap = 2.0  # where the linearised solver goes first; from there it is sent to 20, which is far too much

    def loss(z):
        return torch.where((z * slope).sum(1) > trap / 2, 10 * (z * slope).sum(1) - 15, (z * slope).sum(1))

    x = torch.zeros(3, 2)
    first = gsat.maximise(loss, x, gsat.Unstructured(), lam=0.25, solver="linearised", n_inner=1)
    assert first.delta[:, 0].tolist() == [trap] * 3
    cut = lambda z: loss(z) - 1e4 * (z[:, 0] - 3).clamp(min=0)  # noqa: E731
    found = gsat.maximise(cut, x, gsat.Unstructured(), lam=0.25, solver="linearised", n_inner=n_inner)
    assert torch.equal(found.delta, first.delta)
    assert found.objective == pytest.approx(first.objective)


def test_the_printed_multiplier_step_diverges():
    x, slope = normal(M, D, seed=11), normal(M, D, seed=12)
    cost, eta = gsat.GroupSparse(ALPHA), 1 / (2 * LAM * (1 - ALPHA) + RHO)
    expected = closed_form(slope, cost)
    delta, z, u = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
    for _ in range(300):
        delta = delta + eta * (slope - 2 * LAM * (1 - ALPHA) * delta - RHO * (delta - z - u))
        z = cost.shrink(delta - u, LAM * ALPHA / RHO)
        u = u + (delta - z)
        if not delta.isfinite().all() or delta.norm() > 1e6 * expected.norm():
            break
    else:
        pytest.fail(f"the printed sign reached {delta.norm():.3g} and did not explode")
    found = solve(lambda w: (w * slope).sum(1), x, cost, solver=gsat.ADMM(rho=RHO, eta1=eta), n_inner=300)
    assert apart(found.delta, expected) <= 1e-6


@pytest.fixture(scope="module")
def digits():
    """A net that is sure of the digits it was trained on, so that most of its gradients are near 0.

    It is trained in float64, for the same net on every processor.
    """
    X, y = load_digits(return_X_y=True)
    X, y = torch.from_numpy(X / 16), torch.from_numpy(y)
    with seeded(0):
        net = ELUNet(64, 10).double()
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
        for _ in range(500):
            rows = torch.randint(len(X), (200,))
            optimizer.zero_grad()
            cross_entropy(net(X[rows]), y[rows]).backward()
            optimizer.step()
    assert cross_entropy(net(X), y) < 0.05
    return net.requires_grad_(False).float(), X.float(), y


@pytest.mark.parametrize("lam", [0.02, 0.5])
@pytest.mark.parametrize("cost", [gsat.Universal(), gsat.GroupSparse(), gsat.LowRank()], ids=repr)
def test_proximal_sees_through_flat_gradients(digits, cost, lam):
    net, X, y = digits
    x = X[:100]

    def loss(z):
        return cross_entropy(net(z), y[:100], reduction="none")

    zero = total(loss, x) / len(x)

    def gain(solver, n_inner):
        return gsat.maximise(loss, x, cost, lam=lam, solver=solver, n_inner=n_inner).objective - zero

    proximal = gain(gsat.Proximal(), 20)
    assert proximal > 1.5 * gain(gsat.ADMM(eta1=0.1), 20)
    assert proximal > gain(gsat.Proximal(relax=0), 20) * (1.001 if isinstance(cost, gsat.Universal) else 1.1)
    assert proximal > 0.99 * gain(gsat.Proximal(), 300)


@pytest.mark.parametrize("cost", [gsat.Universal(), gsat.GroupSparse(), gsat.LowRank()], ids=repr)
def test_an_ascent_that_gains_no_more_ends(digits, cost):
    net, X, y = digits
    x = X[:100]

    def loss(z):
        return cross_entropy(net(z), y[:100], reduction="none")

    zero, whole = total(loss, x) / len(x), gsat.maximise(loss, x, cost, lam=0.5, n_inner=40)
    short = gsat.maximise(loss, x, cost, lam=0.5, n_inner=40, solver=gsat.Proximal(tol=1e-3))
    assert whole.n_gradients == 40 or whole.residual < 1e-5 * float(whole.delta.norm())
    assert short.n_gradients < 0.7 * whole.n_gradients
    assert short.objective - zero >= 0.99 * (whole.objective - zero)


@pytest.mark.parametrize("cost", STRUCTURES, ids=repr)
@pytest.mark.parametrize("n_inner", [1, 2, 9])
def test_without_a_residual_the_perturbation_is_the_same(cost, n_inner):
    x, weight = normal(M, D, seed=3), normal(D, seed=4)

    def loss(z):
        return softplus(z @ weight)

    told, found = (solve(loss, x, cost, n_inner=n_inner, solver=gsat.Proximal(residual=r)) for r in (True, False))
    assert torch.equal(told.delta, found.delta)
    assert told.objective == found.objective
    assert told.residual >= 0
    assert np.isnan(found.residual) or found.n_steps == 0


@pytest.mark.parametrize("cost", [*STRUCTURES, *HARD], ids=repr)
def test_a_blended_start_knows_its_cost(cost):
    x, weight = normal(M, D, seed=3), normal(D, seed=4)
    oracle, cost = Oracle(lambda z: softplus(3 * (z @ weight)), x), bound(cost)
    trial, value = blended(oracle, cost, normal(M, D, seed=5), 0.2, 3)
    assert float(trial.norm()) > 0
    assert value == pytest.approx(float(cost.value(trial)), rel=1e-4)


@pytest.mark.parametrize("tol", [1e-3, 1e-2])
@pytest.mark.parametrize("relax", [0, 4])
@pytest.mark.parametrize("cost", [gsat.GroupSparse(), gsat.LowRank()], ids=repr)
def test_an_ascent_ends_where_a_step_gains_little_of_what_the_first_one_did(digits, cost, relax, tol):
    net, X, y = digits
    x, values = X[:100], []

    def loss(z):
        losses = cross_entropy(net(z), y[:100], reduction="none")
        values.append(float(losses.detach().double().sum()) - 0.5 * float(cost.value((z - x).detach())))
        return losses

    found = gsat.maximise(loss, x, cost, lam=0.5, n_inner=60, solver=gsat.Proximal(relax=relax, tol=tol))
    zero, *trials = values[:1] + values[1 + relax : found.n_gradients]  # between them the structure is phased in
    accepted = [zero, trials[0]]
    accepted += [value for before, value in pairwise([*accumulate(trials, max)]) if value > before]
    gains = [after - before for before, after in pairwise(accepted)]
    assert found.n_gradients < 60
    assert found.n_steps == len(gains) > 1
    assert found.objective == pytest.approx(max(values) / 100, rel=1e-6)
    assert gains[-1] < tol * gains[0] <= min(gains[:-1])


@pytest.mark.parametrize("seed", [249, 0, 1])
def test_an_ascent_that_gains_next_to_nothing_never_falls_below_its_start(seed):
    """Steps may fall by rounding, but not below S(0), where the gradient is no longer known; so they did for 249."""
    generator = torch.Generator().manual_seed(seed)
    x, w = torch.randn(20, 50, generator=generator), torch.randn(50, generator=generator)
    at_zero = []

    def loss(z):
        losses = softplus(z @ w / 7)
        if torch.equal(z, x):
            at_zero.append(float(losses.detach().double().sum()))
        return losses

    found = gsat.maximise(loss, x, gsat.Unstructured(), lam=1e6)
    assert found.objective >= at_zero[0] / len(x) - 1e-12  # of the same float32 losses, summed in float64


@pytest.mark.parametrize("narrow", [2**-8, 2**-12])
def test_an_ascent_that_is_back_at_zero_keeps_the_step_it_has_learned(narrow):
    """S = tanh(δ/r) − λ·c(δ) rises within r of 0 alone; the relaxed start ends far away, and a long step leads back."""
    x = torch.zeros(1, 1, dtype=torch.float64)
    found = gsat.maximise(lambda z: torch.tanh(z[:, 0] / narrow), x, gsat.GroupSparse(), lam=1 / (8 * narrow))
    assert found.objective > 0.3  # of 0.8; it was 0


@pytest.mark.parametrize("lam", [0.5, 1.0])
def test_one_shift_finds_the_highest_of_many_maxima(digits, lam):
    """Twenty gradients against Adam from 12 starts, on five groups; a shift has about one maximum per class."""
    net, X, y = digits
    shares = []
    for group in range(5):
        x, labels = X[group * 200 : (group + 1) * 200], y[group * 200 : (group + 1) * 200]

        def loss(z, labels=labels):
            return cross_entropy(net(z), labels, reduction="none")

        found = gsat.maximise(loss, x, gsat.Universal(), lam=lam, n_inner=20)
        assert found.n_gradients <= 20
        starts = torch.randn(12, 1, 64, generator=torch.Generator().manual_seed(group)).requires_grad_()
        optimizer = torch.optim.Adam([starts], lr=0.1)
        for _ in range(100):
            moved = (x + starts).flatten(0, 1)
            gain = cross_entropy(net(moved), labels.repeat(12), reduction="none").view(12, 200).mean(1)
            values = gain - lam * 0.5 * starts.square().sum((1, 2))
            optimizer.zero_grad()
            (-values.sum()).backward()
            optimizer.step()
        zero, best = float(loss(x).mean()), float(values.detach().max())
        assert values.max() > 1.03 * values.min()  # some starts end in lower maxima
        shares.append((found.objective - zero) / (best - zero))
    assert min(shares) >= 0.95
    assert sum(shares) >= 0.97 * len(shares)


def test_a_users_cost_needs_value_and_prox_only():
    class Elastic:
        """c(Δ) = Σ|Δ| + ‖Δ‖²."""

        def value(self, delta):
            return delta.abs().sum() + delta.square().sum()

        def prox(self, v, tau):
            return v.sign() * (v.abs() - tau).clamp(min=0) / (1 + 2 * tau)

    x, slope = normal(M, D, seed=13), normal(M, D, seed=14)
    expected = slope.sign() * (slope.abs() - LAM).clamp(min=0) / (2 * LAM)
    assert 0 < int((expected == 0).sum()) < expected.numel()
    for solver in SOLVERS:
        found = gsat.maximise(lambda z: (z * slope).sum(1), x, Elastic(), lam=LAM, solver=solver, n_inner=100)
        assert apart(found.delta, expected) <= 1e-4, solver
        value = float((slope * (x + expected)).sum()) - LAM * float(Elastic().value(expected))
        assert found.objective == pytest.approx(value / M, rel=1e-5)


@pytest.mark.parametrize("lam", [3.0, 30.0])
def test_a_step_that_does_not_raise_the_objective_is_made_shorter(lam):
    class Hasty:
        """‖Δ‖², with a prox that is right for short steps and overshoots in long ones."""

        def value(self, delta):
            return delta.square().sum()

        def prox(self, v, tau):
            return v / (1 + 2 * tau) if tau <= 0.5 else (1 - 4 * tau) * v

    x, slope = normal(M, D, seed=30), normal(M, D, seed=31)
    zero, gain = float((x * slope).sum()) / M, float(slope.square().sum()) / (4 * lam * M)
    found = gsat.maximise(lambda z: (z * slope).sum(1), x, Hasty(), lam=lam, n_inner=40)
    assert found.objective - zero >= 0.99 * gain
    assert found.n_steps < found.n_gradients


@pytest.mark.parametrize("curvature", [1e3, 1e6])
@pytest.mark.parametrize(
    "cost", [gsat.Universal(ALPHA), gsat.GroupSparse(ALPHA), gsat.LowRank(ALPHA), gsat.Unstructured()], ids=repr
)
def test_a_loss_of_huge_curvature_is_climbed_to_its_top(cost, curvature):
    x, goal, values = normal(M, D, seed=32), normal(1, D, seed=33), []

    def loss(z):
        losses = -curvature / 2 * (z - x - goal).square().sum(1)
        values.append(float(losses.detach().sum()) - LAM * float(cost.value((z - x).detach())))
        return losses

    found = gsat.maximise(loss, x, cost, lam=LAM, n_inner=20, solver=gsat.Proximal(relax=0))
    assert found.n_gradients == len(values) <= 20
    assert found.n_steps < found.n_gradients - 1  # some steps were too long
    assert found.objective == pytest.approx(max(values) / M, rel=1e-9)  # and none of those was kept
    assert apart(found.delta, goal.expand(M, D)) <= 10 / curvature
    at_goal = -LAM * float(cost.value(goal.expand(M, D)))
    assert found.objective * M >= at_goal - 1e-9 * abs(at_goal)


def test_a_users_cost_without_growth_is_refused_by_the_linearised_solver():
    class Absolute:
        def value(self, delta):
            return delta.abs().sum()

        def prox(self, v, tau):
            return v.sign() * (v.abs() - tau).clamp(min=0)

    slope = 3 * normal(M, D, seed=15)
    with pytest.raises(ValueError, match="grows faster than linearly, got Absolute"):
        gsat.maximise(lambda z: (z * slope).sum(1), torch.ones(M, D), Absolute(), lam=0.5, solver="linearised")


@pytest.mark.parametrize("cost", [gsat.Universal(1.0), gsat.GroupSparse(1.0), gsat.LowRank(1.0)], ids=repr)
def test_alpha_one_is_refused_by_the_linearised_solver(cost):
    with pytest.raises(ValueError, match="linearised solver needs alpha < 1, got alpha = 1"):
        gsat.maximise(lambda z: z.sum(1), torch.ones(M, D), cost, lam=0.5, solver="linearised")


@pytest.mark.parametrize("solver", ["proximal", "admm"])
@pytest.mark.parametrize("cost", [gsat.Universal(1.0), gsat.PerBatch(gsat.Universal(1.0)), gsat.LowRank(1.0)], ids=repr)
def test_alpha_one_without_a_maximum_warns_and_stops(cost, solver):
    x, slope = normal(M, D, seed=16), normal(M, D, seed=17)
    with pytest.warns(RuntimeWarning, match=r"there may be no maximum: stopped after \d+ gradients"):
        found = solve(lambda z: (z * slope).sum(1), x, cost, lam=0.1, solver=solver, n_inner=15)
    assert found.n_gradients <= 15
    assert 0 < found.delta.norm() <= 1001 * x.norm()


@pytest.mark.parametrize("cost", [gsat.Universal(1.0), gsat.GroupSparse(1.0), gsat.LowRank(1.0)], ids=repr)
def test_alpha_one_has_no_relaxed_start(cost):
    """Without a quadratic term there is no scale to it: the loss is asked at finite points, and climbed from Δ = 0."""
    x, goal, seen = normal(M, D, seed=24), normal(1, D, seed=25), []

    def loss(z):
        seen.append((z - x).detach())
        return -(z - x - goal).square().sum(1)

    found = gsat.maximise(loss, x, cost, lam=0.1, n_inner=40)
    plain = gsat.maximise(loss, x, cost, lam=0.1, n_inner=40, solver=gsat.Proximal(relax=0))
    assert all(delta.isfinite().all() for delta in seen)
    assert bool(cost.value(seen[1]).isfinite())  # structured from the first step on
    assert found.objective == pytest.approx(plain.objective, rel=1e-9)
    assert found.n_gradients == plain.n_gradients


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_inner", [1, 2, 3])
def test_admm_that_leaves_the_finite_numbers_names_its_step(n_inner, dtype):
    """Whether a step overflows in the middle or at the end, and whether δ or the loss there is first not finite."""
    x, slope = normal(M, D, seed=26, dtype=dtype), normal(M, D, seed=27, dtype=dtype)
    largest = torch.finfo(dtype).max
    message = r"not finite at step [1-9]\d*: eta1 = .* is too large, take a smaller one or \"auto\""
    with pytest.raises(FloatingPointError, match=message):
        gsat.maximise(
            lambda z: 3 * (z * slope).sum(1),
            x,
            gsat.Unstructured(),
            lam=LAM,
            solver=gsat.ADMM(eta1=largest),
            n_inner=n_inner,
        )
    if n_inner > 1:
        with pytest.raises(FloatingPointError, match=message):
            gsat.maximise(
                lambda z: (z * slope).sum(1) + (9 - (z - x).square().sum(1)).sqrt(),  # no number beyond a radius of 3
                x,
                gsat.Unstructured(),
                lam=LAM,
                solver=gsat.ADMM(eta1=50.0),
                n_inner=n_inner,
            )


@pytest.mark.parametrize("cost", STRUCTURES, ids=repr)
def test_admm_comes_back_from_where_the_loss_is_not_finite(cost):
    """The first step of "auto" goes too far; a shorter one is taken from where it began, and the loss is climbed."""
    x, slope = normal(M, D, seed=28), normal(M, D, seed=29)
    finite = []

    def loss(z):
        losses = 30 * (z * slope).sum(1) + (9 - (z - x).square().sum(1)).sqrt()
        finite.append(bool(losses.isfinite().all()))
        return losses

    found = solve(loss, x, cost, lam=0.05, solver=gsat.ADMM(rho=0.1), n_inner=40)
    assert finite[0]
    assert not all(finite)
    assert found.delta.isfinite().all()
    assert found.objective > total(loss, x) / M
    assert found.n_gradients <= 40


@pytest.mark.parametrize("solver", ["proximal", "admm"])
def test_alpha_one_with_a_maximum_is_found_without_a_warning(solver):
    x, goal = normal(M, D, seed=18), normal(1, D, seed=19)
    found = solve(lambda z: -(z - x - goal).square().sum(1), x, gsat.Universal(1.0), solver=solver, n_inner=200)
    np.testing.assert_allclose(found.delta.numpy(), goal.expand(M, D).numpy(), atol=1e-6)
