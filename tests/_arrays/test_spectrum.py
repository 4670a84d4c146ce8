"""Singular value shrinkage of long, thin matrices: precise, and never through a full SVD."""

import numpy as np
import pytest
import torch

import gsat
from gsat._arrays.subspace import _tail_bound
from gsat._arrays.svd import singular_values
from strategies import normal

LONG = [(60, 900), (900, 60)]


def with_singular_values(shape, sigma, seed=0):
    """A float64 matrix with these singular values."""
    left = torch.linalg.qr(normal(shape[0], len(sigma), seed=seed)).Q
    right = torch.linalg.qr(normal(shape[1], len(sigma), seed=seed + 1)).Q
    return left * torch.as_tensor(sigma, dtype=torch.float64) @ right.T


def by_svd(v, tau):
    """The definition, with numpy in float64."""
    left, sigma, right = np.linalg.svd(v.double().numpy(), full_matrices=False)
    return torch.from_numpy(left * np.maximum(sigma - tau, 0) @ right)


def error(p, expected):
    return float((p.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("share", [0.0, 1e-7, 1e-4, 9e-3, 1.1e-2, 0.3])
@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize("at_hand", [("cpu",), ()], ids=["at hand", "unread"])
def test_ill_conditioned(shape, share, dtype, at_hand, monkeypatch):
    monkeypatch.setattr("gsat._arrays.norms.AT_HAND", at_hand)
    v = with_singular_values(shape, np.geomspace(1, 1e-6, 60)).to(dtype)
    p = gsat.LowRank(1.0).shrink(v, share)
    assert p.dtype == dtype
    assert error(p, by_svd(v, share)) <= (1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize(("dtype", "small"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("shape", LONG)
def test_small_singular_values_survive_a_small_threshold(shape, dtype, small):
    v = with_singular_values(shape, [1.0, 100 * small, small, small / 3])
    rest = by_svd(v, small / 10) - by_svd(v, 10 * small)
    p, q = (gsat.LowRank(1.0).shrink(v.to(dtype), tau) for tau in (small / 10, 10 * small))
    assert error(p - q, rest) <= 2e-2  # the rounding of entries of the size of σ₁ is a hundredth of `small`


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize("sigma", [[2.0] * 60, [3.0, 3.0, 1.0, 1.0, 1.0] + [0.0] * 55, [5.0] + [0.0] * 59])
@pytest.mark.parametrize("tau", [1e-6, 0.03, 0.9, 1.5])
def test_repeated_and_zero_singular_values(sigma, shape, tau, dtype):
    v = with_singular_values(shape, sigma).to(dtype)
    p = gsat.LowRank(1.0).shrink(v, tau)
    assert error(p, by_svd(v, tau)) <= (1e-5 if dtype == torch.float32 else 1e-12)


RANGE_ENDS = [(torch.float32, 10.0**power) for power in (-25, -22, -20, 18, 20, 25)]
RANGE_ENDS += [(torch.float64, 1e-200), (torch.float64, 1e200)]


@pytest.mark.parametrize(("dtype", "scale"), RANGE_ENDS)
@pytest.mark.parametrize(
    "cost", [gsat.LowRank(1.0), gsat.GroupSparse(1.0), gsat.GroupSparse(1.0, feature_groups="ab" * 6)]
)
def test_entries_whose_squares_leave_the_range(cost, dtype, scale):
    v = normal(5, 12, seed=3, dtype=dtype)
    p = cost.shrink(v * scale, 1.3 * scale)
    torch.testing.assert_close(p / scale, cost.shrink(v, 1.3), rtol=1e-5, atol=1e-6)
    assert float(cost.structure(v * scale)) / scale == pytest.approx(float(cost.structure(v)), rel=1e-5)


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("make", [gsat.LowRank, gsat.GroupSparse])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
def test_half_precision_keeps_its_dtype(make, k, dtype, tolerance):
    cost, v = make(0.6, k=k), normal(7, 40, seed=4, dtype=dtype)
    p = cost.prox(v, 0.4)
    assert p.dtype == dtype
    torch.testing.assert_close(p.double(), cost.prox(v.double(), 0.4), rtol=0, atol=tolerance * float(v.abs().max()))
    assert cost.value(p).isfinite()
    assert cost.value(p).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", LONG)
def test_singular_values(shape, dtype):
    v = with_singular_values(shape, np.geomspace(1, 1e-6, 60)).to(dtype)
    expected = np.linalg.svd(v.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(singular_values(v).numpy(), expected, rtol=0, atol=1e-8)


def test_many_singular_values_near_the_threshold():
    tau, sigma = 0.0105, np.random.default_rng(0).normal(1, 0.01, 200)
    sigma = np.array([1, 0.5, 1 + 1e-6, *sigma[3:]]) * np.array([1, 1, *[tau] * 198])
    v = with_singular_values((200, 900), sigma).float()
    assert error(gsat.LowRank(1.0).shrink(v, tau), by_svd(v, tau)) <= 1e-5


def small_only(function, most):
    """`function`, which refuses matrices of more than `most` entries."""

    def checked(matrix, *arguments, **options):
        if matrix.numel() > most:
            raise AssertionError(f"decomposed a matrix of shape {tuple(matrix.shape)}")
        return function(matrix, *arguments, **options)

    return checked


@pytest.mark.parametrize("tau", [1e-3, 5.0, 20.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", LONG)
def test_the_long_side_is_never_decomposed(shape, dtype, tau, monkeypatch):
    v = normal(*shape, seed=5, dtype=dtype)
    expected, nuclear = by_svd(v, tau), np.linalg.svd(v.double().numpy(), compute_uv=False).sum()
    for name in ("svd", "svdvals", "eigh", "eigvalsh"):
        monkeypatch.setattr(torch.linalg, name, small_only(getattr(torch.linalg, name), 64 * 64))
    assert error(gsat.LowRank(1.0).shrink(v, tau), expected) <= 1e-5
    assert float(gsat.LowRank(1.0).structure(v)) == pytest.approx(nuclear, rel=1e-5)
    assert gsat.LowRank(1.0, k=2).shrink(v, tau).isfinite().all()
    with pytest.raises(AssertionError, match="decomposed a matrix of shape"):
        torch.linalg.svd(v)


def no_convergence(*arguments, **options):
    raise torch.linalg.LinAlgError("linalg.eigh: the algorithm failed to converge")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tau", [1e-3, 8.0])
@pytest.mark.parametrize("shape", [(6, 50), (50, 6)])
def test_the_full_svd_stands_in_where_eigh_fails(shape, tau, dtype, monkeypatch):
    v = normal(*shape, seed=6, dtype=dtype)
    monkeypatch.setattr(torch.linalg, "eigh", no_convergence)
    assert error(gsat.LowRank(1.0).shrink(v, tau), by_svd(v, tau)) <= 1e-5


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_matrix_that_is_not_finite_is_refused(bad):
    v = normal(4, 6, seed=7)
    v[1, 2] = bad
    with pytest.raises(ValueError, match=f"must be finite, its largest entry is {bad}"):
        gsat.LowRank().shrink(v, 0.1)


def drifting(shape, sigma, n=6, step=0.02, dtype=torch.float32):
    """Matrices with these singular values whose singular vectors turn a little from one to the next."""
    left, right = normal(shape[0], len(sigma), seed=1), normal(shape[1], len(sigma), seed=2)
    for i in range(n):
        turn = i * step
        frames = [torch.linalg.qr(side + turn * normal(*side.shape, seed=3)).Q for side in (left, right)]
        yield (frames[0] * torch.as_tensor(sigma, dtype=torch.float64) @ frames[1].T).to(dtype)


def counting(monkeypatch, smallest):
    """How often a matrix with at least that many rows is decomposed."""
    calls = []
    whole = torch.linalg.eigh

    def eigh(matrix):
        if len(matrix) >= smallest:
            calls.append(len(matrix))
        return whole(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", eigh)
    return calls


FEW = [5.0, 4.0, 3.0, 2.0] + [0.1] * 156


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(160, 900), (900, 160), (300, 900)])
@pytest.mark.parametrize("tau", [0.01, 1.0])
def test_a_remembered_subspace_gives_the_same_shrink_without_another_decomposition(shape, dtype, tau, monkeypatch):
    calls, sigma = counting(monkeypatch, 100), FEW if tau == 1.0 else [*FEW[:4], *[0.002] * 156]
    warm = gsat.LowRank(1.0).remembering()
    for v in drifting(shape, sigma, dtype=dtype):
        bound = 1e-5 if dtype == torch.float32 else 1e-11
        assert error(warm.shrink(v, tau), by_svd(v, tau)) <= bound
    if dtype == torch.float32 or tau == 1.0:  # a small tau in float64 goes through QR, which needs no squares
        assert len(calls) == 1


@pytest.mark.parametrize("n", [160, 300])
def test_a_direction_outside_the_remembered_subspace_is_not_missed(n, monkeypatch):
    calls, warm = counting(monkeypatch, 100), gsat.LowRank(1.0).remembering()
    v = next(drifting((n, 900), [*FEW[:4], *np.linspace(0.2, 0.1, n - 4)], dtype=torch.float64))
    warm.shrink(v, 1.0)
    left, right = torch.linalg.svd(v, full_matrices=False)[::2]
    grown = v + 1.5 * left[:, 40:41] @ right[40:41]  # orthogonal to all that is remembered
    assert error(warm.shrink(grown, 1.0), by_svd(grown, 1.0)) <= 1e-11
    assert len(calls) == 2


@pytest.mark.parametrize(("rest", "shown"), [(0.1, False), (0.9, True)])
@pytest.mark.parametrize("n", [160, 300])
def test_a_cholesky_factor_decides_where_the_sum_of_the_other_eigenvalues_is_large(n, rest, shown, monkeypatch):
    factors, whole, warm = [], torch.linalg.cholesky_ex, gsat.LowRank(1.0).remembering()
    monkeypatch.setattr(torch.linalg, "cholesky_ex", lambda matrix: factors.append(1) or whole(matrix))
    calls = counting(monkeypatch, 100)
    for v in drifting((n, 900), [5.0, 4.0, 3.0, 2.0, *np.linspace(rest, 0.1, n - 4)]):
        assert error(warm.shrink(v, 1.0), by_svd(v, 1.0)) <= 1e-5
    assert len(calls) == 1
    assert bool(factors) == shown


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("rank", [0, 1, 5, 12])
def test_no_eigenvalue_beside_the_leading_ones_is_above_the_bound(rank, order):
    for seed in range(20):
        v = normal(12, 30, seed=seed)
        gram = v @ v.T
        frame = torch.linalg.qr(normal(12, 12, seed=100 + seed) @ gram).Q[:, :rank]
        ritz = torch.linalg.eigvalsh(frame.T @ gram @ frame).tolist()
        size = float(torch.linalg.matrix_power(gram, order // 2).norm())
        left = torch.linalg.eigvalsh(gram).flip(0)[rank:]
        assert _tail_bound(size, ritz, order) >= (float(left[0]) if len(left) else 0)


def test_without_a_gap_the_decomposition_comes_back_and_stays(monkeypatch):
    calls, warm = counting(monkeypatch, 100), gsat.LowRank(1.0).remembering()
    matrices = list(drifting((160, 900), [*np.linspace(3, 1.01, 10), *np.linspace(0.99, 0.5, 150)]))
    for v in matrices:
        assert error(warm.shrink(v, 1.0), by_svd(v, 1.0)) <= 1e-5
    assert len(calls) == len(matrices)


def test_a_rank_that_is_not_small_is_not_remembered():
    warm = gsat.LowRank(1.0).remembering()
    for v in drifting((160, 900), [2.0] * 80 + [0.1] * 80, n=2):
        assert error(warm.shrink(v, 1.0), by_svd(v, 1.0)) <= 1e-5
        assert warm._memory.basis is None


def test_small_matrices_are_decomposed_each_time():
    warm = gsat.LowRank(1.0).remembering()
    for v in drifting((60, 900), FEW[:60], n=2):
        assert error(warm.shrink(v, 1.0), by_svd(v, 1.0)) <= 1e-5
        assert warm._memory.basis is None


def test_matrices_of_another_shape_and_none_above_the_threshold():
    warm = gsat.LowRank(1.0).remembering()
    for shape in ((160, 900), (140, 900), (160, 900)):
        v = next(drifting(shape, FEW[: min(shape)]))
        assert error(warm.shrink(v, 1.0), by_svd(v, 1.0)) <= 1e-5
        assert not warm.shrink(v, 6.0).any()
        assert not warm.shrink(v, 6.1).any()


def test_remembering_leaves_the_cost_as_it_is():
    cost = gsat.LowRank(0.3)
    warm = cost.remembering()
    assert warm == cost
    warm.shrink(normal(8, 30, seed=1), 0.1)
    assert cost._memory is None
    assert cost.remembering()._memory is not warm._memory
