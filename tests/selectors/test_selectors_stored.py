"""Selection on samples that stay in their file."""

import numpy as np
import pytest

import gsat
from gsat.data import memory
from gsat.data.rows import BLOCK, StoredRows
from stored import watched, wide

QUICK = {"n_outer": 3, "n_groups": 2, "hidden": 4, "random_state": 0}


def test_features_are_those_of_samples_in_memory_read_a_block_at_a_time(monkeypatch):
    X, y, _, stored = wide()
    asked = watched(monkeypatch)
    found, expected = (gsat.GroupSparseSelector(1024, n_resamples=1, **QUICK).fit(rows, y) for rows in (stored, X))
    np.testing.assert_allclose(found.scores_, expected.scores_, rtol=1e-4, atol=1e-9)
    assert 0 < max(asked) <= BLOCK < np.prod(X.shape) // 2
    kept = found.transform(stored)
    assert isinstance(kept, StoredRows)
    np.testing.assert_array_equal(kept.dense([4, 2]), found.transform(X)[[4, 2]].toarray())


def test_a_basis(monkeypatch):
    X, y, _, stored = wide()
    asked = watched(monkeypatch)
    options = {"n_outer": 2, "n_inner": 1, "n_groups": 1, "hidden": 4, "random_state": 0}
    found, expected = (gsat.LowRankBasis(2, **options).fit(rows, y) for rows in (stored, X))
    np.testing.assert_allclose(found.transform(stored), expected.transform(X), rtol=1e-4, atol=1e-5)
    assert 0 < max(asked) <= BLOCK


def test_knockoffs_that_do_not_fit_into_memory():
    _, y, _, stored = wide(n=300)
    selector = gsat.GroupSparseSelector(20, fdr=0.1, **QUICK)
    with (
        memory.limited("50MB"),
        pytest.raises(ValueError, match=r"fdr with 300 samples of 8,192 features needs 157 MB .*; without fdr samples"),
    ):
        selector.fit(stored, y)
    assert stored.store.asked == []
