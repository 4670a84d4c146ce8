"""What a solver is, what it returns, and the few pieces that all of them use."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from gsat._arrays.norms import at_hand, norm, numbers, total
from gsat.costs import GroupCost, Penalised
from gsat.solvers.oracle import Oracle

Answer = tuple[Tensor, Tensor | None]  # a perturbation, and the losses there if they were evaluated


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found.

    delta: (m, *features) with the structure of the cost, formed when it is first asked for; objective: S(Δ)/m;
    residual: ‖δ − z‖_F for ADMM, the length of the next step ‖Δ − prox(Δ + η∇ℓ, ηλ)‖_F for the others, nan where it
    was not asked for and would have taken a step more;
    n_steps: accepted steps; n_gradients: evaluated gradients, rejected trials included.
    """

    found: Tensor | Callable[[], Tensor] = field(repr=False)
    objective: float
    residual: float
    n_steps: int
    n_gradients: int

    @cached_property
    def delta(self) -> Tensor:
        """The perturbation."""
        return self.found() if callable(self.found) else self.found


class State(Protocol):
    """Where a solver stands. `answers` are the perturbations that may be the best so far."""

    @property
    def answers(self) -> list[Answer]: ...
    @property
    def residual(self) -> float: ...
    @property
    def drift(self) -> float: ...  # how far the answer still moves in a step
    @property
    def n_steps(self) -> int: ...
    @property
    def done(self) -> bool: ...


S = TypeVar("S", bound=State)


class Solver(Protocol[S]):
    """Frozen hyper-parameters, an explicit state, and a step that evaluates one gradient, the first at Δ = 0.

    A solver that leaves work to its next step also has `finish`, with the parameters of `step`: it evaluates none, and
    what it returns is the state after the last step. One that learns its residual from the next step also has `probe`,
    of the same kind, which is left out where nobody asks for the residual.
    """

    def init(self, x: Tensor, n_inner: int) -> S:
        """The state before the first of at most n_inner steps."""

    def step(self, oracle: Oracle, cost: GroupCost, state: S, *, lam: float) -> S:
        """The state after one more gradient."""


@dataclass(frozen=True)
class Point:
    """A perturbation, the losses and the gradient there, and S(Δ); loss is the sum of the losses."""

    delta: Tensor
    losses: Tensor
    gradient: Tensor
    objective: float
    loss: float

    @classmethod
    def of(
        cls, cost: GroupCost, lam: float, delta: Tensor, losses: Tensor, gradient: Tensor, *wanted: Tensor
    ) -> tuple[Point | None, list[float]]:
        """What was evaluated at Δ, with S there; None where that is not finite. As `start`, also what is wanted."""
        finite, (loss, value, *others) = read(losses, gradient, total(losses), cost.value(delta), *wanted)
        return cls(delta, losses, gradient, loss - lam * value, loss) if finite else None, others


def start(oracle: Oracle, zero: Tensor, losses: Tensor, gradient: Tensor, *wanted: Tensor) -> tuple[Point, list[float]]:
    """The point Δ = 0, where a loss or gradient that is not finite cannot be mended by a shorter step.

    With it the numbers that are wanted beside it, in the same read.
    """
    later = [] if at_hand(losses) else [norm(oracle.x)]
    finite, (loss, *others) = read(losses, gradient, total(losses), *wanted, *later)
    if later:
        oracle.size = others.pop()
    if not finite:
        raise FloatingPointError(
            "loss or gradient is not finite at step 0, where nothing has moved yet; look at x, y and the model"
        )
    return Point(zero, losses, gradient, loss, loss), others


def read(losses: Tensor, gradient: Tensor, *wanted: Tensor) -> tuple[bool, list[float]]:
    """Whether every loss and every entry of the gradient is finite, and the numbers that are wanted: one read."""
    if isinstance(gradient, Tensor):
        ends = [*torch.aminmax(losses), *torch.aminmax(gradient)]
    else:
        ends = [torch.where(torch.isfinite(found).all(), 0.0, math.nan) for found in (losses, gradient)]
    found = numbers(*ends, *wanted)
    return all(map(math.isfinite, found[: len(ends)])), found[len(ends) :]


def raise_if_stuck(step_length: float, oracle: Oracle) -> None:
    """A loss that is not finite rejects the step that led there, unless the step can hardly be shorter."""
    if step_length <= torch.finfo(oracle.x.dtype).eps * oracle.size:
        raise FloatingPointError(
            f"loss or gradient is not finite at step {oracle.n_gradients - 1}, however short the step"
        )


def ridge_of(cost: GroupCost) -> float:
    """The weight of ‖Δ‖²_F in the cost, as far as it is known."""
    return cost.ridge if isinstance(cost, Penalised) else 0.0


def linearised_maximum(cost: GroupCost, gradient: Tensor, lam: float) -> Tensor:
    """argmax_U ⟨G, U⟩ − λ·c(U) = shrink(G/(2λ·ridge), α/(2·ridge)).

    For a cost with `value` and `prox` alone: U ← prox(U + tG, tλ) with a long t; it needs no further gradient.
    """
    if isinstance(cost, Penalised):
        if cost.ridge == 0:
            raise ValueError(f"the linearised solver needs alpha < 1, got alpha = {cost.alpha:g}")
        return cost.shrink(gradient / (2 * lam * cost.ridge), cost.alpha / (2 * cost.ridge))
    point, long = torch.zeros_like(gradient), 1e3 / lam
    for _ in range(20):
        last, point = point, cost.prox(point + long * gradient, long * lam)
        length, size = numbers(norm(point - last), norm(point))
        if length <= 8 * torch.finfo(point.dtype).eps * size or not math.isfinite(size):
            break
    else:
        size = math.inf
    if not math.isfinite(size):
        raise ValueError(
            f"the linearised solver needs a cost that grows faster than linearly, got {type(cost).__name__}, "
            "for which ⟨G, U⟩ − lam·c(U) has no maximum"
        )
    return point
