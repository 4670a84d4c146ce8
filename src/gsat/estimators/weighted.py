"""Weighted samples as repeated ones: a row of weight w stands at w of the positions from which groups are drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat._arrays.chunks import on_disk
from gsat._arrays.standardise import dense

FINE = 2**40  # positions in all where weights are no whole numbers: a row has its share of them


class Positions:
    """Position p = 0, 1, ... -> row: a row of weight w has w positions, one of weight 0 none.

    Groups that are drawn uniformly from the positions are groups of the law that gives x_i the weight w_i/Σw. Whole
    weights are exactly repetitions; others are shares of 2^40 positions.

    Parameters
    ----------
    rows
        The rows in the order of their positions, (n,).
    weights
        Their weights (n,), at least one of them above 0; None for 1 each.
    """

    def __init__(self, rows: NDArray[np.int64], weights: NDArray[np.float64] | None = None) -> None:
        self.rows = rows
        self.ends: NDArray[np.int64] | None = None  # where the positions of each row end
        self.size = len(rows)  # samples that are there: repetitions count, fractions do not
        if weights is None:
            return
        self.rows, weights = rows[weights > 0], weights[weights > 0]
        whole = bool((weights == np.floor(weights)).all()) and weights.sum() <= FINE
        self.ends = np.cumsum(weights if whole else weights / weights.sum() * FINE).astype(np.int64)
        self.size = int(self.ends[-1]) if whole else len(self.rows)

    def __len__(self) -> int:
        return len(self.rows) if self.ends is None else int(self.ends[-1])

    def __getitem__(self, index: Any) -> NDArray[np.int64]:
        """The rows at some positions, given as a slice or as an array."""
        places = np.arange(*index.indices(len(self))) if isinstance(index, slice) else np.asarray(index)
        return self.rows[places if self.ends is None else np.searchsorted(self.ends, places, side="right")]


class View:
    """values[row] by position: what `Positions` makes of samples, labels or batches; nothing is copied.

    Parameters
    ----------
    values
        (n, ...), indexed by arrays of row numbers.
    positions
        Which row stands where.
    """

    def __init__(self, values: Any, positions: Positions) -> None:
        self.values, self.positions = values, positions
        self.shape: tuple[int, ...] = (len(positions), *values.shape[1:])
        self.mean_norm: float | None = getattr(values, "mean_norm", None)
        self.on_disk = on_disk(values)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return self.values[self.positions[index]]


def sorted_by_content(X: Any, *beside: Sequence[Any]) -> NDArray[np.int64]:
    """An order of the rows that depends on what they hold and not on where they stand.

    Parameters
    ----------
    X
        (n, d), dense or sparse.
    *beside
        More columns of n entries each, of one type: labels, batches.

    Returns
    -------
    array
        Row numbers (n,); rows that are equal stand together.
    """
    digests = []
    for i in range(X.shape[0]):
        content = repr([column[i] for column in beside]).encode()
        digests.append(hashlib.blake2b(dense(X[i : i + 1], np.float64).tobytes() + content, digest_size=16).digest())
    return np.array(sorted(range(len(digests)), key=digests.__getitem__), dtype=np.int64)
