"""A diagnosis of samples that stay in their file."""

import numpy as np
import pandas as pd
import pytest

import gsat
from gsat.data import memory
from gsat.data.rows import BLOCK
from stored import watched, wide

QUICK = {"n_splits": 2, "n_permutations": 199, "max_samples": 60}


def test_it_is_the_same_as_in_memory_and_reads_a_block_at_a_time(monkeypatch):
    X, y, batch, stored = wide()
    asked = watched(monkeypatch)
    found, expected = (gsat.diagnose(rows, batch, y, **QUICK) for rows in (stored, X))
    assert (found.structure, found.size, found.p_value) == (expected.structure, expected.size, expected.p_value)
    np.testing.assert_array_equal(found.features, expected.features)
    for name in ("table", "pairs"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(expected, name))
    assert 0 < max(asked) <= BLOCK < np.prod(X.shape) // 2


def test_what_does_not_fit_into_memory_is_told_with_its_size():
    _, y, batch, stored = wide(n=300)
    with (
        memory.limited("5MB"),
        pytest.raises(ValueError, match=r"diagnose with 60 samples of 8,192 features needs 7.86 MB .* max_samples"),
    ):
        gsat.diagnose(stored, batch, y, **QUICK)
    assert stored.store.asked == []
