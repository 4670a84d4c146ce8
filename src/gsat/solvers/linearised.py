"""The maximum of the linearised loss, in closed form and iterated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from gsat._arrays.norms import norm
from gsat.costs import Penalised
from gsat.solvers.base import Answer, Ending, Point, start
from gsat.solvers.oracle import Oracle


@dataclass(frozen=True)
class LinearisedState:
    """`trial` maximises the loss linearised at the last point, `travel` from it; `best` is the best point evaluated."""

    trial: Tensor
    best: Point
    travel: float
    n_steps: int = 1
    done: bool = False


@dataclass(frozen=True)
class Linearised:
    """Δ ← argmax_U ⟨∇ℓ(Δ), U⟩ − λ·c(U), in closed form: with n_inner = 1 the structured fast gradient method.

    Iterated, it contracts where the quadratic term outweighs the curvature of the loss. It refuses α = 1.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> x = torch.zeros(5, 4)
    >>> found = gsat.maximise(lambda z: z.sum(1), x, gsat.LowRank(), lam=1.0, solver=gsat.Linearised(), n_inner=1)
    >>> found.n_gradients
    1
    """

    axis_free: ClassVar[bool] = True
    by_columns: ClassVar[bool] = False

    def init(self, oracle: Oracle, cost: Penalised, *, lam: float) -> LinearisedState:
        """Linearise at Δ = 0."""
        zero = start(oracle)
        trial = oracle.within_reach(cost.linear_maximum(zero.gradient, lam))
        size = float(norm(trial))
        return LinearisedState(trial, zero, size, done=size == 0)

    def step(self, oracle: Oracle, cost: Penalised, state: LinearisedState, *, lam: float) -> LinearisedState:
        """Evaluate the last maximiser and linearise there."""
        here = Point.at(state.trial, *oracle(state.trial), penalty=lam * float(cost.value(state.trial)))
        if not (here.is_finite and math.isfinite(here.objective)):  # there is no shorter step
            return replace(state, done=True)
        best = max(state.best, here, key=lambda point: point.objective)
        trial = oracle.within_reach(cost.linear_maximum(here.gradient, lam))
        travel = float(norm(trial - here.delta))
        arrived = travel <= torch.finfo(trial.dtype).eps * float(norm(trial))
        return LinearisedState(trial, best, travel, state.n_steps + 1, done=arrived)

    def finish(self, cost: Penalised, state: LinearisedState, *, lam: float) -> Ending:
        """The best point evaluated, and the last one, which was not."""
        answers: list[Answer] = [(state.best.delta, state.best.losses)]
        return Ending(answers if state.done else [*answers, (state.trial, None)], state.travel, state.travel)
