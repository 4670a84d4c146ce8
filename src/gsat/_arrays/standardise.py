"""Samples as a module sees them: dense, float32, standardised, and made a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gsat._arrays.chunks import at_a_time, on_disk, pieces

MANY = 2**23  # numbers in the rows that are asked for at once
Column = NDArray[np.float32]  # a number for each of the d columns


class Standardised:
    """The rows of X (n, d) as the module sees them, (x − mean)/scale; made when they are asked for.

    X may be dense, sparse (CSR), a memory map or rows of a file: it is never copied whole. With `in_shape` a row has
    that shape. What is no array is asked for many rows at once, since sparse ones are small and each read of a file
    costs time.
    """

    def __init__(self, X: Any, mean: Column, scale: Column, in_shape: Sequence[int] | None = None) -> None:
        self.X, self.mean, self.scale = X, mean, scale
        self.on_disk = on_disk(X)
        self.mean_norm: float | None = None  # E‖X‖₂, where someone has taken the pass over the data that it needs
        self.shape: tuple[int, ...] = (int(X.shape[0]), *(X.shape[1:] if in_shape is None else in_shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        index = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.arange(len(self))[rows]
        d = self.X.shape[1]
        found = np.empty((len(index), d), np.float32)
        for many in pieces(len(index), d, times=_times(self.X)):
            read = self.X[index[many]]
            for part in pieces(many.stop - many.start, d):
                place = slice(many.start + part.start, many.start + part.stop)
                np.subtract(dense(read[part], np.float32), self.mean, out=found[place])
                found[place] /= self.scale
        return found.reshape(len(index), *self.shape[1:])


def mean_and_scale(X: Any, weights: NDArray[np.float64] | None = None) -> tuple[Column, Column]:
    """Mean and standard deviation (d,) of each column, as `moments` has them; a constant column has scale 1."""
    mean, variance = moments(X, weights)
    scale = np.sqrt(variance)
    return mean.astype(np.float32), np.where(scale > 0, scale, 1).astype(np.float32)


def moments(X: Any, weights: NDArray[np.float64] | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance (d,) of each column, in float64 by blocks of rows.

    With a_j an entry of column j in one row, the sums are of x_ij − a_j: where the entries of a column are large and
    alike, few digits are lost. Of sparse rows only the entries that are stored are looked at; the others, with a share
    g_j of the weights, add −g_j·a_j and g_j·a_j². What the rounding of g_j does is small beside the variance, which is
    at least g_j·(1 − g_j) times the square of the mean of the stored entries; g_j is 0 exactly where all are stored.

    X: (n, d), dense or sparse; weights: one >= 0 for each row (n,), None for equal ones
    """
    n, d = X.shape
    share = np.full(n, 1 / n) if weights is None else weights / weights.sum()  # of the law of the rows
    mean, square, stored, count = (np.zeros(d) for _ in range(4))
    first = 0 if weights is None else int(np.argmax(weights > 0))
    offset = dense(X[first : first + 1], np.float64)[0]  # a
    for many in pieces(n, d, times=_times(X)):
        read, own = X[many], share[many]
        if sparse.issparse(read):
            read = read.tocsr()
            if not read.has_canonical_format:  # an entry may be stored in parts
                read = read.copy()
                read.sum_duplicates()
            value = read.data - offset[read.indices]
            one = np.ones_like(value)
            for sums, values, of in (
                (stored, one, own),
                (count, one, own > 0),
                (mean, value, own),
                (square, np.square(value), own),
            ):
                sums += sparse.csr_array((values, read.indices, read.indptr), shape=read.shape).T @ of
            continue
        count += (own > 0).sum()
        for part in pieces(len(own), d):
            block = dense(read[part], np.float64) - offset
            mean += own[part] @ block
            square += np.einsum("i,ij,ij->j", own[part], block, block)
    gone = np.where(count == (share > 0).sum(), 0, 1 - stored)  # g
    mean -= gone * offset
    square += gone * np.square(offset)
    return mean + offset, np.maximum(square - np.square(mean), 0)


def _times(X: Any) -> int:
    """How many blocks of rows are read at once: of what is no array many, since each read costs time."""
    d = X.shape[1]
    return 1 if isinstance(X, np.ndarray) else max(1, MANY // (d * at_a_time(d)))


def dense(part: Any, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """Rows of a dense or sparse matrix as an array of that dtype."""
    return np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=dtype)
