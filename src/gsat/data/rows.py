"""Samples that stay in their file: rows are read when they are asked for, a group or a block at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gsat.data.memory import fits

BLOCK = 2**23  # numbers in a block of rows, were it dense: 32 MB
Index = NDArray[np.int64]


class Store(Protocol):
    """Where rows are kept: n rows of d numbers; it can be pickled, and opens its file anew in another process."""

    path: str
    shape: tuple[int, int]

    def read(self, rows: Index) -> Any:
        """These rows, rising and distinct, as float32: an array or a csr_array (m, d)."""


class StoredRows:
    """Samples (n, d) of a file, of which only those that are asked for are in memory, as float32.

    X[rows] takes a slice, a mask or row numbers in any order, and gives an array, or a csr_array where the file is
    sparse. The rows of a group are read in the order of the file, each once. Rows that follow each other are read a
    block at a time, of which the last stays in memory, so that a pass over all rows reads the file once.

    Parameters
    ----------
    store
        Where the rows are.
    rows, columns
        The numbers of the rows and columns of the store that this is; None for all.
    feature_names
        One for each column, or None.
    """

    ndim = 2
    on_disk = True
    dtype = np.dtype(np.float32)

    def __init__(
        self,
        store: Store,
        rows: Index | None = None,
        columns: Index | None = None,
        feature_names: tuple[str, ...] | None = None,
    ) -> None:
        self.store, self.rows, self.columns, self.feature_names = store, rows, columns, feature_names
        n, d = store.shape
        self.shape = (n if rows is None else len(rows), d if columns is None else len(columns))
        self.step = max(1, BLOCK // max(1, d))  # rows of a block
        self._last: tuple[int, Any] = (-1, None)  # a block, by its number
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"StoredRows({self.shape[0]} x {self.shape[1]} in {self.store.path})"

    def __getitem__(self, rows: Any) -> Any:
        index = places(rows, len(self))
        if len(index) and index[-1] - index[0] + 1 == len(index) and (np.diff(index) == 1).all():
            return self._run(int(index[0]), int(index[-1]) + 1)
        return self._read(index)

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        for _, part in self.chunks():
            yield from part

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        fits(self.store.path, f"{self.shape} numbers that are asked for at once", 4 * self.shape[0] * self.shape[1])
        found = np.empty(self.shape, dtype or np.float32)
        for part, block in self.chunks():
            found[part] = block
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": (-1, None), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def dense(self, rows: Any) -> NDArray[np.float32]:
        """The rows as an array (m, d)."""
        found = self[rows]
        return np.asarray(found.toarray() if sparse.issparse(found) else found, np.float32)

    def chunks(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """All rows, a block at a time, as arrays; and where they stand."""
        for begin in range(0, len(self), self.step):
            part = slice(begin, min(begin + self.step, len(self)))
            yield part, self.dense(part)

    def subset(self, rows: Any) -> StoredRows:
        """The same samples with some of the rows; nothing is read."""
        index = places(rows, len(self))
        return StoredRows(
            self.store, index if self.rows is None else self.rows[index], self.columns, self.feature_names
        )

    def with_columns(self, columns: Any) -> StoredRows:
        """The same samples with some of the columns; nothing is read."""
        index = np.asarray(columns, np.int64)
        names = None if self.feature_names is None else tuple(self.feature_names[j] for j in index)
        return StoredRows(self.store, self.rows, index if self.columns is None else self.columns[index], names)

    def named(self, feature_names: tuple[str, ...] | None) -> StoredRows:
        """The same samples with names of the features."""
        return StoredRows(self.store, self.rows, self.columns, feature_names)

    def _run(self, begin: int, end: int) -> Any:
        """Rows that follow each other, from the blocks that hold them."""
        if end - begin > self.step:
            return self._read(np.arange(begin, end))
        parts = []
        with self._lock:
            for number in range(begin // self.step, (end - 1) // self.step + 1):
                first = number * self.step
                if self._last[0] != number:
                    self._last = (-1, None)  # the old block goes before the new one comes
                    self._last = (number, self._read(np.arange(first, min(first + self.step, len(self)))))
                parts.append(self._last[1][max(0, begin - first) : end - first])
        return _joined(parts)

    def _read(self, index: Index) -> Any:
        """The rows of these numbers, in this order, each read once and in the order of the file, a block at a time."""
        wanted = index if self.rows is None else self.rows[index]
        rising, place = np.unique(wanted, return_inverse=True)
        parts = []
        for begin in range(0, max(1, len(rising)), self.step):
            part = self.store.read(rising[begin : begin + self.step])
            parts.append(part if self.columns is None else part[:, self.columns])
        found = _joined(parts)
        return found if np.array_equal(rising, wanted) else found[place]


def _joined(parts: list[Any]) -> Any:
    """Rows below each other, arrays or csr_arrays."""
    if len(parts) == 1:
        return parts[0]
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def some_rows(X: Any, rows: Any) -> Any:
    """Some of the samples of an array, or of `StoredRows`, of which none is read."""
    return X.subset(rows) if isinstance(X, StoredRows) else X[rows]


def dense_rows(X: Any, rows: Any) -> NDArray[Any]:
    """Some of the samples of an array or of `StoredRows`, as an array."""
    return X.dense(rows) if isinstance(X, StoredRows) else X[rows]


def odd_numbers(before: tuple[int, int, int], block: NDArray[Any], begin: int) -> tuple[int, int, int]:
    """How many numbers are not finite, and the row and the column of the first: those `before`, and of this block.

    block: rows from number `begin` on
    """
    bad = ~np.isfinite(block)
    if not bad.any():
        return before
    i, j = divmod(int(bad.argmax()), bad.shape[1])
    return (before[0] + int(bad.sum()), *(before[1:] if before[0] else (begin + i, j)))


def places(rows: Any, n: int) -> Index:
    """The row numbers, from 0 to n − 1, that a slice, a mask or numbers mean."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(n), dtype=np.int64)
    index = np.asarray(rows)
    if index.ndim != 1 or (index.dtype.kind not in "biu" and index.size):
        raise ValueError(f"rows must be a mask or a list of positions, got shape {index.shape} of {index.dtype}")
    if index.dtype == bool:
        if len(index) != n:
            raise ValueError(f"a mask must have one entry per row of X ({n}), got {len(index)}")
        return np.flatnonzero(index)
    index = index.astype(np.int64)
    if len(index) and not -n <= index.min() <= index.max() < n:
        raise IndexError(f"row numbers must be below {n}, got {index.min()} to {index.max()}")
    return np.where(index < 0, index + n, index)
