"""Singular value shrinkage of long, thin matrices: precise, and never through a full SVD."""

import numpy as np
import pytest
import torch

import gsat
from gsat._arrays.svd import right_singular_vectors, singular_values
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
@pytest.mark.parametrize("share", [0.0, 1e-7, 1e-4, 9e-3, 4.9e-2, 5.1e-2, 0.3])
@pytest.mark.parametrize("shape", LONG)
def test_ill_conditioned(shape, share, dtype):
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
    tau, sigma = 0.0505, np.random.default_rng(0).normal(1, 0.01, 200)
    sigma = np.array([1, 0.5, 1 + 1e-6, *sigma[3:]]) * np.array([1, 1, *[tau] * 198])
    v = with_singular_values((200, 900), sigma).float()
    # float32 vectors mix where σ differ by less than the rounding of σ₁²: eps·σ₁²·√n/(2·tau), relative to σ₁
    assert error(gsat.LowRank(1.0).shrink(v, tau), by_svd(v, tau)) <= 1e-4


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


@pytest.mark.parametrize("shape", LONG)
def test_right_singular_vectors_where_eigh_fails(shape, monkeypatch):
    v = with_singular_values(shape, [5.0, 3.0, 0.7, 1e-9])
    expected = torch.linalg.svd(v, full_matrices=False).Vh[:2]
    monkeypatch.setattr(torch.linalg, "eigh", no_convergence)
    basis = right_singular_vectors(v, 2)
    torch.testing.assert_close(basis @ basis.T, torch.eye(2, dtype=v.dtype))
    torch.testing.assert_close(basis.T @ basis, expected.T @ expected)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_matrix_that_is_not_finite_is_refused(bad):
    v = normal(4, 6, seed=7)
    v[1, 2] = bad
    with pytest.raises(ValueError, match=f"must be finite, its largest entry is {bad}"):
        gsat.LowRank().shrink(v, 0.1)
