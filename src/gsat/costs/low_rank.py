"""A few shifts, mixed differently for each sample: cell states, ancestries, scanners and sites at once."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gsat._arrays.norms import rows
from gsat._arrays.svd import shrink_singular_values, singular_values, truncate_singular_values
from gsat.costs.base import Counted


@dataclass(frozen=True)
class LowRank(Counted):
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

    rotates = True  # singular values stay as they are

    def measure(self, delta: Tensor) -> float:
        """The rank: singular values above 1e-6 of the largest."""
        sigma = singular_values(rows(delta))
        return float((sigma > 1e-6 * sigma[0]).sum())

    def _part_sizes(self, delta: Tensor) -> Tensor:
        return singular_values(rows(delta))

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        matrix = rows(v)
        shrunk = shrink_singular_values(matrix, tau) if self.k is None else truncate_singular_values(matrix, self.k)
        return shrunk.view_as(v)
