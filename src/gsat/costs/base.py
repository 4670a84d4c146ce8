"""What a cost is: c(Δ) = α·g(Δ) + ridge·‖Δ‖²_F, the price of moving a whole group of samples by Δ (m, *features)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from gsat import _checks
from gsat._arrays.norms import norm, wide


class GroupCost(Protocol):
    """What a cost of one's own must have. c(0) = 0; `delta` and `v` have shape (m, *features).

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> class Ridge:
    ...     def value(self, delta):
    ...         return delta.square().sum()
    ...     def prox(self, v, tau):
    ...         return v / (1 + 2 * tau)

    >>> found = gsat.maximise(lambda z: z.sum(1), torch.zeros(2, 3), Ridge(), lam=1.0)
    >>> torch.allclose(found.delta, torch.full((2, 3), 0.5), atol=1e-4)  # where 1 = 2·lam·delta
    True
    """

    def value(self, delta: Tensor) -> Tensor:
        """c(Δ), a scalar tensor; +inf where Δ is not allowed."""

    def prox(self, v: Tensor, tau: float) -> Tensor:
        """argmin_U  tau·c(U) + ½‖U − V‖²_F."""


class Penalised(ABC):
    """A structure g with its weight α and a quadratic term: c(Δ) = α·g(Δ) + ridge·‖Δ‖²_F, ridge = 1 − α.

    A subclass gives `_structure` (g) and `_shrink` (the prox of g for tau > 0), and says what it is by the properties
    below. g is a norm or the indicator of a cone. With α = 0 nothing is structured: g counts as 0 and shrink is the
    identity, also where g takes the value +∞.
    """

    alpha: float
    rotates: bool = False  # whether c(Δ) = c(Δ·Q) for every rotation Q of the features, so that the row space is enough
    convex: bool = False  # whether c is known to be convex
    equal_rows: bool = False  # whether g is finite only where all rows of Δ are equal
    spans_ranks: bool = False  # whether value and prox sum by `_arrays.norms`, so that a group may lie on several ranks

    @property
    def ridge(self) -> float:
        """The weight of ‖Δ‖²_F in the cost."""
        return 1 - self.alpha

    @property
    def unbounded(self) -> bool:
        """Whether there is no quadratic term, so that loss − λ·c(Δ) may have no maximum."""
        return self.ridge == 0

    def columns(self, m: int) -> Penalised | None:
        """The cost of m rows as one of the row (1, d) of their column norms; None where c sees more than these."""
        return None

    def of_rows(self, m: int) -> Penalised:
        """The cost of a group of m rows, where a rank holds some of them."""
        return self

    @abstractmethod
    def _structure(self, delta: Tensor) -> Tensor: ...

    @abstractmethod
    def _shrink(self, v: Tensor, tau: float) -> Tensor: ...

    def measure(self, delta: Tensor) -> float | None:
        """How structured Δ is, as a count (columns that move, rank); None where that has no meaning."""
        return None

    def structure(self, delta: Tensor) -> Tensor:
        """g(Δ), a scalar tensor; +inf where Δ does not have the structure."""
        _checks.group("delta", delta)
        return self._structure(delta) if self.alpha > 0 else delta.new_zeros((), dtype=wide(delta))

    def value(self, delta: Tensor) -> Tensor:
        """c(Δ) = α·g(Δ) + ridge·‖Δ‖²_F, a scalar tensor."""
        return self.alpha * self.structure(delta) + self.ridge * norm(delta).square()

    def shrink(self, v: Tensor, tau: float) -> Tensor:
        """argmin_U  tau·g(U) + ½‖U − V‖²_F, of the shape of `v`; the identity at tau = 0."""
        _checks.group("v", v)
        tau = _checks.number("tau", tau, least=0)
        return self._shrink(v, tau) if tau > 0 and self.alpha > 0 else v.clone()

    def prox(self, v: Tensor, tau: float) -> Tensor:
        """argmin_U  tau·c(U) + ½‖U − V‖²_F = shrink(V/s, tau·α/s) with s = 1 + 2·tau·ridge."""
        _checks.group("v", v)
        tau = _checks.number("tau", tau, least=0)
        scale = 1 + 2 * tau * self.ridge
        v = v / scale  # the same name: what was made for this call alone is let go
        return self.shrink(v, tau * self.alpha / scale)

    def value_at_prox(self, u: Tensor, tau: float, *, gap: float, square: float) -> float:
        """c(U) at U = prox(V, tau) from gap = ⟨V − U, U⟩ and square = ‖U‖²_F, without a second evaluation of g.

        (V − U)/tau is a sub-gradient of c at U, and ⟨sub-gradient of g, U⟩ = g(U) for a norm or the indicator of a
        cone: gap/tau = α·g(U) + 2·ridge·‖U‖²_F.
        """
        return gap / tau - self.ridge * square

    def linear_maximum(self, gradient: Tensor, lam: float) -> Tensor:
        """argmax_U ⟨G, U⟩ − λ·c(U) = shrink(G/(2λ·ridge), α/(2·ridge)), of the shape of the gradient G."""
        if self.ridge == 0:
            raise ValueError(f"the linearised solver needs alpha < 1, got alpha = {self.alpha:g}")
        return self.shrink(gradient / (2 * lam * self.ridge), self.alpha / (2 * self.ridge))


@dataclass(frozen=True)
class Weighted(Penalised):
    """A cost whose α is given: the base of the named structures."""

    alpha: float = 0.5
    spans_ranks = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _checks.number("alpha", self.alpha, least=0, most=1))


@dataclass(frozen=True)
class Counted(Weighted):
    """The costs of parts that have a size, columns or directions: g is the sum of the sizes.

    With k, at most k parts may be there at all: g is 0 where the others have the size 0, else +∞.
    """

    k: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None:
            object.__setattr__(self, "k", _checks.count("k", self.k))
        object.__setattr__(self, "convex", self.k is None or self.alpha == 0)  # a count is not

    @abstractmethod
    def _part_sizes(self, delta: Tensor) -> Tensor: ...

    def _structure(self, delta: Tensor) -> Tensor:
        sizes = self._part_sizes(delta)
        if self.k is None:
            return sizes.sum().to(wide(delta))
        if self.k >= len(sizes):
            return delta.new_zeros((), dtype=wide(delta))
        return indicator(sizes.kthvalue(len(sizes) - self.k).values, sizes.amax(), delta)


class Wrapping(Penalised):
    """A cost made of another one, which it is like unless it says otherwise."""

    cost: Penalised

    def __post_init__(self) -> None:
        for name in ("alpha", "rotates", "convex", "spans_ranks"):
            object.__setattr__(self, name, getattr(self.cost, name))

    @property
    def ridge(self) -> float:
        """That of the cost inside."""
        return self.cost.ridge

    def measure(self, delta: Tensor) -> float | None:
        """That of the cost inside, of the whole group."""
        return self.cost.measure(delta)


@dataclass(frozen=True)
class Bare(Penalised):
    """A cost of one's own with `value` and `prox` alone: taken as g itself, with α = 1 and no quadratic term."""

    cost: GroupCost
    alpha: float = 1.0
    unbounded = False  # not known, and not warned of

    def _structure(self, delta: Tensor) -> Tensor:
        return self.cost.value(delta)

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        return self.cost.prox(v, tau)

    def value_at_prox(self, u: Tensor, tau: float, *, gap: float, square: float) -> float:
        """c(U), evaluated: nothing is known of g."""
        return float(self.cost.value(u))

    def linear_maximum(self, gradient: Tensor, lam: float) -> Tensor:
        """argmax_U ⟨G, U⟩ − λ·c(U) by U ← prox(U + tG, tλ) with a long t; it needs no further gradient."""
        point, long = torch.zeros_like(gradient), 1e3 / lam
        for _ in range(20):
            last, point = point, self.cost.prox(point + long * gradient, long * lam)
            size = float(norm(point))
            if not math.isfinite(size):
                break
            if float(norm(point - last)) <= 8 * torch.finfo(point.dtype).eps * size:
                return point
        raise ValueError(
            f"the linearised solver needs a cost that grows faster than linearly, got {type(self.cost).__name__}, "
            "for which ⟨G, U⟩ − lam·c(U) has no maximum"
        )


def penalised(cost: GroupCost) -> Penalised:
    """The cost with everything that solvers ask of it."""
    return cost if isinstance(cost, Penalised) else Bare(cost)


def indicator(excess: Tensor, size: Tensor, delta: Tensor) -> Tensor:
    """0 where `excess` is at most the tolerance times `size`, else +inf."""
    tolerance = 1e-12 if delta.dtype == torch.float64 else max(1e-6, 4 * torch.finfo(delta.dtype).eps)
    allowed = excess.double() <= tolerance * size.double()
    return torch.where(allowed, 0.0, math.inf).to(wide(delta))
