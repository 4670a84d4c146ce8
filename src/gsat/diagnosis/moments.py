"""Means and covariances of one half of the samples, and the structures that they suggest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from gsat.diagnosis.cells import Cell, Pair, Rows

Array = NDArray[Any]
SMALL = 150  # a matrix of this side or less is decomposed whole


class Moments:
    """Mean, residuals and spread (the trace of the covariance) of the samples (n, p) in each cell of a half."""

    def __init__(self, values: Array, half: dict[Cell, Rows]) -> None:
        self.n = {cell: len(rows) for cell, rows in half.items()}
        ends = np.cumsum([0, *self.n.values()])
        self.where = {cell: slice(*ends[i : i + 2]) for i, cell in enumerate(half)}
        self.residuals = values[np.concatenate([*half.values()])]
        self.mean: dict[Cell, Array] = {}
        self.spread: dict[Cell, float] = {}
        for cell, part in self.where.items():
            self.mean[cell] = self.residuals[part].mean(0)
            self.residuals[part] -= self.mean[cell]
            self.spread[cell] = float(np.square(self.residuals[part]).sum(dtype=np.float64)) / (self.n[cell] - 1)

    def louder(self, pair: Pair) -> int:
        """1 if the second batch of the pair spreads more than the first within classes, else −1."""
        return 1 if sum(w * (self.spread[b] - self.spread[a]) for a, b, w in pair.shares()) >= 0 else -1

    def shift_energies(self, pair: Pair) -> tuple[float, float]:
        """‖shift‖² of the means, one shift for all classes and one per class, less what chance alone would give.

        With t_c the difference of the means of class c, of weight w_c: ‖Σ_c w_c·t_c‖² and Σ_c w_c·‖t_c‖².
        """
        shift, per_class, chance = np.zeros(1), 0.0, 0.0
        for a, b, w in pair.shares():
            t = np.asarray(self.mean[b] - self.mean[a], dtype=np.float64)
            noise = self.spread[a] / self.n[a] + self.spread[b] / self.n[b]
            shift = shift + w * t
            per_class += w * (float(t @ t) - noise)
            chance += w**2 * noise
        return float(shift @ shift) - chance, per_class

    def excess(self, pairs: Sequence[Pair], louder: dict[Pair, int]) -> tuple[Array, Array]:
        """Rows F (·, p) and signs s for which Fᵀ·diag(s)·F is the second moment of the shift, without bias.

        For a pair with the quieter batch q and the louder one l it is Σ_c w_c·(t_c·t_cᵀ + Σ_l,c − Σ_q,c), where the
        noise of the means is taken out of t_c·t_cᵀ; pairs are averaged by size.
        """
        signs = np.zeros(len(self.residuals))
        shifts, weights = [], []
        total = sum(pair.size for pair in pairs)
        for pair in pairs:
            for a, b, share in pair.shares():
                w = share * pair.size / total
                shifts.append(self.mean[b] - self.mean[a])
                weights.append(w)
                for cell, side in ((a, -louder[pair]), (b, louder[pair])):
                    signs[self.where[cell]] += w / (self.n[cell] - 1) * (side - 1 / self.n[cell])
        used = signs != 0
        return np.concatenate([np.stack(shifts), self.residuals[used]]), np.append(weights, signs[used])


def leading_features(
    X: Array, squares: Array, half: dict[Cell, Rows], pairs: Sequence[Pair], louder: dict[Pair, int], k: int
) -> Rows:
    """The k columns of X (n, d) with the largest diagonal of the second moment of the shift, largest first.

    The same as from Moments.excess, but from `squares` = X² and without copies of samples, which may be long.
    """
    number = {cell: i for i, cell in enumerate(half)}
    n = np.array([len(rows) for rows in half.values()])
    ends = np.append(0, np.cumsum(n))
    weights = np.repeat(1 / n, n).astype(X.dtype)
    averaging = csr_array((weights, np.concatenate([*half.values()]), ends), shape=(len(half), len(X)))
    mean = averaging @ X
    variance = (averaging @ squares - np.square(mean)) * (n / (n - 1))[:, None]
    energy = np.zeros(X.shape[1])
    for pair in pairs:
        for first, second, weight in pair.shares():
            a, b = number[first], number[second]
            shift = np.square(mean[b] - mean[a]) - variance[a] / n[a] - variance[b] / n[b]
            energy += pair.size * weight * (shift + louder[pair] * (variance[b] - variance[a]))
    return np.argsort(-energy, kind="stable")[:k]


def leading_directions(rows: Array, signs: Array, rank: int, rng: np.random.Generator) -> Array:
    """The eigenvectors (p, rank) of the largest eigenvalues of rowsᵀ·diag(signs)·rows, largest first."""
    p = rows.shape[1]
    if p > SMALL and rank < p // 4:
        operator = LinearOperator((p, p), matvec=lambda v: rows.T @ (signs * (rows @ v.ravel())), dtype=np.float64)
        try:
            return np.asarray(eigsh(operator, rank, which="LA", v0=rng.normal(size=p), tol=1e-3)[1][:, ::-1])
        except ArpackNoConvergence:
            pass
    return np.asarray(np.linalg.eigh((rows.T * signs) @ rows)[1][:, : -rank - 1 : -1])


def overlap(first: tuple[Array, Array], second: tuple[Array, Array]) -> float:
    """tr(M₁·M₂) of two matrices Fᵀ·diag(s)·F: without bias ‖M‖²_F where both are estimates of one M."""
    (rows, signs), (others, other_signs) = first, second
    return float(signs @ np.square(rows @ others.T) @ other_signs)
