"""Samples that stay in their file: the same numbers as in memory, read as they are asked for."""

import pickle

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from gsat import data
from gsat.data import memory, rows, stores
from gsat.data.rows import StoredRows
from stored import Held, cells, write_cells

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


@pytest.fixture(params=[1, 2**23], ids=["small blocks", "one block"])
def pair(path, request, monkeypatch):
    """The table in memory, and the one whose samples stay in the file."""
    monkeypatch.setattr(rows, "BLOCK", request.param * 7 * D if request.param == 1 else request.param)
    monkeypatch.setattr(stores, "NEAR", 3)
    options = {"label": "type", "batch": "donor"}
    return data.load(path, **options, stream=False), data.load(path, **options, stream=True)


@pytest.mark.parametrize("choice", CHOICES)
def test_rows_are_those_of_the_matrix(pair, choice):
    whole, stored = pair
    index = np.asarray(CHOICES[choice], np.int64) if isinstance(CHOICES[choice], list) else CHOICES[choice]
    assert isinstance(stored.X, StoredRows)
    assert sp.issparse(stored.X[index])
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
    monkeypatch.setattr(stores.SparseStore, "read", lambda self, rows: read.append(rows))
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
