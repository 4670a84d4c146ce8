"""Costs made of other costs: one structure per batch, and a cost in the units of the perturbation that is wanted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Generator, Tensor

from gsat import _checks
from gsat._arrays.norms import rows
from gsat._arrays.subspace import Subspace
from gsat.costs.base import GroupCost, Penalised, Universal, indicator


@dataclass(frozen=True)
class PerBatch:
    """The structure holds inside each batch of the group, and costs add up: Σ_b c(Δ_b).

    For `Universal` this is one shift per batch, the paper's universal set of perturbations. The batches are those given
    with the group, or, where none are given, `n_random` batches of equal size drawn at random.
    """

    cost: GroupCost
    n_random: int | None = None

    def __post_init__(self) -> None:
        if self.n_random is not None:
            object.__setattr__(self, "n_random", _checks.count("n_random", self.n_random, least=1))

    def bind(self, batch: Any) -> BoundPerBatch:
        """The cost of a group whose i-th sample belongs to batch[i]."""
        codes = _checks.batch_codes(batch, len(batch) if hasattr(batch, "__len__") else None)
        order = torch.argsort(codes, stable=True)
        return self._bound(order, tuple(torch.bincount(codes).tolist()))

    def _bound(self, order: Tensor, sizes: tuple[int, ...]) -> BoundPerBatch:
        if isinstance(self.cost, Penalised):
            return _PenalisedPerBatch(self.cost, order, sizes)
        return BoundPerBatch(self.cost, order, sizes)

    def in_turn(self, n: int, m: int) -> BoundPerBatch:
        """The cost of a group of m samples of which the i-th belongs to batch i modulo n."""
        order = torch.argsort(torch.arange(m) % n, stable=True)
        return self._bound(order, tuple(len(range(batch, m, n)) for batch in range(n)))

    def draw(self, m: int, generator: Generator | None = None) -> BoundPerBatch:
        """The cost of a group of m samples with `n_random` random batches (seed 0 where no generator is given)."""
        if self.n_random is None:
            raise ValueError("PerBatch needs batch= (one id per sample) or n_random=, got neither")
        if generator is None:
            generator = torch.Generator().manual_seed(0)
        place = torch.randperm(m, generator=generator, device=generator.device)
        return self.bind(place % min(self.n_random, m))


@dataclass(frozen=True, eq=False)
class BoundPerBatch:
    """Σ_b c(Δ_b) for one group: `order` sorts its samples by batch, `sizes` are the batches' numbers of samples."""

    cost: GroupCost
    order: Tensor
    sizes: tuple[int, ...]

    def value(self, delta: Tensor) -> Tensor:
        """Σ_b c(Δ_b), a scalar tensor."""
        return torch.stack([self.cost.value(part) for part in self._parts(delta)]).sum()

    def prox(self, v: Tensor, tau: float) -> Tensor:
        """The prox of c in each batch."""
        return self._each(v, lambda part: self.cost.prox(part, tau))

    def _check_length(self, v: Tensor) -> None:
        if len(self.order) != len(v):
            raise ValueError(f"batch must have one id per sample ({len(v)}), got {len(self.order)}")

    def _parts(self, v: Tensor) -> tuple[Tensor, ...]:
        self._check_length(v)
        return torch.split(v[self.order.to(v.device)], list(self.sizes))

    def _each(self, v: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        sorted_rows = torch.cat([function(part) for part in self._parts(v)])
        return torch.empty_like(sorted_rows).index_copy_(0, self.order.to(v.device), sorted_rows)


@dataclass(frozen=True, eq=False)
class _PenalisedPerBatch(Penalised, BoundPerBatch):
    """As `BoundPerBatch`, for a cost with a quadratic term, which is the same for every batch."""

    cost: Penalised

    @property
    def alpha(self) -> float:  # type: ignore[override]
        return self.cost.alpha

    @property
    def ridge(self) -> float:
        return self.cost.ridge

    @property
    def rotates(self) -> bool:
        return self.cost.rotates

    def _structure(self, delta: Tensor) -> Tensor:
        if is_universal(self.cost):
            apart, size = (rows(v).abs().amax(1) for v in (delta - self._means(delta), delta))
            return indicator(self._largest(apart), self._largest(size), delta).sum()
        return torch.stack([self.cost.structure(part) for part in self._parts(delta)]).sum()

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        if is_universal(self.cost):
            return self._means(v)
        return self._each(v, lambda part: self.cost.shrink(part, tau))

    def _means(self, v: Tensor) -> Tensor:
        """Every row becomes the mean row of its batch; there may be a hundred batches, so none is touched alone."""
        self._check_length(v)
        code, sizes = self.code.to(v.device), torch.tensor(self.sizes, device=v.device)
        sums = rows(v).new_zeros(len(sizes), rows(v).shape[1]).index_add_(0, code, rows(v))
        return sums.div_(sizes[:, None])[code].view_as(v)

    def _largest(self, v: Tensor) -> Tensor:
        """The largest of the numbers (m,) in each batch."""
        return v.new_zeros(len(self.sizes)).scatter_reduce_(0, self.code.to(v.device), v, "amax")

    @cached_property
    def code(self) -> Tensor:
        """The number of each sample's batch."""
        numbers = torch.repeat_interleave(torch.tensor(self.sizes))
        return torch.empty_like(self.order).index_copy_(0, self.order, numbers)


@dataclass(frozen=True)
class Scaled(Penalised):
    """A cost in units of s: c(Δ) = α·√m·g(Δ/s) + ridge·‖Δ/s‖²_F.

    g grows with Δ and with the rows in another way than the square does; with s the size of the perturbation that is
    wanted and √m in front of g, the same α means the same structure whatever the scale of the data and the group.
    """

    cost: Penalised
    s: float

    @property
    def alpha(self) -> float:  # type: ignore[override]
        """That of the cost."""
        return self.cost.alpha

    @property
    def ridge(self) -> float:
        """That of the cost, in units of s."""
        return self.cost.ridge / self.s**2

    @property
    def rotates(self) -> bool:
        """As the cost does."""
        return self.cost.rotates

    def remembering(self) -> Scaled:
        """As the cost does."""
        return Scaled(self.cost.remembering(), self.s)

    @property
    def memory(self) -> Subspace | None:
        """That of the cost."""
        return self.cost.memory

    def _structure(self, delta: Tensor) -> Tensor:
        return math.sqrt(len(delta)) * self.cost.structure(delta / self.s)

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        return self.cost.shrink(v, tau * math.sqrt(len(v)) / self.s)  # s·shrink(V/s, t) = shrink(V, s·t) for a norm


@dataclass(frozen=True)
class ScaledPlain:
    """As `Scaled`, for a cost with `value` and `prox` alone: c(Δ/s)."""

    cost: GroupCost
    s: float

    def value(self, delta: Tensor) -> Tensor:
        """c(Δ/s)."""
        return self.cost.value(delta / self.s)

    def prox(self, v: Tensor, tau: float) -> Tensor:
        """s·prox(V/s, tau/s²)."""
        return self.s * self.cost.prox(v / self.s, tau / self.s**2)


def is_universal(cost: GroupCost) -> bool:
    """Whether the cost asks for equal rows, in whatever units."""
    return isinstance(cost.cost if isinstance(cost, Scaled) else cost, Universal)


def scaled(cost: GroupCost | PerBatch, s: float) -> GroupCost | PerBatch:
    """The cost in units of s; for `PerBatch`, that of each batch."""
    if isinstance(cost, PerBatch):
        return PerBatch(cast(GroupCost, scaled(cost.cost, s)), cost.n_random)
    return Scaled(cost, s) if isinstance(cost, Penalised) else ScaledPlain(cost, s)


def bound(cost: GroupCost | PerBatch, m: int, batch: Any = None, generator: Generator | None = None) -> GroupCost:
    """The cost of one group of m samples: `PerBatch` gets its batches, any other cost is returned as it is."""
    if batch is not None:
        batch = _checks.batch_codes(batch, m)
    if not isinstance(cost, PerBatch):
        return cost
    return cost.draw(m, generator) if batch is None else cost.bind(batch)
