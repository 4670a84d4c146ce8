"""A cost in units of the perturbation that is wanted, so that α means the same on any data and in any group."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

from torch import Tensor

from gsat._arrays.norms import size
from gsat.costs.base import GroupCost, Penalised, Wrapping
from gsat.costs.per_batch import PerBatch


@dataclass(frozen=True)
class Scaled(Wrapping):
    """A cost in units of s: c(Δ) = α·√m·g(Δ/s) + ridge·‖Δ/s‖²_F.

    g grows with Δ and with the rows in another way than the square does; with s the size of the perturbation that is
    wanted and √m in front of g, the same α means the same structure whatever the scale of the data and the group.
    """

    cost: Penalised
    s: float
    m: int | None = None  # the rows of the group, where Δ has others: the row of its column norms, or those of a rank

    @property
    def ridge(self) -> float:
        """That of the cost, in units of s."""
        return self.cost.ridge / self.s**2

    @property
    def equal_rows(self) -> bool:  # type: ignore[override]
        """As the cost has."""
        return self.cost.equal_rows

    def columns(self, m: int) -> Scaled | None:
        """That of the cost, in units of s and of a group of m rows."""
        inner = self.cost.columns(m)
        return None if inner is None else Scaled(inner, self.s, m)

    def of_rows(self, m: int) -> Scaled:
        """With √m of the whole group."""
        return replace(self, m=m)

    def _structure(self, delta: Tensor) -> Tensor:
        return math.sqrt(self.m or size(delta)) * self.cost._structure(delta / self.s)

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        weight = math.sqrt(self.m or size(v)) / self.s  # s·shrink(V/s, t) = shrink(V, s·t) for a norm
        return self.cost._shrink(v, tau * weight)


@dataclass(frozen=True)
class ScaledBare:
    """As `Scaled`, for a cost with `value` and `prox` alone: c(Δ/s)."""

    cost: GroupCost
    s: float

    def value(self, delta: Tensor) -> Tensor:
        """c(Δ/s)."""
        return self.cost.value(delta / self.s)

    def prox(self, v: Tensor, tau: float) -> Tensor:
        """s·prox(V/s, tau/s²)."""
        return self.s * self.cost.prox(v / self.s, tau / self.s**2)


def scaled(cost: GroupCost | PerBatch, s: float) -> GroupCost | PerBatch:
    """The cost in units of s; for `PerBatch`, that of each batch."""
    if isinstance(cost, PerBatch):
        return PerBatch(cast(GroupCost, scaled(cost.cost, s)), cost.n_random)
    return Scaled(cost, s) if isinstance(cost, Penalised) else ScaledBare(cost, s)
