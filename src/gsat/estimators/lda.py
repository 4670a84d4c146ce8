"""Shrinkage LDA: the linear model of classes that are Gaussians with one covariance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gsat import _checks
from gsat._arrays.chunks import pieces
from gsat.estimators.linear import KEPT, Minimum, SolvedClassifier

LEAST = 1e-30  # of a share, in a logarithm
WIDE = 128  # times as many rows at a time where each block of rows meets each other one: 256 MB
LARGEST_SIDE = 10_000  # the smaller of samples and features, whose square matrix (0.8 GB) is factorised


@dataclass(eq=False, repr=False, kw_only=True)
class LDAClassifier(SolvedClassifier):
    """Linear discriminant analysis with shrinkage: logits μ_k'·Σ⁻¹·x − ½·μ_k'·Σ⁻¹·μ_k + log π_k.

    With s_i the weight of a sample and of its class, μ_k and π_k are the mean and the share of class k, S = Σ_i
    s_i·(x_i − μ)(x_i − μ)' / Σ s_i with the mean μ of the class of x_i, and Σ = (1 − shrinkage)·S + c·I with
    c = shrinkage·tr(S)/d. It is scikit-learn's LinearDiscriminantAnalysis(solver="lsqr", shrinkage=...) on the
    standardised samples, with equal priors where class_weight="balanced". Where there are fewer samples than features
    Σ is never formed: the square matrix is that of the samples.

    Parameters
    ----------
    shrinkage
        Above 0 and at most 1, where Σ is a multiple of I.
    standardize, prepare, class_weight, calibrate, validation_fraction, validation_batches, random_state
        As in `GSATClassifier`.
    **others
        Those of the training of networks have no effect; module and in_shape must be None, hidden 0.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> bool(gsat.LDAClassifier(0.1).fit(table.X, table.y).score(table.X, table.y) > 0.7)
    True
    """

    shrinkage: float = field(default=0.1, kw_only=False)

    def _solved(self, rows: Any, targets: Tensor, weights: Tensor, k: int) -> Minimum:
        shrinkage = _checks.number("shrinkage", self.shrinkage, above=0, most=1)
        if min(rows.shape) > LARGEST_SIDE:
            n, d = rows.shape
            raise ValueError(
                f"X must have at most {LARGEST_SIDE} samples or at most {LARGEST_SIDE} features for LDA, which solves "
                f"with a square matrix of the smaller number, got {n} x {d}; LinearClassifier has no such limit"
            )
        return discriminants(rows, targets, weights, shrinkage, k)


def discriminants(rows: Any, targets: Tensor, weights: Tensor, shrinkage: float, k: int) -> Minimum:
    """Weights Σ⁻¹·(μ_k − μ) and biases of LDA, whose logits are those of above less one number for each sample.

    Parameters
    ----------
    rows
        Samples (n, d); slices of them are arrays.
    targets, weights
        Class codes and s, (n,).
    shrinkage
        Above 0 and at most 1.
    k
        Classes.

    Returns
    -------
    Minimum
        Weights and biases, and the mean cross-entropy of the samples.
    """
    n, d = rows.shape
    parts = list(pieces(n, d, times=4 if d <= n else WIDE))
    kept = {part.start: torch.from_numpy(rows[part]).double() for part in parts} if n * d <= KEPT else {}
    share = weights / weights.sum()
    prior = torch.zeros(k, dtype=torch.float64).index_add(0, targets, share)

    def block(part: slice) -> Tensor:
        return kept[part.start] if kept else torch.from_numpy(rows[part]).double()

    means = torch.zeros(k, d, dtype=torch.float64)
    for part in parts:
        means.index_add_(0, targets[part], share[part, None] * block(part))
    prior = prior.clamp(min=LEAST)  # of a class whose weight is 0
    means /= prior[:, None]

    def residuals(part: slice) -> Tensor:
        """R, of which RᵀR = S."""
        return share[part, None].sqrt() * (block(part) - means[targets[part]])

    centre = prior @ means
    weight = _inverse_times(residuals, parts, (n, d), shrinkage)((means - centre).T).T
    bias = prior.log() - ((means + centre) * weight).sum(1) / 2  # −½·m'·Σ⁻¹·m − centre'·Σ⁻¹·m for m = μ_k − centre
    loss = sum(
        float(share[part] @ cross_entropy(block(part) @ weight.T + bias, targets[part], reduction="none"))
        for part in parts
    )
    return Minimum(weight, bias, loss, 1)


def _inverse_times(
    residuals: Callable[[slice], Tensor], parts: list[slice], shape: tuple[int, int], shrinkage: float
) -> Callable[[Tensor], Tensor]:
    """M -> Σ⁻¹·M for Σ = (1 − shrinkage)·RᵀR + shrinkage·tr(RᵀR)/d·I, through the shorter side of R (n, d).

    With c the multiple of I and a = 1 − shrinkage: Σ⁻¹·M = (M − a·Rᵀ(c·I + a·RRᵀ)⁻¹·R·M)/c.
    """
    n, d = shape
    side = min(n, d)
    gram = torch.zeros(side, side, dtype=torch.float64)
    for place, part in enumerate(parts):
        own = residuals(part)
        if d <= n:
            gram += own.T @ own
            continue
        for other in parts[: place + 1]:  # the lower triangle, which is what is factorised
            gram[part, other] = own @ residuals(other).T
    spread = float(gram.trace())
    rest = shrinkage * spread / d if spread > 0 else 1.0  # the samples of each class are alike: distances decide
    gram *= 1 - shrinkage
    gram.diagonal().add_(rest)
    factor = torch.linalg.cholesky(gram)
    if d <= n:
        return lambda M: torch.cholesky_solve(M, factor)

    def through_samples(M: Tensor) -> Tensor:
        inner = torch.cholesky_solve(torch.cat([residuals(part) @ M for part in parts]), factor)
        for part in parts:
            M = M - (1 - shrinkage) * (residuals(part).T @ inner[part])
        return M / rest

    return through_samples
