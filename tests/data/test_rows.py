"""Samples that stay in their file: the same numbers as in memory, read as they are asked for."""

import pickle
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from gsat import data
from gsat.data import memory, rows, stores
from gsat.data.readers import turned
from gsat.data.rows import StoredRows
from stored import Held, cells, write_cells, write_kind

N, D = 90, 40
CHOICES = {
    "slice": slice(5, 60),
    "steps": slice(80, 3, -7),
    "mask": np.arange(N) % 3 == 1,
    "any order, twice": [7, 3, 88, 3, 0],
    "last": [-1],
    "none": [],
    "all": slice(None),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_cells(tmp_path_factory.mktemp("rows") / "cells.h5ad", N, D)


@pytest.fixture(scope="module")
def paths(path, tmp_path_factory):
    """The same samples in every kind of file that streams."""
    return {"csr": path, **{kind: write_kind(path.parent, kind, N, D) for kind in ("dense", "csc", "npz", "parquet")}}


@pytest.fixture(params=["csr", "csr, small blocks", "dense", "csc", "npz", "parquet"])
def pair(paths, request, monkeypatch):
    """The table in memory, and the one whose samples stay in the file."""
    kind, _, small = request.param.partition(", ")
    if small:
        monkeypatch.setattr(rows, "BLOCK", 7 * D)
    monkeypatch.setattr(stores, "NEAR", 3)
    monkeypatch.setattr(stores, "LONG", 500)
    options = {"label": "type", "batch": "donor"}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* written by rows to .*, once")
        return data.load(paths[kind], **options, stream=False), data.load(paths[kind], **options, stream=True)


@pytest.mark.parametrize("choice", CHOICES)
def test_rows_are_those_of_the_matrix(pair, choice):
    whole, stored = pair
    index = np.asarray(CHOICES[choice], np.int64) if isinstance(CHOICES[choice], list) else CHOICES[choice]
    assert isinstance(stored.X, StoredRows)
    assert sp.issparse(stored.X[index]) == isinstance(stored.X.store, stores.SparseStore)
    np.testing.assert_array_equal(stored.X.dense(index), whole.X[index])


def test_what_a_table_knows_is_the_same(pair):
    whole, stored = pair
    assert stored.X.shape == whole.X.shape
    for name in ("feature_names", "sample_ids", "checksum", "source"):
        assert getattr(stored, name) == getattr(whole, name)
    for name in ("y", "batch"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(whole, name))
    assert repr(stored) == repr(whole)


def test_subsets_and_features_read_nothing_and_then_the_right_numbers(pair, monkeypatch):
    whole, stored = pair
    read = []
    monkeypatch.setattr(type(stored.X.store), "read", lambda self, rows: read.append(rows))
    chosen = whole.batch == whole.batch[0]
    names = set(whole.feature_names[::3])
    some = [table.subset(chosen).with_features(names).split_at_random(0.5).test for table in (whole, stored)]
    assert read == []
    monkeypatch.undo()
    np.testing.assert_array_equal(some[1].X.dense(slice(None)), some[0].X)
    np.testing.assert_array_equal([*some[1].X], some[0].X)
    np.testing.assert_array_equal(np.asarray(some[1].X), some[0].X)


def test_blocks_cover_all_rows_once(pair):
    whole, stored = pair
    found = [*stored.X.chunks()]
    assert [part.start for part, _ in found] == [0, *(part.stop for part, _ in found)][:-1]
    np.testing.assert_array_equal(np.concatenate([block for _, block in found]), whole.X)


def test_a_pass_in_small_pieces_reads_each_row_of_the_file_once(path, monkeypatch):
    stored = data.load(path, stream=True).X.subset(np.arange(0, N, 2))
    seen, read = [], stores.SparseStore.read
    monkeypatch.setattr(stores.SparseStore, "read", lambda self, rows: (seen.extend(rows), read(self, rows))[1])
    for begin in range(0, len(stored), 2):
        stored[begin : begin + 2]
    assert seen == [*range(0, N, 2)]


def test_a_file_is_never_asked_for_more_than_a_block(monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 7 * D)
    store = Held(sp.csr_array(cells(N, D)[0]))
    stored, order = StoredRows(store).with_columns([3, 1]), np.random.default_rng(0).permutation(N)
    np.testing.assert_array_equal(stored.dense(order), store.X.toarray()[order][:, [3, 1]])
    np.testing.assert_array_equal(np.asarray(stored), store.X.toarray()[:, [3, 1]])
    assert max(store.asked) == 7


def test_it_can_be_sent_to_another_process(pair):
    whole, stored = pair
    again = pickle.loads(pickle.dumps(stored.X.subset([3, 1])))
    np.testing.assert_array_equal(again.dense([0, 1]), whole.X[[3, 1]])


@pytest.mark.parametrize(
    ("index", "kind", "error"),
    [
        ([N], IndexError, "row numbers must be below 90, got 90 to 90"),
        (np.ones(3, bool), ValueError, r"a mask must have one entry per row of X \(90\), got 3"),
        (3, ValueError, r"rows must be a mask or a list of positions, got shape \(\) of int64"),
        ([0.5], ValueError, r"rows must be .*, got shape \(1,\) of float64"),
    ],
)
def test_rows_that_are_not_there(path, index, kind, error):
    with pytest.raises(kind, match=error):
        data.load(path, stream=True).X[index]


def test_samples_stay_in_the_file_where_they_take_more_than_half_of_the_memory(path, monkeypatch):
    monkeypatch.setattr(memory, "ROWS", 5)
    need = 4 * N * D
    for size, stays in ((3 * need, False), (int(1.5 * need), True)):
        with memory.limited(size):
            assert memory.stays_on_disk((N, D), None) is stays
    with memory.limited(10 * D):  # not even five rows fit
        assert not memory.stays_on_disk((N, D), None)
        assert not memory.stays_on_disk((N, D), True)
    assert isinstance(data.load(path, max_memory="1GB").X, np.ndarray)
    assert isinstance(data.load(path, max_memory=int(1.9 * need)).X, StoredRows)


def change(path, **parts):
    with h5py.File(path, "r+") as file:
        for name, (place, value) in parts.items():
            file["X"][name][place] = value
    return path


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_told_with_their_place(tmp_path, value):
    path = change(write_cells(tmp_path / "bad.h5ad", N, D), data=(slice(40, 43), value))
    told = []
    for stream in (False, True):
        with pytest.raises(ValueError, match="got 3 of 3600 missing or infinite, the first at sample 'c") as error:
            data.load(path, stream=stream)
        told.append(str(error.value))
    assert told[0] == told[1]


def test_a_column_out_of_range_is_told(tmp_path):
    path = change(write_cells(tmp_path / "bad.h5ad", N, D), indices=(5, D))
    with pytest.raises(ValueError, match=f"indices of X must be from 0 to {D - 1}, got 0 to {D}"):
        data.load(path, stream=True)


def test_a_file_that_changes_while_it_is_read(tmp_path):
    path = write_cells(tmp_path / "cells.h5ad", N, D)
    stored = data.load(path, stream=True).X
    write_cells(path, N + 1, D)
    with pytest.raises(ValueError, match=r"cells.h5ad must stay as it is while its rows are read, but it changed"):
        stored[:3]


def test_other_files_do_not_stream(tmp_path):
    np.savetxt(tmp_path / "a.csv", np.eye(3), delimiter=",", header="a,b,c", comments="")
    with pytest.raises(ValueError, match=r"stream needs a file that ends in \.h5ad.*, got .*a\.csv"):
        data.load(tmp_path / "a.csv", stream=True)
    with pytest.raises(ValueError, match="stream must not be given for the data set digits"):
        data.load("digits", stream=True)


def test_the_rows_of_columns_are_made_once_for_a_file_as_it_is(tmp_path, monkeypatch):
    path = write_kind(tmp_path, "csc", N, D)
    place = tmp_path / "cells-csc.h5ad.X.rows.h5"
    with pytest.warns(UserWarning, match=r"has X by columns \(CSC\); it is written by rows to .*X.rows.h5, once"):
        data.load(path, stream=True)
    made = place.stat().st_mtime_ns
    data.load(path, stream=True)  # a warning would be an error
    assert place.stat().st_mtime_ns == made
    write_kind(tmp_path, "csc", N, D, seed=1)
    with pytest.warns(UserWarning, match="once"):
        again = data.load(path, stream=True)
    np.testing.assert_array_equal(again.X.dense(slice(None)), data.load(path, stream=False).X)
    place.write_bytes(b"no HDF5")
    with pytest.warns(UserWarning, match="once"):
        data.load(path, stream=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name, place.name]


def test_columns_are_turned_a_few_rows_at_a_time(tmp_path, monkeypatch):
    path = write_kind(tmp_path, "csc", N, D)
    monkeypatch.setattr(turned, "LEAST", 1)
    monkeypatch.setattr(turned, "MOST", 70)
    monkeypatch.setattr(turned, "SCANNED", 101)
    X = anndata.read_h5ad(path).X.tocsr()
    with h5py.File(path) as file:
        alive = [*turned.turn(path, tmp_path / "rows.h5", file["X"], (N, D), h5py)]
    assert len(alive) > X.nnz / 70 * X.nnz / 101
    with h5py.File(tmp_path / "rows.h5") as file:
        made = sp.csr_array(tuple(file["X"][part][...] for part in ("data", "indices", "indptr")), (N, D))
    made.check_format(full_check=True)
    assert made.has_sorted_indices
    np.testing.assert_array_equal(made.toarray(), X.toarray())


@pytest.mark.parametrize("row", [-1, N])
def test_columns_with_a_row_that_is_not_there_leave_nothing_beside(tmp_path, row):
    path = change(write_kind(tmp_path, "csc", N, D), indices=(4, row))
    with (
        pytest.warns(UserWarning, match="once"),
        pytest.raises(ValueError, match=f"indices of /X must be from 0 to {N - 1}"),
    ):
        data.load(path, stream=True)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", ["dense", "csc", "npz", "parquet"])
def test_what_is_not_finite_is_told_alike_in_other_files(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 7 * D)
    path = write_kind(tmp_path, kind, N, D)
    if kind == "parquet":
        frame = pd.read_parquet(path)
        frame.iloc[[3, 60], [4, 2]] = np.nan
        frame.to_parquet(path)
    elif kind == "npz":
        parts = dict(np.load(path))
        parts["X"][3, 4] = parts["X"][60, 2] = np.nan
        parts["X"][60, 1] = 1e300
        np.savez(path, **parts)
    else:
        with h5py.File(path, "r+") as file:
            matrix, where, value = (
                (file["X"], (3, slice(4, 6)), np.nan) if kind == "dense" else (file["X"]["data"], slice(40, 43), np.inf)
            )
            matrix[where] = value
    told = []
    for stream in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match="missing or infinite, the first at sample 'c") as error:
                data.load(path, label="type", batch="donor", stream=stream)
        told.append(str(error.value))
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("save", "X", "got"),
    [
        (np.savez_compressed, np.ones((6, 4)), r"got \(6, 4\), compressed"),
        (np.savez, np.ones((4, 6)).T, r"got \(6, 4\) in the order of columns, not compressed"),
        (np.savez, np.ones((6, 4, 2)), r"got \(6, 4, 2\), not compressed"),
    ],
)
def test_arrays_whose_rows_cannot_be_read_are_told(tmp_path, save, X, got):
    save(tmp_path / "a.npz", X=X)
    with pytest.raises(ValueError, match=rf"a\.npz must hold X \(n, d\) .*, by rows, to stay there, {got}"):
        data.load(tmp_path / "a.npz", stream=True)
    assert isinstance(data.load(tmp_path / "a.npz").X, np.ndarray)


def test_an_archive_with_a_wrong_sum_is_no_whole_one_wherever_its_samples_are(tmp_path):
    path = write_kind(tmp_path, "npz", N, D)
    content = path.read_bytes()
    middle = content.index(np.load(path)["X"][N // 2].tobytes()) + 10
    path.write_bytes(content[:middle] + b"?" + content[middle + 1 :])
    for stream in (False, True):
        with pytest.raises(ValueError, match=r"must be a whole \.npz file, got.*CRC"):
            data.load(path, stream=stream)


def test_plain_numbers_that_end_early_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 7 * D)
    path = write_kind(tmp_path, "npz", N, D)
    stored = data.load(path, stream=True).X
    path.write_bytes(path.read_bytes()[:-9000])
    with pytest.raises(ValueError, match="must stay as it is while its rows are read"):
        stored[:3]


def test_rows_beside_a_table_hold_all_its_numbers(tmp_path):
    path = write_kind(tmp_path, "parquet", N, D)
    options = {"label": "type", "batch": "donor", "stream": True}
    with pytest.warns(UserWarning, match="has its numbers by columns; they are written by rows to .*, once"):
        whole = data.load(path, **options)
    some = data.load(path, **options, features="g1*")  # a warning would be an error
    assert some.feature_names == ("g1", *(f"g1{j}" for j in range(10)))
    np.testing.assert_array_equal(some.X.dense(slice(None)), whole.X.dense(slice(None))[:, [1, *range(10, 20)]])
    place = tmp_path / "cells.parquet.X.rows.h5"
    with h5py.File(place) as file, h5py.File(tmp_path / "other.h5", "w") as other:
        other.attrs["source"] = file.attrs["source"]
        other["X"] = np.zeros((N, D - 1), np.float32)
    (tmp_path / "other.h5").replace(place)
    with pytest.raises(ValueError, match=r"X\.rows\.h5 must hold the rows of cells\.parquet; remove it"):
        data.load(path, **options)


def test_what_is_not_read_is_told_with_a_way_out(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((4, 2)))
    message = r"must end in one of .*, got '\.npy'; .* has no labels: numpy\.savez\(.*X=X, y=y\).*mmap_mode=\"r\""
    with pytest.raises(ValueError, match=message):
        data.load(tmp_path / "X.npy", stream=True)


def test_matrices_of_one_file_have_rows_of_their_own(tmp_path):
    path = write_kind(tmp_path, "csc", N, D)
    held = anndata.read_h5ad(path)
    held.raw = anndata.AnnData(held.X * 2, held.obs, held.var)
    held.layers["counts"] = held.X * 3
    held.write_h5ad(path)
    for layer, times in ((None, 1), ("raw", 2), ("counts", 3)):
        with pytest.warns(UserWarning, match="once"):
            stored = data.load(path, layer=layer, stream=True)
        np.testing.assert_allclose(stored.X.dense([4, 2]), times * held.X.tocsr()[[4, 2]].toarray(), rtol=1e-6)
    assert len([*tmp_path.glob("cells-csc.h5ad.*.rows.h5")]) == 3
