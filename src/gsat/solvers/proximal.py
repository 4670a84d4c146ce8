"""Proximal gradient ascent with a step that finds its own length, and a start that sees through flat losses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gsat import _checks
from gsat._numeric import dot, norm, numbers, pieces, total, zero_like
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
    """`here` is the iterate (None: not yet structured), `trial` the next point to evaluate, `zero` is Δ = 0.

    A trial is made when it is to be evaluated (None: not yet), so that no more arrays are held than needed.
    """

    trial: Tensor | None
    n_inner: int
    plan: Schedule = ()  # of the relaxed start
    phase: int = 0  # of the plan
    eta: float = 0.0
    first_eta: float = 0.0
    penalty: float = 0.0  # λ·c(trial)
    slope: float = 0.0  # ⟨gradient at here, trial − here⟩
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
            return [] if self.trial is None else [(self.trial, None)]
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
        return ProximalState(zero_like(x), n_inner)

    def step(self, oracle: Oracle, cost: GroupCost, state: ProximalState, *, lam: float) -> ProximalState:
        """Propose a trial, evaluate it, and accept or reject it."""
        state = self.finish(oracle, cost, state, lam=lam)
        if state.done or state.trial is None:
            return state
        losses, gradient = oracle(state.trial)
        if state.zero is None:
            return self._leave_zero(oracle, cost, state, start(state.trial, losses, gradient), lam)
        if state.here is None:
            return self._phase_in(oracle, cost, state, state.trial, losses, gradient, lam)
        here, eta, square = state.here, state.eta, state.residual**2
        bends = [
            dot(slope - new, trial - delta)
            for slope, new, trial, delta in pieces(here.gradient, gradient, state.trial, here.delta)
        ]
        loss, before, turn = numbers(total(losses), total(here.losses), total(torch.stack(bends)))
        if not (math.isfinite(loss) and math.isfinite(turn)):
            raise_if_stuck(state.residual, oracle)
            return replace(state, trial=None, eta=eta / 10)
        objective = loss - state.penalty
        slack = 16 * torch.finfo(losses.dtype).eps * (abs(loss) + abs(state.penalty))
        if objective < here.objective + self.sufficient * square / (2 * eta) - slack:
            curvature = 2 * (before + state.slope - loss) / square
            shorter = min(1 / curvature, eta / 2) if curvature > 0 else eta / 2
            return replace(state, trial=None, eta=max(shorter, eta / 1000))
        longer = min(GROWTH * eta, LONGEST * state.first_eta)
        moved = replace(
            state,
            trial=None,
            here=Point(state.trial, losses, gradient, objective),
            eta=min(square / turn, longer) if turn > 0 else longer,
            n_steps=state.n_steps + 1,
        )
        enough = self.tol > 0 and objective - here.objective < self.tol * (objective - state.zero.objective)
        return replace(moved, done=True) if enough else moved

    def finish(self, oracle: Oracle, cost: GroupCost, state: ProximalState, *, lam: float) -> ProximalState:
        """The state with a trial, whose distance is the residual."""
        return state if state.trial is not None else self._propose(oracle, cost, state, lam)

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
        return replace(state, trial=None, here=zero)

    def _phase_in(
        self,
        oracle: Oracle,
        cost: GroupCost,
        state: ProximalState,
        trial: Tensor,
        losses: Tensor,
        gradient: Tensor,
        lam: float,
    ) -> ProximalState:
        """Follow the plan of the relaxed start; at its end the trial is structured and becomes the iterate."""
        if not finite(losses, gradient):
            return replace(state, trial=None, here=state.zero)
        if state.phase == len(state.plan):
            objective = float(total(losses)) - lam * float(cost.value(trial))
            return replace(state, trial=None, here=Point(trial, losses, gradient, objective), n_steps=1)
        trial = next_trial(oracle, cost, state.plan, state.phase, trial, losses, gradient, lam)
        return replace(state, trial=trial, phase=state.phase + 1)

    def _propose(self, oracle: Oracle, cost: GroupCost, state: ProximalState, lam: float) -> ProximalState:
        """The next trial, one prox step from the iterate; an iterate that stays below S(0) gives way to Δ = 0."""
        here, zero, eta = state.here, state.zero, state.eta
        if here is None or zero is None:
            raise RuntimeError("a step is proposed only from a point that was evaluated")
        trial = cost.prox(torch.add(here.delta, here.gradient, alpha=eta), eta * lam)
        products = [
            torch.stack([dot(step := at - delta, step), dot(at, at), dot(slope, at), dot(step, at), dot(slope, step)])
            for at, delta, slope in pieces(trial, here.delta, here.gradient)
        ]
        square, size, along, across, slope = torch.stack(products).sum(0, dtype=torch.float64).tolist()
        arrived = square**0.5 <= torch.finfo(trial.dtype).eps * size**0.5
        if here.objective < zero.objective:
            if arrived or oracle.n_gradients >= PATIENCE * state.n_inner:
                del trial, here
                return self._propose(oracle, cost, replace(state, here=zero, eta=state.first_eta), lam)
        elif here is not zero:  # S rises from here on, and the gradient at 0 is as large as the group
            state = replace(state, zero=replace(zero, gradient=zero.losses))
        if isinstance(cost, Penalised):  # at a prox, c needs no singular values: see Penalised
            penalty = along - across / eta - lam * cost.ridge * size
        else:
            penalty = lam * float(cost.value(trial))
        return replace(state, trial=trial, penalty=penalty, slope=slope, residual=square**0.5, done=arrived)
