"""Stores of rows: compressed sparse rows and dense matrices, whose numbers are read from an HDF5 file by h5py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from gsat.data.rows import Index
from gsat.data.rules import extra

NEAR = 2**14  # stored numbers between two rows that are rather read than left out by a second read
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
        self.path, self.name, self.state = str(path), name, _state(path)
        self._file: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}

    def __call__(self) -> Any:
        """The group or data set."""
        if self._file is None or not self._file:
            if _state(self.path) != self.state:
                raise changed(self.path)
            self._file = extra("h5py", "anndata", ".h5ad").File(self.path, "r", rdcc_nbytes=CACHE)
        return self._file[self.name]


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
        cuts = np.flatnonzero(begins[1:] - stops[:-1] > NEAR) + 1
        for first, last in zip((0, *cuts.tolist()), (*cuts.tolist(), len(rows)), strict=True):
            here = slice(inner[first], inner[last]) if last else slice(0, 0)
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


def changed(path: str) -> ValueError:
    """The error for a file that is no longer the one that was opened."""
    return ValueError(f"{path} must stay as it is while its rows are read, but it changed; open it again")


def _state(path: str | Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
