"""Every sample on its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from gsat._arrays.norms import wide
from gsat.costs.base import Penalised


@dataclass(frozen=True)
class Unstructured(Penalised):
    """Every sample moves on its own: c(Δ) = ‖Δ‖²_F, ordinary distributional robustness (WRM).

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> round(float(gsat.Unstructured().value(torch.ones(2, 3))), 3)
    6.0
    """

    alpha: float = field(init=False, repr=False, default=0.0)
    rotates = True  # lengths stay as they are
    convex = True
    spans_ranks = True

    def _structure(self, delta: Tensor) -> Tensor:
        return delta.new_zeros((), dtype=wide(delta))

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        return v.clone()
