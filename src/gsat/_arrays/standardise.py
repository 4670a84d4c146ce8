"""Samples as a module sees them: dense, float32, standardised, and made a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gsat._arrays.chunks import at_a_time, pieces

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
        self.mean_norm: float | None = None  # E‖X‖₂, where someone has taken the pass over the data that it needs
        self.shape: tuple[int, ...] = (int(X.shape[0]), *(X.shape[1:] if in_shape is None else in_shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        index = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.arange(len(self))[rows]
        d = self.X.shape[1]
        found = np.empty((len(index), d), np.float32)
        times = 1 if isinstance(self.X, np.ndarray) else max(1, MANY // (d * at_a_time(d)))
        for many in pieces(len(index), d, times=times):
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

    X: (n, d), dense or sparse; weights: one >= 0 for each row (n,), None for equal ones
    """
    n, d = X.shape
    share = np.full(n, 1 / n) if weights is None else weights / weights.sum()  # of the law of the rows
    mean, square = np.zeros(d), np.zeros(d)
    first = 0 if weights is None else int(np.argmax(weights > 0))
    offset = dense(X[first : first + 1], np.float64)[0]  # deviations from one row lose fewer digits than the columns
    for part in pieces(n, d):
        block = dense(X[part], np.float64) - offset
        mean += share[part] @ block
        square += np.einsum("i,ij,ij->j", share[part], block, block)
    return mean + offset, np.maximum(square - np.square(mean), 0)


def dense(part: Any, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """Rows of a dense or sparse matrix as an array of that dtype."""
    return np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=dtype)
