"""Who can be compared with whom: the classes that two batches share, and their samples, cut into halves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
Cell = tuple[int, int]  # a batch and a class
LEAST = 4  # samples of a class in a batch: halves of two, whose variance is known, and quarters of one to match


@dataclass(frozen=True, eq=False)
class Pair:
    """Two batches; `sizes` has the number of samples that can be matched in each class they share."""

    first: int
    second: int
    sizes: dict[int, int]

    @property
    def size(self) -> int:
        return sum(self.sizes.values())

    def shares(self) -> Iterator[tuple[Cell, Cell, float]]:
        """The cells of both batches and the weight of each class; the weights sum to 1."""
        for label, size in self.sizes.items():
            yield (self.first, label), (self.second, label), size / self.size


@dataclass(frozen=True, eq=False)
class Design:
    """Pairs of batches to compare, and the positions of their samples, cell by cell, among the rows `kept` of X."""

    pairs: tuple[Pair, ...]
    rows: dict[Cell, Rows]
    kept: Rows
    n_pairs: int  # that could be compared

    @classmethod
    def of(
        cls, batch: NDArray[Any], y: NDArray[Any], *, max_pairs: int, max_samples: int, rng: np.random.Generator
    ) -> Design:
        """The largest max_pairs pairs that share a class with LEAST samples in both, with the largest cells thinned."""
        found = {cell: where for cell, where in _rows(batch, y).items() if len(where) >= LEAST}
        wanted, n_pairs = _largest(found, max_pairs)
        cells = sorted({(b, c) for pair in wanted for b in pair for c in _classes(found, *pair)})
        most = _cap([len(found[cell]) for cell in cells], max_samples)
        thinned = {cell: rng.permutation(found[cell])[:most] for cell in cells}
        return cls(tuple(_pair(thinned, *pair) for pair in wanted), *_numbered(thinned), n_pairs)

    def only(self, pair: Pair) -> Design:
        """The same samples for one of the pairs."""
        return Design((pair,), *_numbered({cell: self.kept[self.rows[cell]] for cell in sorted(_cells([pair]))}), 1)

    def halves(self, rng: np.random.Generator) -> tuple[dict[Cell, Rows], dict[Cell, Rows]]:
        """Every cell's rows in random order, cut in two; which half gets the odd one is random too."""
        first, second = {}, {}
        for cell, where in self.rows.items():
            mixed = rng.permutation(where)
            cut = (len(mixed) + int(rng.integers(2))) // 2
            first[cell], second[cell] = mixed[:cut], mixed[cut:]
        return first, second


def _rows(batch: NDArray[Any], y: NDArray[Any]) -> dict[Cell, Rows]:
    """The rows of each batch and class, in order."""
    order = np.lexsort((y, batch))
    ends = np.flatnonzero((np.diff(batch[order]) != 0) | (np.diff(y[order]) != 0)) + 1
    return {(int(batch[rows[0]]), int(y[rows[0]])): np.sort(rows) for rows in np.split(order, ends) if len(rows)}


def _largest(rows: dict[Cell, Rows], most: int) -> tuple[list[tuple[int, int]], int]:
    """The `most` pairs of batches with the most samples to match, in order, and the number of all pairs that have any.

    Thousands of batches make millions of pairs: they are counted a batch at a time, as min of the sizes, by class.
    """
    batches, labels = (sorted({cell[i] for cell in rows}) for i in (0, 1))
    sizes = np.zeros((len(batches), len(labels)), np.int64)
    for (b, c), where in rows.items():
        sizes[bisect_left(batches, b), bisect_left(labels, c)] = len(where)
    kept: list[tuple[int, int, int]] = []  # (-size, first, second): the largest come first, then the first
    count = 0
    for first in range(len(batches)):
        shared = np.minimum(sizes[first], sizes[first + 1 :]).sum(1)
        count += int((shared > 0).sum())
        best = np.argsort(-shared, kind="stable")[:most]
        kept += [(-int(shared[i]), batches[first], batches[first + 1 + i]) for i in best.tolist() if shared[i]]
        kept = sorted(kept)[:most]
    return sorted((first, second) for _, first, second in kept), count


def _classes(rows: dict[Cell, Rows], first: int, second: int) -> list[int]:
    """The classes of which both batches have samples."""
    return sorted(c for b, c in rows if b == first and (second, c) in rows)


def _pair(rows: dict[Cell, Rows], first: int, second: int) -> Pair:
    sizes = {c: min(len(rows[first, c]), len(rows[second, c])) for c in _classes(rows, first, second)}
    return Pair(first, second, sizes)


def _numbered(rows: dict[Cell, Rows]) -> tuple[dict[Cell, Rows], Rows]:
    """The rows of X that are used, in order, and each cell's positions among them."""
    kept = np.sort(np.concatenate([*rows.values(), np.empty(0, np.intp)]))
    return {cell: np.searchsorted(kept, np.sort(where)) for cell, where in rows.items()}, kept


def _cells(pairs: Iterable[Pair]) -> set[Cell]:
    return {cell for pair in pairs for first, second, _ in pair.shares() for cell in (first, second)}


def _cap(sizes: list[int], most: int) -> int:
    """The largest number c for which Σ min(size, c) <= most, but at least LEAST."""
    caps = range(LEAST, max(sizes, default=LEAST) + 1)
    return max((cap for cap in caps if np.minimum(sizes, cap).sum() <= most), default=LEAST)
