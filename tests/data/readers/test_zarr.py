"""Stores of zarr give what .h5ad files of the same cells give, and nothing in them runs or leads out of them."""

import json
import pickle
import shutil

import anndata
import numpy as np
import pytest
from scipy import sparse

from cells import plainly
from gsat import data
from gsat.data.rows import StoredRows

pytestmark = [
    pytest.mark.filterwarnings("ignore:Writing zarr v2 data"),
    pytest.mark.filterwarnings("ignore:.*specification for the Zarr format 3:"),
    pytest.mark.filterwarnings("ignore:zarr v3 autosharding"),
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
]
OPTIONS = {"label": "true", "batch": "donor"}


def written(folder, form="csr", version=2):
    """The same cells as cells.zarr and cells.h5ad."""
    adata = plainly(n=60)
    make = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix, "dense": np.asarray}[form]
    adata.X, adata.layers["twice"] = make(adata.X), make(2 * adata.X)
    adata.raw = anndata.AnnData(make(3 * plainly(n=60).X), adata.obs, adata.var)
    adata.obs["donor"] = adata.obs["donor"].astype("category")
    with anndata.settings.override(zarr_write_format=version):
        adata.write_zarr(folder / "cells.zarr")
    adata.write_h5ad(folder / "cells.h5ad")
    return folder / "cells.zarr"


def same(found, expected):
    np.testing.assert_array_equal(np.asarray(found.X), np.asarray(expected.X))
    np.testing.assert_array_equal(found.y, expected.y)
    np.testing.assert_array_equal(found.batch, expected.batch)
    assert (found.feature_names, found.sample_ids) == (expected.feature_names, expected.sample_ids)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_a_store_is_read_as_the_file_is(form, version, tmp_path):
    path = written(tmp_path, form, version)
    same(data.load(path, **OPTIONS), data.load(tmp_path / "cells.h5ad", **OPTIONS))
    layer = "twice" if version == 2 else "raw"
    same(data.load(path, layer=layer), data.load(tmp_path / "cells.h5ad", layer=layer))
    if form == "csc":
        with pytest.warns(UserWarning, match=r"cells\.zarr has X by columns \(CSC\); it is written by rows to"):
            stays = data.load(path, **OPTIONS, stream=True)
        assert (tmp_path / "cells.zarr.X.rows.h5").exists()
    else:
        stays = data.load(path, **OPTIONS, stream=True)
    assert isinstance(stays.X, StoredRows)
    same(stays, data.load(path, **OPTIONS))
    some = pickle.loads(pickle.dumps(stays.X))[[7, 3, 50]]
    np.testing.assert_array_equal(some.toarray() if sparse.issparse(some) else some, data.load(path).X[[7, 3, 50]])


def test_the_sum_tells_what_is_in_the_store(tmp_path):
    path = written(tmp_path)
    first = data.load(path).checksum
    shutil.copytree(path, tmp_path / "copy.zarr")
    assert data.load(tmp_path / "copy.zarr").checksum == first
    (path / "note").write_text("more")
    assert data.load(path).checksum != first


def test_a_store_that_changes_while_it_is_used(tmp_path):
    path = written(tmp_path)
    rows = pickle.loads(pickle.dumps(data.load(path, stream=True).X))
    (path / "X" / "data" / "0").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"cells\.zarr must stay as it is while its rows are read, but it changed"):
        rows[[1, 2]]


def edited(place, **changes):
    place.write_text(json.dumps(json.loads(place.read_text()) | changes))


def link(path):
    (path.parent / "elsewhere").write_bytes((path / "X" / "data" / "0").read_bytes())
    (path / "X" / "data" / "0").unlink()
    (path / "X" / "data" / "0").symlink_to(path.parent / "elsewhere")


def bomb(path):
    edited(path / "X" / "data" / ".zarray", chunks=[10**15])


def short(path):
    place = path / "X" / "indices" / "0"
    place.write_bytes(place.read_bytes()[:-9])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (link, r"must hold its data itself, got .*X/data/0, a link"),
        (
            bomb,
            r"must fit into memory, got a chunk of X/data .* of 4e\+03 TB",
        ),
        (short, r"must be a whole Zarr file, got"),
        (lambda path: (path / "X" / "data" / "0").unlink(), r"must have all chunks of /X/data, of which 1 are missing"),
        (
            lambda path: shutil.rmtree(path / "obs"),
            r"must be written by anndata, got a file without \.obs",
        ),
        (
            lambda path: edited(path / "X" / "data" / ".zarray", dtype="<c8", fill_value=None),
            r"must hold real numbers in X, got complex64",
        ),
        (lambda path: edited(path / "X" / "data" / ".zarray", chunks=[0]), r"must have chunks of at least one number"),
        (lambda path: (path / "X" / "data" / ".zarray").write_text("{"), r"\.zarray must be JSON"),
        (lambda path: (path / "X" / "data" / ".zarray").write_text("[" * 10**5), r"\.zarray must be JSON"),
        (
            lambda path: edited(path / "obs" / "_index" / ".zarray", filters=[{"id": "pickle", "protocol": 5}]),
            r"must be packed by .*, got 'pickle' in obs/_index",
        ),
        (
            lambda path: edited(path / "X" / "data" / ".zarray", compressor={"id": "mine"}),
            r"must be packed by .*, got 'mine' in X/data",
        ),
    ],
)
def test_a_store_that_is_damaged_or_malicious(damage, message, tmp_path):
    path = written(tmp_path)
    damage(path)
    for stream in (False, True):
        with pytest.raises(ValueError, match=message) as told:
            data.load(path, **OPTIONS, stream=stream)
        assert str(path) in str(told.value)


def test_codecs_inside_codecs_of_format_3_are_looked_at(tmp_path):
    path = written(tmp_path, version=3)
    place = path / "X" / "data" / "zarr.json"
    inner = [{"name": "sharding_indexed", "configuration": {"codecs": [{"name": "numcodecs.pickle"}]}}]
    edited(place, codecs=inner)
    with pytest.raises(ValueError, match=r"must be packed by .*, got 'numcodecs\.pickle' in X/data"):
        data.load(path)
    edited(place, codecs=[{"name": "bytes"}], storage_transformers=[{"name": "x"}])
    with pytest.raises(ValueError, match="must hold its arrays as they are, got storage transformers in X/data"):
        data.load(path)


def test_what_a_store_says_of_all_arrays_together_is_not_believed(tmp_path):
    path = written(tmp_path)
    together = json.loads((path / ".zmetadata").read_text())
    together["metadata"]["X/data/.zarray"]["filters"] = [{"id": "pickle", "protocol": 5}]
    (path / ".zmetadata").write_text(json.dumps(together))
    np.testing.assert_array_equal(data.load(path).X, data.load(tmp_path / "cells.h5ad").X)


def test_a_packed_store_and_one_that_is_missing(tmp_path):
    path = written(tmp_path)
    packed = shutil.make_archive(str(tmp_path / "one"), "zip", path)
    shutil.move(packed, tmp_path / "one.zarr")
    with pytest.raises(ValueError, match=r"one\.zarr must be a folder, as anndata writes zarr stores, got a file"):
        data.load(tmp_path / "one.zarr")
    with pytest.raises(FileNotFoundError, match=r"none\.zarr is missing"):
        data.load(tmp_path / "none.zarr")
