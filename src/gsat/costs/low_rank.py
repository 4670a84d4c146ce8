"""A few shifts, mixed differently for each sample: cell states, ancestries, scanners and sites at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from gsat import _checks
from gsat._arrays.norms import rows, wide
from gsat._arrays.svd import shrink_singular_values, singular_values, truncate_singular_values
from gsat.costs.base import Weighted, indicator


@dataclass(frozen=True)
class LowRank(Weighted):
    """A few directions, mixed per sample: g(Δ) = Σ_k σ_k(Δ), features flattened to (m, d); shrink lowers each by tau.

    Parameters
    ----------
    alpha : float
        The weight of g in the cost, 0 to 1.
    k : int, optional
        The rank is at most k: g is 0 or +∞, and shrink keeps the k largest singular values.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> gsat.LowRank().prox(torch.diag(torch.tensor([3.0, 0.5])), 1.0)  # singular values shrink, small ones vanish
    tensor([[1.2500, 0.0000],
            [0.0000, 0.0000]])
    """

    k: int | None = field(default=None, kw_only=True)
    rotates = True  # singular values stay as they are

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None:
            object.__setattr__(self, "k", _checks.count("k", self.k))

    @property
    def convex(self) -> bool:
        """The nuclear norm is convex, a rank is not."""
        return self.k is None or self.alpha == 0

    def measure(self, delta: Tensor) -> float:
        """The rank: singular values above 1e-6 of the largest."""
        sigma = singular_values(rows(delta))
        return float((sigma > 1e-6 * sigma[0]).sum())

    def _structure(self, delta: Tensor) -> Tensor:
        sigma = singular_values(rows(delta))
        if self.k is None:
            return sigma.sum().to(wide(delta))
        if self.k >= len(sigma):
            return delta.new_zeros((), dtype=wide(delta))
        return indicator(sigma[self.k], sigma[0], delta)

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        matrix = rows(v)
        shrunk = shrink_singular_values(matrix, tau) if self.k is None else truncate_singular_values(matrix, self.k)
        return shrunk.view_as(v)
