"""Moments of sparse rows are those of the dense ones, also where columns are large, constant, or seldom stored."""

import numpy as np
import pytest
from scipy import sparse

from gsat._arrays.standardise import mean_and_scale, moments

N = 600


def matrix(rng):
    """Columns (n, 8): usual ones, large and alike, of a tiny spread, seldom 0, seldom stored, constant, and all 0."""
    X = rng.normal(size=(N, 8)) * (rng.random((N, 8)) < 0.3)
    X[:, 1] = 1e6 + rng.normal(size=N)
    X[:, 2] = 1e4 + 1e-2 * rng.normal(size=N)
    X[:, 3] = 1e5 + rng.normal(size=N)
    X[7, 3] = 0
    X[:, 4] = 0
    X[50, 4] = 3e4
    X[:, 5], X[:, 6] = 7.3, 0
    return X


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_moments_hold_their_digits(form, weighted):
    rng = np.random.default_rng(0)
    X = matrix(rng)
    weights = rng.random(N) if weighted else None
    share = np.full(N, 1 / N) if weights is None else weights / weights.sum()
    mean = share @ X
    variance = share @ np.square(X - mean)  # in two passes
    found = moments(form(X), weights)
    np.testing.assert_allclose(found[0], mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[1], variance, rtol=1e-8, atol=1e-20)
    np.testing.assert_allclose(found[1], moments(X, weights)[1], rtol=1e-8, atol=1e-20)
    assert found[1][5] == found[1][6] == 0
    assert mean_and_scale(form(X), weights)[1][[5, 6]].tolist() == [1, 1]


def test_a_column_that_is_constant_where_rows_have_weight():
    weights = np.where(np.arange(N) % 3 == 0, 0.0, 0.1 + np.arange(N))
    X = np.where(weights[:, None] > 0, 5e3, 0) * np.ones((N, 2))
    X[:, 1] = np.where(weights > 0, 0, 4.0)
    mean, variance = moments(sparse.csr_array(X), weights)
    np.testing.assert_allclose(mean, [5e3, 0], rtol=1e-12)
    assert variance.tolist() == [0, 0]


def test_entries_that_are_stored_in_parts():
    X = sparse.csr_array((np.array([1.0, 2.0, 5.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    np.testing.assert_allclose(moments(X), moments(X.toarray()))
    assert X.nnz == 3  # the caller's matrix is as it was


def test_blocks_of_rows_add_up(monkeypatch):
    rng = np.random.default_rng(1)
    X = sparse.csr_array(matrix(rng).astype(np.float32))
    whole = moments(X)
    monkeypatch.setattr("gsat._arrays.standardise.MANY", 1)
    monkeypatch.setattr("gsat._arrays.chunks.at_a_time", lambda d: 7)
    np.testing.assert_allclose(moments(X), whole, rtol=1e-8, atol=1e-14)
