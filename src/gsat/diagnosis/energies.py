"""How much of the matched differences between batches is beyond the null, and how much of it each structure holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from gsat.diagnosis.cells import Cell, Design, Pair, Rows
from gsat.diagnosis.moments import Array, Moments, leading_directions, leading_features, overlap

MOST = 64  # samples of a class that are matched at a time: the time of an assignment grows with the third power
MATCHINGS = 2  # of every half, each with other quarters


class Samples:
    """Centred samples X (n, d), X², the samples rotated into Z (n, min(n, d)), and squared distances (n, n)."""

    def __init__(self, samples: Array) -> None:
        self.X = X = samples - samples.mean(0)
        self.squares = np.square(X)
        gram = np.asarray(X @ X.T, dtype=np.float64)
        if X.shape[0] < X.shape[1]:
            values, vectors = np.linalg.eigh(gram)
            self.Z = vectors * np.sqrt(np.maximum(values, 0))
        else:
            self.Z = np.asarray(X, dtype=np.float64)
        lengths = np.diag(gram)
        self.distances = np.maximum(lengths[:, None] + lengths - 2 * gram, 0)


@dataclass(frozen=True, eq=False)
class Energies:
    """Mean squared norms of the shift, one entry (or row) for every half of the samples that was measured.

    null, total:  ‖Δ‖² of matched samples of one batch, and how much more it is between two batches
    universal:    ‖t‖² of one shift t for all classes; per_class: the mean of ‖t_c‖² with a shift t_c for each class
    features:     (halves, k), the part of the excess in the first 1, 2, ... features that the other half suggests
    directions:   (halves, r), the same for directions
    outside_features, outside_directions: the excess in all the rest
    overlap:      ‖M‖²_F of the second moment M of the shift
    """

    null: Array
    total: Array
    universal: Array
    per_class: Array
    features: Array
    outside_features: Array
    directions: Array
    outside_directions: Array
    overlap: Array


def measure(
    samples: Samples, design: Design, *, max_features: int, max_rank: int, n_splits: int, rng: np.random.Generator
) -> Energies:
    """The energies of all pairs of the design together, every structure found in one half and measured in the other."""
    found = []
    for _ in range(n_splits):
        halves = design.halves(rng)
        moments = [Moments(samples.Z, half) for half in halves]
        louder = [{pair: each.louder(pair) for pair in design.pairs} for each in moments]
        factors = [each.excess(design.pairs, signs) for each, signs in zip(moments, louder, strict=True)]
        both = overlap(*factors)
        for here, there in ((0, 1), (1, 0)):
            features = leading_features(
                samples.X, samples.squares, halves[here], design.pairs, louder[here], max_features
            )
            directions = leading_directions(*factors[here], max_rank, rng)
            axes = [samples.X[:, features], samples.Z @ directions]
            parts = [
                pair.size
                * np.append(
                    moments[there].shift_energies(pair),
                    _matched(samples, pair, halves[there], louder[here][pair], axes, rng),
                )
                for pair in design.pairs
            ]
            found.append(np.append(np.sum(parts, 0) / sum(pair.size for pair in design.pairs), both))
    table = np.stack(found)
    universal, per_class, total, null = table[:, :4].T
    features, outside, directions, beyond, shared = np.split(
        table[:, 4:], np.cumsum([max_features, 2, max_rank, 2]), axis=1
    )
    return Energies(
        null=null,
        total=total,
        universal=universal,
        per_class=per_class,
        features=features.cumsum(1),
        outside_features=outside[:, 0],
        directions=directions.cumsum(1),
        outside_directions=beyond[:, 0],
        overlap=shared[:, 0],
    )


def _matched(
    samples: Samples, pair: Pair, half: dict[Cell, Rows], louder: int, axes: list[Array], rng: np.random.Generator
) -> Array:
    """The excess without axes, then the excess for each of the sets of axes, one after the other."""
    return np.concatenate([_excess(samples, pair, half, louder, each, rng) for each in (samples.Z[:, :0], *axes)])


def _excess(
    samples: Samples, pair: Pair, half: dict[Cell, Rows], louder: int, axes: Array, rng: np.random.Generator
) -> Array:
    """Mean squared differences between batches less the null, along each of the axes (n, k) and in the rest; the null.

    Samples are matched within class, and in the rest alone: matched along the axes too they would hide what the axes
    hold. The null is matched in the same way and with the same sizes, between two quarters of the quieter batch.
    """
    energy = np.zeros(axes.shape[1] + 2)
    for a, b, weight in pair.shares():
        size = min(len(half[a]), len(half[b]), 2 * MOST) // 2
        for _ in range(MATCHINGS):
            (a1, a2), (b1, b2) = (rng.permutation(half[cell])[: 2 * size].reshape(2, size) for cell in (a, b))
            null = (a1, a2) if louder > 0 else (b1, b2)
            for (i, j), sign in (((a1, b1), 0.5), ((a2, b2), 0.5), (null, -1.0)):
                cost = samples.distances[np.ix_(i, j)] - cdist(axes[i], axes[j], "sqeuclidean")
                first, second = linear_sum_assignment(cost)
                rest = cost[first, second].mean()
                energy[:-2] += weight * sign * np.square(axes[i[first]] - axes[j[second]]).mean(0)
                energy[-2:] += weight * np.array([sign * rest, rest if sign < 0 else 0])
    return energy / MATCHINGS
