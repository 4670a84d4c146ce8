"""One shift of every sample: a batch effect."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gsat._arrays.norms import largest, mean_row, rows
from gsat.costs.base import Weighted, indicator


@dataclass(frozen=True)
class Universal(Weighted):
    """One shift moves every sample: g(Δ) = 0 if all rows are equal, else +∞; shrink makes every row the mean row.

    Parameters
    ----------
    alpha : float
        The weight of g in the cost, 0 to 1.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> gsat.Universal().prox(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), 1.0)  # the mean row, shortened
    tensor([[0.5000, 0.0000],
            [0.5000, 0.0000]])
    """

    rotates = True  # equal rows stay equal
    convex = True  # the indicator of a subspace
    equal_rows = True

    def _structure(self, delta: Tensor) -> Tensor:
        matrix = rows(delta)
        return indicator(largest(matrix - mean_row(matrix)), largest(matrix), delta)

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        return mean_row(v).expand_as(v).contiguous()
