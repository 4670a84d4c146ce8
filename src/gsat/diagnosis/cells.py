"""Who can be compared with whom: the classes that two batches share, and their samples, cut into halves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
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
        found = {
            (b, c): np.flatnonzero((batch == b) & (y == c))
            for b, c in np.unique(np.stack([batch, y], axis=1), axis=0).tolist()
        }
        found = {cell: where for cell, where in found.items() if len(where) >= LEAST}
        pairs = [*_pairs(found)]
        largest = sorted(pairs, key=lambda pair: -pair.size)[:max_pairs]
        wanted = {(pair.first, pair.second) for pair in largest}
        cells = sorted(_cells(largest))
        most = _cap([len(found[cell]) for cell in cells], max_samples)
        thinned = {cell: rng.permutation(found[cell])[:most] for cell in cells}
        chosen = tuple(pair for pair in _pairs(thinned) if (pair.first, pair.second) in wanted)
        return cls(chosen, *_numbered(thinned), len(pairs))

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


def _pairs(rows: dict[Cell, Rows]) -> Iterator[Pair]:
    for first, second in combinations(sorted({batch for batch, _ in rows}), 2):
        sizes = {
            label: min(len(where), len(rows[second, label]))
            for (batch, label), where in sorted(rows.items())
            if batch == first and (second, label) in rows
        }
        if sizes:
            yield Pair(first, second, sizes)


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
