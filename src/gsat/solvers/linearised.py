"""The maximum of the linearised loss, in closed form and iterated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gsat._arrays.norms import at_hand, norm
from gsat.costs import GroupCost
from gsat.solvers.base import Answer, Point, linearised_maximum, start
from gsat.solvers.oracle import Oracle


@dataclass(frozen=True)
class LinearisedState:
    """`trial` maximises the loss linearised at the last point; `best` is the best point evaluated so far."""

    trial: Tensor
    best: Point | None = None
    sizes: Tensor | None = None  # how far the trial is from that point, and its norm, on the device
    n_steps: int = 0
    done: bool = False

    @property
    def residual(self) -> float:
        """The length of the next step."""
        return math.inf if self.sizes is None else float(self.sizes[0])

    @property
    def drift(self) -> float:
        """The length of the next step."""
        return self.residual

    @property
    def answers(self) -> list[Answer]:
        """The best point evaluated, and the last one, which was not."""
        known: list[Answer] = [] if self.best is None else [(self.best.delta, self.best.losses)]
        return known if self.done else [*known, (self.trial, None)]


@dataclass(frozen=True)
class Linearised:
    """Δ ← argmax_U ⟨∇ℓ(Δ), U⟩ − λ·c(U), in closed form: with n_inner = 1 the structured fast gradient method.

    Iterated, it contracts where the quadratic term outweighs the curvature of the loss. It refuses α = 1.
    """

    def init(self, x: Tensor, n_inner: int) -> LinearisedState:
        """Δ = 0 is evaluated first."""
        return LinearisedState(torch.zeros_like(x))

    def step(self, oracle: Oracle, cost: GroupCost, state: LinearisedState, *, lam: float) -> LinearisedState:
        """Evaluate the last maximiser and linearise there."""
        losses, gradient = oracle(state.trial)
        if state.best is None:
            best, _ = start(oracle, state.trial, losses, gradient)
        else:
            late = [] if state.sizes is None or at_hand(state.sizes) else [state.sizes]
            point, sizes = Point.of(cost, lam, state.trial, losses, gradient, *late)
            if point is None or (late and _arrived(state.trial, *sizes)):  # there is no shorter step, or no step at all
                return replace(state, done=True)
            best = max(state.best, point, key=lambda candidate: candidate.objective)
        trial = linearised_maximum(cost, gradient, lam)
        travel = torch.stack([norm(trial - state.trial), norm(trial)])
        arrived = at_hand(travel) and _arrived(trial, *travel.tolist())
        return LinearisedState(trial, best, travel, state.n_steps + 1, done=arrived)


def _arrived(trial: Tensor, length: float, size: float) -> bool:
    """Whether a step of that length to the trial is no longer than rounding."""
    return length <= torch.finfo(trial.dtype).eps * size
