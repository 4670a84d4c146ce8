"""Samples as fit and predict get them."""

import numpy as np
import pytest
import scipy.sparse as sp

import gsat
from gsat._arrays.standardise import Standardised
from gsat.estimators import given
from stored import cells


@pytest.fixture
def mixed():
    """A function that makes a CSR matrix with these index types, as anndata makes it of a file; and labels."""
    X, y, _ = cells(60, 12)

    def make(of_indices, of_indptr, form=sp.csr_matrix):
        made = form(X)
        made.indices, made.indptr = made.indices.astype(of_indices), made.indptr.astype(of_indptr)
        return made

    return make, y


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("types", [("int32", "int64"), ("int64", "int32"), ("int32", "int32")])
def test_index_types_are_made_alike_without_a_copy_of_the_entries(mixed, types, form):
    make, y = mixed
    X = make(*types, form)
    clf = gsat.ERMClassifier(n_outer=1)
    found, _ = given.labelled(clf, X, y, reset=True)
    for each in (found, given.unlabelled(clf, X)):
        assert isinstance(each, form)
        assert each.indptr.dtype == each.indices.dtype
        assert np.shares_memory(each.data, X.data)
        assert np.shares_memory(each.indices, X.indices) or types[0] == "int64"
        np.testing.assert_array_equal(each.toarray(), X.toarray())
    assert (X.indices.dtype, X.indptr.dtype) == types  # the caller's matrix is as it was


def test_every_group_is_drawn_from_indices_of_one_type(mixed, monkeypatch):
    make, y = mixed
    seen, some = set(), Standardised.__getitem__
    monkeypatch.setattr(
        Standardised,
        "__getitem__",
        lambda self, rows: (seen.add((self.X.indices.dtype, self.X.indptr.dtype)), some(self, rows))[1],
    )
    gsat.ERMClassifier(n_outer=2, group_size=10).fit(make(np.int32, np.int64), y)
    assert seen == {(np.dtype(np.int32), np.dtype(np.int32))}
