"""Gaussian knockoffs: copies of the features that look like them and have nothing to do with the labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FLAT = (
    1e-8  # an eigenvalue of a block below this share of its largest one belongs to a direction in which nothing varies
)
MARGIN = 0.999  # of the largest distance from their features that knockoffs can have


def knockoffs(X: Floats, blocks: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Second-order Gaussian model-X knockoffs X̃ (n, d) of standardised samples X, drawn without looking at labels.

    Inside each block of columns the directions are made uncorrelated with variance 1 first (a column by itself has it),
    so that swapping a whole block for its knockoff changes no moment of second order:

        X̃ = X − γ·X·Σ⁻¹ + Z·V^½ ,   V = 2γI − γ²Σ⁻¹ ,   γ = min(1, 2·λ_min(Σ)) ,   Z standard normal

    Σ is the covariance shrunk towards a multiple of the identity (Ledoit and Wolf). It is never formed: Σ has the
    directions of the n samples, and one eigenvalue for all others. Cost: a singular value decomposition of (n, d).
    """
    X = X - X.mean(0)
    wide, back = _whitened(X, blocks)
    n, d = wide.shape
    _, sizes, directions = np.linalg.svd(wide, full_matrices=False)
    shrinkage, mean = ledoit_wolf(wide)
    inside = (1 - shrinkage) * sizes**2 / n + shrinkage * mean  # eigenvalues of Σ in the directions of the samples
    outside = shrinkage * mean if len(sizes) < d else np.inf
    gamma = MARGIN * min(1.0, 2 * min(float(inside.min()), outside))
    pulled = _apply(wide, directions, 1 / inside, 1 / outside)
    spread = np.sqrt(2 * gamma - gamma**2 / inside), np.sqrt(2 * gamma - gamma**2 / outside)
    noise = _apply(rng.standard_normal((n, d)), directions, *spread)
    return back(wide - gamma * pulled + noise)


def ledoit_wolf(X: Floats) -> tuple[float, float]:
    """The shrinkage and the mean variance towards which it goes, for centred X (n, d); no matrix (d, d) is formed."""
    n, d = X.shape
    square = np.square(X)
    mean = float(square.sum()) / (n * d)
    gram = X @ X.T if n < d else X.T @ X  # the short side
    total = float(np.square(gram).sum()) / n**2  # ‖S‖²_F
    spread = total / d - mean**2
    chance = (float(np.square(square.sum(1)).sum()) / n - total) / (n * d)
    return (min(chance, spread) / spread if spread > 0 else 1.0), mean


def threshold(statistic: Floats, fdr: float) -> float:
    """The smallest t > 0 with (1 + #{W_j ≤ −t}) / #{W_j ≥ t} ≤ fdr, or inf: the knockoff+ filter.

    Among features with W_j ≥ t the expected share of false ones is at most fdr (Barber and Candès), where signs of W_j
    of features without effect are coin flips.
    """
    for t in np.sort(np.abs(statistic[statistic != 0])):
        if (1 + np.sum(statistic <= -t)) <= fdr * np.sum(statistic >= t):
            return float(t)
    return float("inf")


def _apply(X: Floats, directions: Floats, inside: Floats, outside: float | Floats) -> Floats:
    """X·f(Σ), f(Σ) having the eigenvalues `inside` along the directions (rows) and `outside` across them."""
    along = X @ directions.T
    across = X - along @ directions if directions.shape[0] < directions.shape[1] else np.zeros_like(X)
    return np.asarray((along * inside) @ directions + outside * across)


def _whitened(X: Floats, blocks: NDArray[np.int64]) -> tuple[Floats, Callable[[Floats], Floats]]:
    """X·D^(−½) without the directions in which nothing varies, and the way back; D is the covariance inside blocks."""
    order = np.argsort(blocks, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1)
    if len(groups) == X.shape[1]:
        scale = X.std(0)
        varies = scale > 0
        return X[:, varies] / scale[varies], lambda Z: _put(Z * scale[varies], varies)
    parts: list[Floats] = []
    roots: list[Floats] = []
    for columns in groups:
        values, vectors = np.linalg.eigh(X[:, columns].T @ X[:, columns] / len(X))
        keep = values > FLAT * max(float(values[-1]), FLAT)
        root = np.sqrt(values[keep])
        parts.append(X[:, columns] @ vectors[:, keep] / root)
        roots.append((vectors[:, keep] * root).T)
    ends = np.cumsum([len(root) for root in roots])

    def back(Z: Floats) -> Floats:
        found = np.zeros_like(X)
        for columns, root, end in zip(groups, roots, ends, strict=True):
            found[:, columns] = Z[:, end - len(root) : end] @ root
        return found

    return np.hstack(parts), back


def _put(Z: Floats, where: NDArray[np.bool_]) -> Floats:
    found = np.zeros((len(Z), len(where)))
    found[:, where] = Z
    return found
