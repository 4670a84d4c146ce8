"""AnnData objects whose matrix stays in its file: the same as in memory."""

import pickle

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from scipy import sparse

import gsat
from cells import QUICK, plainly
from gsat.data.rows import BLOCK, StoredRows
from gsat.estimators.cells import matrix
from gsat.experiments import checking
from stored import watched, wide

SHORT = QUICK | {"n_outer": 5}


@pytest.fixture(params=["csr", "dense"])
def pair(request, tmp_path):
    """The same cells in memory and backed."""
    path, adata = tmp_path / "cells.h5ad", plainly()
    adata.X = sparse.csr_matrix(adata.X) if request.param == "csr" else adata.X
    adata.write_h5ad(path)
    backed = anndata.read_h5ad(path, backed="r" if request.param == "csr" else "r+")
    yield anndata.read_h5ad(path), backed
    backed.file.close()


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def test_fit_and_predict(pair):
    adata, backed = pair
    for each in pair:
        classifier = gsat.tl.fit(each, "type", batch_key="donor", **SHORT)
    np.testing.assert_allclose(backed.obsm["gsat_probabilities"], adata.obsm["gsat_probabilities"], atol=1e-6)
    np.testing.assert_allclose(backed.var["gsat_score"], adata.var["gsat_score"], atol=1e-6)
    for each in pair:
        gsat.tl.predict(each, classifier, key_added="again")
    np.testing.assert_allclose(backed.obsm["again_probabilities"], adata.obsm["gsat_probabilities"], atol=1e-6)


def test_diagnose(pair):
    found, expected = (gsat.tl.diagnose(adata, "donor", "type", n_splits=2) for adata in reversed(pair))
    assert (found.structure, found.p_value) == (expected.structure, expected.p_value)
    pd.testing.assert_frame_equal(found.table, expected.table)
    np.testing.assert_array_equal(pair[1].var["gsat_shift_rank"], pair[0].var["gsat_shift_rank"])


def test_check_looks_at_the_same_samples(pair, monkeypatch):
    seen = []

    def instead(subject, *args, **kwargs):
        seen.append(subject)
        raise InterruptedError

    monkeypatch.setattr(checking, "checked", instead)
    for adata in pair:
        with pytest.raises(InterruptedError):
            gsat.tl.check(adata[10:], "type", "donor", max_samples=90)
    found, expected = reversed(seen)
    assert isinstance(found.table.X, StoredRows)
    assert (found.identity, found.notes) == (expected.identity, expected.notes)


def test_rows_of_a_view_and_of_another_process(pair):
    adata, backed = pair
    for view in (backed[40:60, ::2], backed[[7, 3, 9], ["gene1", "gene0"]], backed[backed.obs["donor"] == "d1"]):
        found = pickle.loads(pickle.dumps(matrix(view, None)))
        assert isinstance(found, StoredRows)
        np.testing.assert_array_equal(found.dense(slice(None)), dense(adata[view.obs_names, view.var_names].X))
    with pytest.raises(ValueError, match=r"adata must be no view of a backed object.* call adata.to_memory\(\)"):
        gsat.tl.fit(backed[:40], "type")


@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
def test_a_matrix_that_was_opened_alone(tmp_path):
    adata = plainly()
    adata.X = sparse.csr_matrix(adata.X)
    adata.write_zarr(tmp_path / "cells.zarr")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    with h5py.File(tmp_path / "cells.h5ad") as file:
        for group in (file["X"], zarr.open_group(tmp_path / "cells.zarr", mode="r")["X"]):
            lazy = anndata.AnnData(anndata.io.sparse_dataset(group), adata.obs, adata.var)
            found = matrix(lazy[::3], None)
            assert isinstance(found, StoredRows)
            np.testing.assert_array_equal(found.dense(slice(None)), dense(adata[::3].X))


def test_no_read_asks_for_more_than_a_block(tmp_path, monkeypatch):
    X, y, batch, _ = wide(2200)
    obs = pd.DataFrame({"type": np.array(["B", "T"])[y], "donor": batch}, index=[f"c{i}" for i in range(len(y))])
    anndata.AnnData(sparse.csr_matrix(X), obs).write_h5ad(tmp_path / "cells.h5ad")
    asked = watched(monkeypatch)
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    classifier = gsat.tl.fit(adata, "type", batch_key="donor", **SHORT | {"n_outer": 2, "n_inner": 1})
    gsat.tl.predict(adata, classifier)
    gsat.tl.diagnose(adata, "donor", "type", n_splits=2, max_samples=60)
    adata.file.close()
    assert 0 < max(asked) <= BLOCK < np.prod(X.shape) // 2


@pytest.mark.parametrize(
    ("form", "value", "message"),
    [
        (sparse.csr_matrix, np.nan, r"got missing or infinite ones, the first of them in cell 'cell70'"),
        (np.asarray, np.inf, r"got missing or infinite ones, the first of them in cell 'cell70'"),
    ],
)
def test_what_cannot_be_read_by_rows(tmp_path, form, value, message):
    adata = plainly()
    adata.X[70, 3] = value
    adata.X = form(adata.X)
    adata.write_h5ad(tmp_path / "x.h5ad")
    backed = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    with pytest.raises(ValueError, match=message):
        gsat.tl.fit(backed, "type")
    backed.file.close()


def test_columns_are_turned_into_rows_once(tmp_path):
    adata, path = plainly(), tmp_path / "x.h5ad"
    adata.X = sparse.csc_matrix(adata.X)
    adata.write_h5ad(path)
    backed = anndata.read_h5ad(path, backed="r")
    with pytest.warns(UserWarning, match=r"has X by columns \(CSC\); it is written by rows to .*, once"):
        found = matrix(backed[5:9], None)
    np.testing.assert_array_equal(found.dense(slice(None)), adata.X[5:9].toarray())
    backed.file.close()
    backed = anndata.read_h5ad(path, backed="r+")
    with pytest.raises(ValueError, match=r'got CSC.* with backed="r", .*adata.to_memory\(\), of \d.* kB'):
        gsat.tl.fit(backed, "type")
    backed.file.close()
