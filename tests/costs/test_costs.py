"""The costs and their proximal maps, from the definition: p = prox(v, τ) minimises τ·c(u) + ½‖u − v‖²."""

import cvxpy as cp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gsat
from strategies import ALPHAS, CONVEX, HARD, PER_BATCH, Case, batches, blocks, groups, normal, problems

SEEDS = st.integers(0, 10_000)
TAUS = (0.0, 0.03, 5.0)


def close(a, b, tolerance, size):
    return float((a.double() - b.double()).abs().max()) <= tolerance * float(size)


def rivals(case, p, v, seed):
    """Feasible points: far from p, nearer and nearer to it, and on the lines to 0 and to v."""
    size = float(v.abs().max())
    for step, ratio in enumerate((2.0, 0.1, 1e-3, 1e-4)):
        yield case.feasible(p + ratio * size * normal(*p.shape, seed=seed + step))
    single = torch.zeros_like(p)
    single[seed % len(p), seed % p.shape[1]] = 0.01 * size
    yield case.feasible(p + single)
    yield case.feasible(0.99 * p)
    yield case.feasible(p + 0.01 * (v - p))


def square(u):
    return float(u.square().sum())


def assert_minimises(case, weights, p, v, tau, seed):
    """φ(u) ≥ φ(p) + ½‖u − p‖² for all u, φ(u) = τ·(a·g(u) + b·‖u‖²) + ½‖u − v‖² with weights (a, b).

    Every matrix is rounded by up to `rounded` in norm, which changes φ by the slope times as much.
    """
    a, b = weights
    eps = 100 * torch.finfo(v.dtype).eps

    def phi(u):
        return tau * (a * case.structure(u) + b * square(u)) + 0.5 * square(u - v)

    def slope(u):
        return tau * (a * case.steepest + 2 * b * float(u.norm())) + float((u - v).norm())

    for u in rivals(case, p, v, seed):
        apart = 0.5 * square(u - p)
        rounded = eps * max(float(w.norm()) for w in (u, p, v))
        slack = eps * (phi(u) + phi(p) + apart) + rounded * (slope(u) + slope(p) + float((u - p).norm()))
        assert phi(u) - phi(p) - apart >= -slack - (1 + 2 * tau * b) * rounded**2


@pytest.mark.parametrize("name", CONVEX)
@given(problems())
def test_value_is_its_formula(name, problem):
    v, alpha, _ = problem
    case = Case(name, *v.shape, alpha)
    delta = case.feasible(v)
    np.testing.assert_allclose(float(case.cost.value(delta)), case.value(delta), rtol=1e-9)
    if alpha > 0:
        np.testing.assert_allclose(float(case.cost.structure(delta)), case.structure(delta), rtol=1e-9)


@pytest.mark.parametrize("name", CONVEX)
@given(problems(), SEEDS)
def test_prox_minimises(name, problem, seed):
    v, alpha, tau = problem
    case = Case(name, *v.shape, alpha)
    p = case.cost.prox(v, tau)
    assert p.shape == v.shape
    if tau > 0:
        assert case.cost.value(p).isfinite()
        assert_minimises(case, (case.weight, (1 - case.weight) / case.unit**2), p, v, tau, seed)
    else:
        assert torch.equal(p, v)


@pytest.mark.parametrize("name", CONVEX)
@given(problems(), SEEDS)
def test_shrink_minimises(name, problem, seed):
    v, alpha, tau = problem
    case = Case(name, *v.shape, alpha)
    p = case.cost.shrink(v, tau)
    if tau > 0 and case.weight > 0:
        assert case.cost.structure(p).isfinite()
        assert_minimises(case, (1, 0), p, v, tau, seed)
    else:
        assert torch.equal(p, v)


@pytest.mark.parametrize("name", CONVEX)
@given(problems(torch.float32))
def test_float32_agrees_with_float64(name, problem):
    v, alpha, tau = problem
    cost = Case(name, *v.shape, alpha).cost
    p = cost.prox(v, tau)
    assert p.dtype == torch.float32
    assert close(p, cost.prox(v.double(), tau), 1e-5, v.abs().max())


@pytest.mark.parametrize("name", CONVEX)
@given(problems(), SEEDS)
def test_prox_is_firmly_non_expansive(name, problem, seed):
    v, alpha, tau = problem
    cost = Case(name, *v.shape, alpha).cost
    w = v + 0.3 * v.abs().max() * normal(*v.shape, seed=seed)
    moved = cost.prox(v, tau) - cost.prox(w, tau)
    inner, square, most = (float(torch.sum(t)) for t in (moved * (v - w), moved.square(), (v - w).square()))
    assert inner >= square - 1e-11 * most


@pytest.mark.parametrize("name", CONVEX)
@given(problems(), SEEDS)
def test_samples_may_be_permuted(name, problem, seed):
    v, alpha, tau = problem
    case = Case(name, *v.shape, alpha)
    order = torch.randperm(len(v), generator=torch.Generator().manual_seed(seed))
    cost = permuted = case.cost
    if name.startswith(PER_BATCH):
        permuted = gsat.PerBatch(cost.cost).bind([batches(len(v))[i] for i in order])
    assert close(permuted.prox(v[order], tau), cost.prox(v, tau)[order], 1e-11, v.abs().max())


@pytest.mark.parametrize("name", ["universal", "low-rank", "unstructured", "per-batch low-rank", "scaled low-rank"])
@given(problems(), SEEDS)
def test_features_may_be_rotated(name, problem, seed):
    v, alpha, tau = problem
    cost = Case(name, *v.shape, alpha).cost
    rotation = torch.linalg.qr(normal(v.shape[1], v.shape[1], seed=seed)).Q
    assert close(cost.prox(v @ rotation, tau), cost.prox(v, tau) @ rotation, 1e-10, v.abs().max())


@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_zero_is_free_and_stays_zero(name, alpha):
    cost, zero = Case(name, 5, 8, alpha).cost, torch.zeros(5, 8, dtype=torch.float64)
    assert float(cost.value(zero)) == 0
    for tau in TAUS:
        assert torch.equal(cost.prox(zero, tau), zero)
        assert torch.equal(cost.shrink(zero, tau), zero)


@pytest.mark.parametrize("k", [None, 1])
@pytest.mark.parametrize("name", CONVEX)
def test_alpha_zero_is_ordinary_transport(name, k):
    cost, v = Case(name, 5, 8, 0.0, k if name in HARD else None).cost, normal(5, 8, seed=1)
    square = Case(name, 5, 8, 0.0).unit ** 2
    np.testing.assert_allclose(float(cost.value(v)), float(v.square().sum()) / square, rtol=1e-12)
    assert torch.equal(cost.shrink(v, 3.0), v)
    torch.testing.assert_close(cost.prox(v, 3.0), v / (1 + 6 / square))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("k", [None, 0, 2])
@pytest.mark.parametrize("name", CONVEX)
def test_tau_zero_is_the_identity_in_new_memory(name, alpha, k):
    cost, v = Case(name, 5, 8, alpha, k if name in HARD else None).cost, normal(5, 8, seed=2)
    for p in (cost.prox(v, 0), cost.shrink(v, 0)):
        assert torch.equal(p, v)
        assert p.data_ptr() != v.data_ptr()


@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.parametrize("name", CONVEX)
def test_images_are_flattened(name, k):
    case, flat = Case(name, 5, 24, 0.3, k if name in HARD else None), normal(5, 24, seed=3)
    image = flat.reshape(5, 2, 3, 4)
    for v in (image, image.to(memory_format=torch.channels_last), flat.T.contiguous().T.reshape(5, 2, 3, 4)):
        for tau in TAUS:
            torch.testing.assert_close(case.cost.prox(v, tau), case.cost.prox(flat, tau).reshape(5, 2, 3, 4))
        p = case.cost.prox(image, 0.4)
        assert float(case.cost.value(p)) == pytest.approx(float(case.cost.value(p.reshape(5, 24))))


def test_feature_groups_may_have_the_shape_of_a_sample():
    labels = torch.arange(24).reshape(2, 3, 4) % 5
    cost = gsat.GroupSparse(0.3, feature_groups=labels)
    assert cost == gsat.GroupSparse(0.3, feature_groups=labels.reshape(-1).numpy())
    v = normal(5, 2, 3, 4, seed=4)
    norms = torch.stack([v[:, labels == one].norm() for one in range(5)])
    torch.testing.assert_close(cost.norms(v), norms)


@given(groups(least=2), st.floats(0.05, 1.5))
def test_columns_and_blocks_are_zero_iff_their_norm_is_at_most_tau(drawn, share):
    v, _ = drawn
    for name in ("group-sparse", "blocks"):
        case = Case(name, *v.shape, 1.0)
        for tau in (share * float(case.sizes(v).max()), float(np.median(case.sizes(v)) * (1 + 1e-9))):
            p, sizes = case.cost.shrink(v, tau), case.sizes(v)
            clear = np.abs(sizes - tau) > 1e-12 * tau  # a norm that is tau up to rounding may fall on either side
            assert ((case.sizes(p) > 0) == (sizes > tau))[clear].all()


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1e-40), (torch.float64, 1e-310), (torch.float32, 1e30)])
def test_columns_of_any_size_are_shrunk_by_tau(dtype, size):
    v = torch.full((4, 3), size, dtype=dtype)
    torch.testing.assert_close(gsat.GroupSparse().shrink(v, size), v / 2, rtol=1e-4, atol=0)  # norms are 2·size
    assert torch.equal(gsat.GroupSparse().shrink(v, 2.001 * size), torch.zeros_like(v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(4, 12), (12, 4), (1, 5), (5, 1)])
def test_low_rank_is_zero_iff_the_spectral_norm_is_at_most_tau(shape, dtype):
    v = normal(*shape, seed=5, dtype=dtype)
    sigma = float(torch.linalg.svdvals(v.double())[0])
    margin = 1e-9 if dtype == torch.float64 else 1e-5
    assert not gsat.LowRank(1.0).shrink(v, sigma * (1 + margin)).any()
    assert gsat.LowRank(1.0).shrink(v, sigma * (1 - margin)).any()


# ---- at most k columns, at most rank k


@pytest.mark.parametrize("k", [0, 1, 3, 8, 50])
@pytest.mark.parametrize("name", HARD)
@given(groups(), SEEDS, st.floats(0.01, 9.0))
def test_hard_forms_are_the_nearest_point(name, k, drawn, seed, tau):
    v, _ = drawn
    case = Case(name, *v.shape, 0.7, k)
    shrunk, p = case.cost.shrink(v, tau), case.cost.prox(v, tau)
    assert close(shrunk, case.cost.shrink(shrunk, tau), 1e-12, v.abs().max())
    assert float(case.cost.structure(shrunk)) == float(case.cost.structure(p)) == 0
    lost = sum(float(np.square(np.sort(case.sizes(part))[::-1][k:]).sum()) for part in case.parts(v))
    size = float(v.square().sum())
    assert float((shrunk - v).square().sum()) == pytest.approx(lost, rel=1e-9, abs=1e-12 * size)
    rival = case.cost.shrink(v + 0.2 * v.abs().max() * normal(*v.shape, seed=seed), tau)
    for u in (rival, 0.9 * p, 1.1 * p, shrunk):
        at_u, at_p = (tau * 0.3 * float(w.square().sum()) + 0.5 * float((w - v).square().sum()) for w in (u, p))
        assert at_u >= at_p - 1e-12 * size * (1 + tau)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (40, 300), (300, 40)])
def test_rank_k_is_eckart_young(shape, dtype):
    v = normal(*shape, seed=6, dtype=dtype)
    left, sigma, right = np.linalg.svd(v.double().numpy(), full_matrices=False)
    for k in (0, 1, 3, 5):
        cost = gsat.LowRank(0.4, k=k)
        p = cost.shrink(v, 0.1)
        expected = torch.from_numpy(left[:, :k] * sigma[:k] @ right[:k])
        assert close(p, expected, 1e-5 if dtype == torch.float32 else 1e-12, v.abs().max())
        assert float(cost.structure(p)) == 0


def test_k_keeps_the_longest_columns_or_blocks_and_breaks_ties():
    v = torch.tensor([[3.0, 0, 4, 1], [0, 0, 0, 1]])
    assert gsat.GroupSparse(k=2).shrink(v, 1.0).tolist() == [[3, 0, 4, 0], [0, 0, 0, 0]]
    assert gsat.GroupSparse(k=1, feature_groups="abca").shrink(v, 1.0).tolist() == [[0, 0, 4, 0], [0, 0, 0, 0]]
    assert gsat.GroupSparse(k=1, feature_groups="aaab").shrink(v, 1.0).tolist() == [[3, 0, 4, 0], [0, 0, 0, 0]]
    assert int((gsat.GroupSparse(k=2).shrink(torch.ones(3, 5), 1.0) != 0).any(0).sum()) == 2


@pytest.mark.parametrize(("dtype", "small", "large"), [(torch.float32, 1e-7, 1e-4), (torch.float64, 1e-14, 1e-10)])
def test_indicators_have_a_tolerance(dtype, small, large):
    row, noise = normal(1, 8, seed=7, dtype=dtype), normal(5, 8, seed=8, dtype=dtype)
    thin = normal(5, 2, seed=9, dtype=dtype) @ normal(2, 8, seed=10, dtype=dtype)
    for scale in (1.0, 1e-9, 1e9):
        for cost, exact in [
            (gsat.Universal(), row.repeat(5, 1)),
            (gsat.LowRank(k=2), thin),
            (gsat.GroupSparse(k=4), torch.where(torch.arange(8) < 4, noise, 0)),
        ]:
            assert float(cost.structure(scale * exact)) == 0
            assert float(cost.structure(scale * (exact + small * noise / 4))) == 0
            assert float(cost.structure(scale * (exact + large * noise))) == float("inf")
            assert float(cost.value(scale * (exact + large * noise))) == float("inf")
    assert float(gsat.LowRank(k=0).structure(noise)) == float(gsat.GroupSparse(k=0).structure(noise)) == float("inf")
    assert float(gsat.LowRank(k=5).structure(noise)) == float(gsat.GroupSparse(k=8).structure(noise)) == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_rows_are_equal_up_to_its_rounding(dtype):
    eps = torch.finfo(dtype).eps
    for other, allowed in [(1.0, True), (1 + 2 * eps, True), (1 + 16 * eps, False)]:
        delta = torch.ones(5, 8, dtype=dtype)
        delta[3] = other
        for cost in (gsat.Universal(0.3), gsat.PerBatch(gsat.Universal(0.3)).bind([0, 0, 0, 0, 0])):
            assert bool(cost.value(delta).isfinite()) == allowed
        columns = torch.cat([torch.ones(5, 2, dtype=dtype), (other - 1) * torch.ones(5, 6, dtype=dtype)], 1)
        assert bool(gsat.GroupSparse(0.3, k=2).value(columns).isfinite()) == allowed
    rounded = normal(1, 8, seed=12).repeat(5, 1) * (1 + eps / 4 * normal(5, 8, seed=13).sign())
    assert gsat.Universal(0.3).value(rounded.to(dtype)).isfinite()


# ---- against cvxpy


@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (4, 12)])
@pytest.mark.parametrize("name", ["universal", "group-sparse", "blocks", "low-rank"])
def test_prox_agrees_with_cvxpy(name, shape):
    v, u, rules, labels = normal(*shape, seed=11), cp.Variable(shape), [], np.array(blocks(shape[1]))
    g = {
        "universal": lambda: 0,
        "group-sparse": lambda: cp.sum(cp.norm(u, 2, axis=0)),
        "blocks": lambda: sum(cp.norm(u[:, np.flatnonzero(labels == one)], "fro") for one in "abc"),
        "low-rank": lambda: cp.normNuc(u),
    }[name]()
    for alpha in ALPHAS:
        if name == "universal" and alpha > 0:
            rules = [u[1:] == u[:-1]]
        for tau in TAUS:
            c = alpha * g + (1 - alpha) * cp.sum_squares(u)
            problem = cp.Problem(cp.Minimize(tau * c + 0.5 * cp.sum_squares(u - v.numpy())), rules if tau else [])
            problem.solve(solver="CLARABEL")
            p = Case(name, *shape, alpha).cost.prox(v, tau)
            np.testing.assert_allclose(p.numpy(), u.value, atol=1e-5)
