"""Proximal gradient ascent with a step that finds its own length, and a start that sees through flat losses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gsat import _checks
from gsat._numeric import dot, norm, numbers, total
from gsat.costs import GroupCost, Penalised
from gsat.oracle import Oracle
from gsat.solvers.protocol import Answer, Point, finite, raise_if_stuck, ridge_of, start
from gsat.solvers.relaxed import Schedule, first_trial, next_trial, schedule

REACH = 10.0  # the first step is this many times 1/(λ·ridge): within 5 % of the linearised maximum
GROWTH = 4.0
LONGEST = 1e5  # in first steps; a longer one changes nothing and may overflow
PATIENCE = 0.75  # the share of n_inner after which an iterate below S(0) is given up


@dataclass(frozen=True)
class ProximalState:
    """`here` is the iterate (None: not yet structured), `trial` the next point to evaluate, `zero` is Δ = 0."""

    trial: Tensor
    n_inner: int
    plan: Schedule = ()  # of the relaxed start
    phase: int = 0  # of the plan
    eta: float = 0.0
    first_eta: float = 0.0
    penalty: float = 0.0  # λ·c(trial)
    zero: Point | None = None
    here: Point | None = None
    residual: float = math.inf
    n_steps: int = 0
    done: bool = False

    @property
    def drift(self) -> float:
        """The length of the next step."""
        return self.residual

    @property
    def answers(self) -> list[Answer]:
        """The iterate; before the first accepted step, the trial that was not evaluated."""
        if self.here is None or (self.n_steps == 0 and not self.done):
            return [(self.trial, None)]
        return [(self.here.delta, self.here.losses)]


@dataclass(frozen=True)
class Proximal:
    """Δ ← prox(Δ + η∇ℓ(Δ), ηλ): exactly structured in every step, and stable for every λ.

    η is the inverse of the curvature measured along the last step; a step that does not raise S is taken back, and
    η is cut by what the trial showed.

    The start is relaxed (`gsat.solvers.relaxed` says how and why): over `relax` gradients the structure is phased in,
    and S rises from there; where it does not pass S(0) soon, the ascent starts again at Δ = 0. `relax=0` starts at
    Δ = 0 at once.
    """

    relax: int = 4
    sufficient: float = 1e-3  # the share of ‖step‖²/2η by which S must rise
    tol: float = 0.0  # the ascent ends with a step that raises S by less than this share of all it has gained

    def __post_init__(self) -> None:
        _checks.count("relax", self.relax)
        _checks.number("tol", self.tol, least=0, below=1)
        _checks.number("sufficient", self.sufficient, least=0, most=1)

    def init(self, x: Tensor, n_inner: int) -> ProximalState:
        """Δ = 0 is evaluated first."""
        return ProximalState(torch.zeros_like(x), n_inner)

    def step(self, oracle: Oracle, cost: GroupCost, state: ProximalState, *, lam: float) -> ProximalState:
        """Evaluate the trial, accept or reject it, and propose the next."""
        losses, gradient = oracle(state.trial)
        if state.zero is None:
            return self._leave_zero(oracle, cost, state, start(state.trial, losses, gradient), lam)
        if state.here is None:
            return self._phase_in(oracle, cost, state, losses, gradient, lam)
        here, eta = state.here, state.eta
        step = state.trial - here.delta
        loss, before, slope, square, turn = numbers(
            total(losses),
            total(here.losses),
            dot(here.gradient, step),
            dot(step, step),
            dot(here.gradient - gradient, step),
        )
        if not (math.isfinite(loss) and math.isfinite(turn)):
            raise_if_stuck(square**0.5, oracle)
            return self._propose(oracle, cost, replace(state, eta=eta / 10), lam)
        objective = loss - state.penalty
        slack = 16 * torch.finfo(losses.dtype).eps * (abs(loss) + abs(state.penalty))
        if objective < here.objective + self.sufficient * square / (2 * eta) - slack:
            curvature = 2 * (before + slope - loss) / square
            shorter = min(1 / curvature, eta / 2) if curvature > 0 else eta / 2
            return self._propose(oracle, cost, replace(state, eta=max(shorter, eta / 1000)), lam)
        longer = min(GROWTH * eta, LONGEST * state.first_eta)
        moved = replace(
            state,
            here=Point(state.trial, losses, gradient, objective),
            eta=min(square / turn, longer) if turn > 0 else longer,
            n_steps=state.n_steps + 1,
        )
        if self.tol > 0 and objective - here.objective < self.tol * (objective - state.zero.objective):
            return replace(moved, done=True)
        return self._propose(oracle, cost, moved, lam)

    def _leave_zero(
        self, oracle: Oracle, cost: GroupCost, state: ProximalState, zero: Point, lam: float
    ) -> ProximalState:
        """The relaxed start where the quadratic term gives it a scale, else a step of the size of the data."""
        size = float(norm(zero.gradient))
        ridge = ridge_of(cost)
        eta = REACH / (lam * ridge) if ridge > 0 else (float(norm(oracle.x)) or 1.0) / (size or 1.0)
        plan = schedule(cost, len(oracle.x), state.n_inner, self.relax) if ridge > 0 and size > 0 else ()
        state = replace(state, zero=zero, eta=eta, first_eta=eta, plan=plan)
        if plan:
            return replace(state, trial=first_trial(cost, zero.gradient, lam))
        return self._propose(oracle, cost, replace(state, here=zero), lam)

    def _phase_in(
        self,
        oracle: Oracle,
        cost: GroupCost,
        state: ProximalState,
        losses: Tensor,
        gradient: Tensor,
        lam: float,
    ) -> ProximalState:
        """Follow the plan of the relaxed start; at its end the trial is structured and becomes the iterate."""
        if not finite(losses, gradient):
            return self._propose(oracle, cost, replace(state, here=state.zero), lam)
        if state.phase == len(state.plan):
            objective = float(total(losses)) - lam * float(cost.value(state.trial))
            entered = replace(state, here=Point(state.trial, losses, gradient, objective), n_steps=1)
            return self._propose(oracle, cost, entered, lam)
        trial = next_trial(oracle, cost, state.plan, state.phase, state.trial, losses, gradient, lam)
        return replace(state, trial=trial, phase=state.phase + 1)

    def _propose(self, oracle: Oracle, cost: GroupCost, state: ProximalState, lam: float) -> ProximalState:
        """The next trial, one prox step from the iterate; an iterate that stays below S(0) gives way to Δ = 0."""
        here, zero, eta = state.here, state.zero, state.eta
        if here is None or zero is None:
            raise RuntimeError("a step is proposed only from a point that was evaluated")
        trial = cost.prox(here.delta + eta * here.gradient, eta * lam)
        step = trial - here.delta
        length, size = numbers(norm(step), norm(trial))
        arrived = length <= torch.finfo(trial.dtype).eps * size
        if here.objective < zero.objective and (arrived or oracle.n_gradients >= PATIENCE * state.n_inner):
            return self._propose(oracle, cost, replace(state, here=zero, eta=state.first_eta), lam)
        if isinstance(cost, Penalised):  # at a prox, c needs no singular values: see Penalised
            along, across = numbers(dot(here.gradient, trial), dot(step, trial))
            penalty = along - across / eta - lam * cost.ridge * size**2
        else:
            penalty = lam * float(cost.value(trial))
        return replace(state, trial=trial, penalty=penalty, residual=length, done=arrived)
