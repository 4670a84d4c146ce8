"""Singular value shrinkage without a read: the same as with reads, and a report that tells what does not hold."""

import numpy as np
import pytest
import torch
from test_spectrum import FEW, by_svd, drifting, error, with_singular_values

import gsat
from gsat._arrays import unread as _unread
from gsat._arrays.subspace import Subspace
from gsat._arrays.svd import Soft
from strategies import normal

WIDE, SPARE = (160, 900), 4


@pytest.fixture(autouse=True)
def _afar(monkeypatch):
    """No number is at hand."""
    monkeypatch.setattr("gsat._arrays.norms.AT_HAND", ())


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
@pytest.mark.parametrize("sigma", [[2.0] * 20, [3.0, 3.0, 1.0, 1.0] + [0.0] * 16, [0.0] * 20])
@pytest.mark.parametrize("tau", [1e-6, 0.9, 1.5])
def test_repeated_and_zero_singular_values(sigma, tau, scale):
    v = (scale * with_singular_values((20, 90), sigma)).float()
    p, expected = gsat.LowRank(1.0).shrink(v, scale * tau) / scale, by_svd(v, scale * tau) / scale
    assert float((p.double() - expected).norm()) <= 1e-5 * max(sigma)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_first_ones_are_kept(dtype):
    v = normal(8, 30, seed=1).to(dtype)
    left, sigma, right = np.linalg.svd(v.double().numpy(), full_matrices=False)
    p = gsat.LowRank(1.0, k=3).shrink(v, 0.4)
    assert p.dtype == dtype
    assert error(p, torch.from_numpy(left[:, :3] * sigma[:3] @ right[:3])) <= 4 * torch.finfo(dtype).eps ** 0.9


def shrunk(memory, v, tau=1.0):
    """The shrunk matrix, and what its report says once it is read."""
    memory.presume = True
    found = _unread.rescale_singular_values(v, Soft(tau), memory)
    sure, rank, largest = memory.report.tolist()
    assert not memory.presume
    return found, memory.learn([sure, rank, largest]), int(rank), largest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [WIDE, WIDE[::-1], (300, 900)])
def test_what_is_remembered_serves_the_next_matrix(shape, dtype, monkeypatch):
    whole, decomposed = torch.linalg.eigh, []
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: decomposed.append(len(matrix)) or whole(matrix))
    memory = Subspace()
    for place, v in enumerate(drifting(shape, FEW, dtype=dtype)):
        found, held, rank, largest = shrunk(memory, v)
        assert held
        assert (rank, largest) == (4, pytest.approx(5.0, rel=1e-4))
        assert error(found, by_svd(v, 1.0)) <= (1e-5 if dtype == torch.float32 else 1e-11)
        assert memory.basis.shape == (min(shape), 4 + SPARE)
        assert not decomposed or set(decomposed) <= ({min(shape)} if place == 0 else {4 + SPARE})
        decomposed.clear()


def test_nothing_is_remembered_or_used_unless_it_is_presumed():
    memory, (first, second) = Subspace(), drifting(WIDE, FEW, n=2)
    shrunk(memory, first)
    basis = memory.basis
    found = _unread.rescale_singular_values(second, Soft(1.0), memory)
    assert error(found, by_svd(second, 1.0)) <= 1e-5
    assert memory.basis is basis
    assert memory.report is None


def spoilt(name):
    """A matrix for which what is remembered of `drifting(WIDE, FEW)` is not all that matters, and the threshold."""
    v = next(drifting(WIDE, FEW, dtype=torch.float64))
    left, _, right = torch.linalg.svd(v, full_matrices=False)
    if name == "a new direction":
        return v + 1.5 * left[:, 40:41] @ right[40:41], 1.0
    if name == "many new ones":
        return v + 1.5 * left[:, 4:20] @ right[4:20], 1.0
    if name == "no gap":
        return next(drifting(WIDE, [*np.linspace(3, 1.01, 10), *np.linspace(0.99, 0.5, 150)], dtype=torch.float64)), 1.0
    if name == "too large":
        return 1e11 * v, 1e11
    if name == "too large a range":
        return v + 500 * left[:, :1] @ right[:1], 1.0
    raise AssertionError(name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["many new ones", "no gap", "too large", "too large a range"])
def test_what_does_not_hold_is_told_and_found_at_the_next_try(name, dtype):
    memory = Subspace()
    shrunk(memory, next(drifting(WIDE, FEW, dtype=dtype)))
    v, tau = spoilt(name)
    v = v.to(dtype)
    _, held, *_ = shrunk(memory, v, tau)
    assert not held
    assert memory.basis is None
    assert memory.failures == 1
    found, held, *_ = shrunk(memory, v, tau)
    assert held
    assert error(found, by_svd(v, tau)) <= (1e-5 if dtype == torch.float32 else 1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_direction_outside_what_is_remembered_is_found_or_told(dtype):
    memory = Subspace()
    shrunk(memory, next(drifting(WIDE, FEW, dtype=dtype)))
    v, tau = spoilt("a new direction")
    found, held, *_ = shrunk(memory, v.to(dtype), tau)
    assert not held or error(found, by_svd(v.to(dtype), tau)) <= (1e-5 if dtype == torch.float32 else 1e-11)


def test_a_cholesky_factor_decides_where_the_sum_of_the_others_is_large():
    memory = Subspace()
    for v in drifting(WIDE, [5.0, 4.0, 3.0, 2.0, *np.linspace(0.9, 0.1, 156)]):
        found, held, rank, _ = shrunk(memory, v)
        assert held
        assert rank == 4
        assert error(found, by_svd(v, 1.0)) <= 1e-5


def test_after_three_failures_in_turn_nothing_is_remembered():
    memory = Subspace()
    for _ in range(3):
        shrunk(memory, next(drifting(WIDE, FEW)))
        assert memory.basis is not None
        assert not shrunk(memory, spoilt("no gap")[0].float())[1]
    assert shrunk(memory, next(drifting(WIDE, FEW)))[1]
    assert memory.basis is None
