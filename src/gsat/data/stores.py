"""Stores of rows: compressed sparse rows and dense matrices, of HDF5 or zarr, or as plain numbers in any file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from gsat.data.folders import state_of
from gsat.data.rows import Index
from gsat.data.rules import extra

NEAR = 2**14  # stored numbers between two rows that are rather read than left out by a second read
LONG = 2**22  # stored numbers of a read, about, at the most
CACHE = 2**26  # bytes of unpacked chunks that HDF5 keeps


class Opened:
    """A part of an HDF5 file, opened when it is first read, and again in another process.

    Parameters
    ----------
    path
        The file, which must stay as it is.
    name
        Of a group or a data set in it.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name, self.state = str(path), name, state_of(path)
        self._file: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}

    def __call__(self) -> Any:
        """The group or data set."""
        if self._file is None or not self._file:
            if state_of(self.path) != self.state:
                raise changed(self.path)
            self._file = extra("h5py", "anndata", ".h5ad").File(self.path, "r", rdcc_nbytes=CACHE)
        return self._file[self.name]


class OpenedZarr(Opened):
    """The same of a zarr store, a folder. Only those that `readers.zarr_parts` has looked at are opened so."""

    def __call__(self) -> Any:
        """The group or array."""
        if self._file is None:
            if state_of(self.path) != self.state:
                raise changed(self.path)
            zarr = extra("zarr", "anndata", ".zarr")
            self._file = zarr.open_group(self.path, mode="r", use_consolidated=False)[self.name.strip("/")]
        return self._file


class SparseStore:
    """Compressed sparse rows: of row i the numbers data[ends[i]:ends[i+1]] in the columns indices[ends[i]:ends[i+1]].

    Parameters
    ----------
    opened
        Gives what holds `data` and `indices`, which are read a slice at a time.
    ends
        (n + 1,), rising from 0.
    d
        Columns.
    """

    def __init__(self, opened: Any, ends: NDArray[np.int64], d: int) -> None:
        self.opened, self.ends, self.path = opened, ends, opened.path
        self.shape = (len(ends) - 1, d)

    def read(self, rows: Index) -> csr_array:
        """These rows; those that lie close to each other are read together."""
        begins, stops = self.ends[rows], self.ends[rows + 1]
        sizes = stops - begins
        inner = np.append(0, np.cumsum(sizes))
        group = self.opened()
        data, indices = group["data"], group["indices"]
        values = np.empty(inner[-1], np.float32)
        columns = np.empty(inner[-1], np.int32 if self.shape[1] < 2**31 else np.int64)
        for first, last in _runs(begins, stops):
            here = slice(inner[first], inner[last])
            if here.start == here.stop:
                continue
            run = slice(int(begins[first]), int(stops[last - 1]))
            some, where = data[run], indices[run]
            if len(some) != here.stop - here.start:  # rows between them are left out
                kept = np.repeat(begins[first:last] - run.start - inner[first:last], sizes[first:last])
                kept += np.arange(here.start, here.stop)
                some, where = some[kept], where[kept]
            with np.errstate(over="ignore"):
                values[here] = some
            columns[here] = where
        if len(columns) and not 0 <= columns.min() <= columns.max() < self.shape[1]:
            raise changed(self.path)  # a column out of range would be written outside the dense matrix
        return csr_array((values, columns, inner), shape=(len(rows), self.shape[1]))


class Raw:
    """A matrix (n, d) whose numbers lie in a file row by row, from the byte `offset` on.

    They are read, not mapped: mapped pages count as memory of the process.

    Parameters
    ----------
    path
        The file, which must stay as it is.
    dtype, shape, offset
        Of the matrix.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, int], offset: int) -> None:
        self.path, self.dtype, self.shape, self.offset, self.state = str(path), dtype, shape, offset, state_of(path)

    def __call__(self) -> Raw:
        """Itself, once the file is still the same."""
        if state_of(self.path) != self.state:
            raise changed(self.path)
        return self

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """These rows, from the first to the last."""
        d = self.shape[1]
        begin, count = self.offset + rows.start * d * self.dtype.itemsize, (rows.stop - rows.start) * d
        found = np.fromfile(self.path, self.dtype, count, offset=begin)
        if len(found) != count:
            raise changed(self.path)
        return found.reshape(-1, d)


class DenseStore:
    """Rows of a dense matrix.

    Parameters
    ----------
    opened
        Gives what is indexed by slices of rows: a data set of an HDF5 file, or itself.
    shape
        Of the matrix.
    dtype
        Of the rows that are read; samples are float32.
    """

    def __init__(self, opened: Opened | Raw, shape: tuple[int, int], dtype: Any = np.float32) -> None:
        self.opened, self.shape, self.path, self.dtype = opened, shape, opened.path, np.dtype(dtype)

    def read(self, rows: Index) -> NDArray[Any]:
        """These rows; those that lie close to each other are read together."""
        matrix, d = self.opened(), self.shape[1]
        values = np.empty((len(rows), d), self.dtype)
        for first, last in _runs(rows * d, (rows + 1) * d):
            some = matrix[int(rows[first]) : int(rows[last - 1]) + 1]
            with np.errstate(over="ignore"):
                values[first:last] = some[rows[first:last] - rows[first]]
        return values


def _runs(begins: Index, stops: Index) -> Iterator[tuple[int, int]]:
    """Which rows, from the first to before the last, are read together; where they begin and stop in the file."""
    if len(begins) == 0:
        return
    apart = (begins[1:] - stops[:-1] > NEAR) | (begins[1:] // LONG != begins[:-1] // LONG)
    cuts = (np.flatnonzero(apart) + 1).tolist()
    yield from zip((0, *cuts), (*cuts, len(begins)), strict=True)


def changed(path: str) -> ValueError:
    """The error for a file that is no longer the one that was opened."""
    return ValueError(f"{path} must stay as it is while its rows are read, but it changed; open it again")
