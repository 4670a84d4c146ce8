"""Proximal gradient ascent with a step that finds its own length, and a start that sees through flat losses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from gsat import _checks
from gsat._arrays.norms import at_hand, dot, flat, norm, numbers, pieces, total, zero_like
from gsat._arrays.subspace import Subspace
from gsat.costs import GroupCost, Penalised
from gsat.solvers.base import Answer, Point, raise_if_stuck, read, ridge_of, start
from gsat.solvers.oracle import Oracle
from gsat.solvers.starts import Schedule, first_trial, next_trial, schedule

REACH = 10.0  # the first step is this many times 1/(λ·ridge): within 5 % of the linearised maximum
GROWTH = 4.0
LONGEST = 1e5  # in first steps; a longer one changes nothing and may overflow
N_PRODUCTS = 5  # numbers of a step: see `_products`
PATIENCE = 0.75  # the share of n_inner after which an iterate below S(0) is given up


class ProximalState(NamedTuple):
    """`here` is the iterate (None: not yet structured), `trial` the next point to evaluate, `zero` is Δ = 0.

    A trial is made when it is to be evaluated (None: not yet), so that no more arrays are held than needed; `products`
    are the numbers of the step to it (`_products`), which are read together with those of its evaluation.
    """

    trial: Tensor | None
    n_inner: int
    plan: Schedule = ()  # of the relaxed start
    phase: int = 0  # of the plan
    eta: float = 0.0
    first_eta: float = 0.0
    products: Tensor | None = None
    zero: Point | None = None
    here: Point | None = None
    gain: float = 0.0  # the first: S less S(0) at the first iterate above it
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
    tol: float = 0.0  # the ascent ends with a step that raises S by less than this share of the first gain

    def __post_init__(self) -> None:
        _checks.count("relax", self.relax)
        _checks.number("tol", self.tol, least=0, below=1)
        _checks.number("sufficient", self.sufficient, least=0, most=1)

    def init(self, x: Tensor, n_inner: int) -> ProximalState:
        """Δ = 0 is evaluated first."""
        return ProximalState(zero_like(x), n_inner)

    def step(self, oracle: Oracle, cost: GroupCost, state: ProximalState, *, lam: float) -> ProximalState:
        """Propose a trial, evaluate it, and accept or reject it."""
        state = self._propose(oracle, cost, state, lam) if state.trial is None else state
        trial, here, zero, eta = cast(Tensor, state.trial), state.here, state.zero, state.eta
        step = None
        if state.products is not None and at_hand(state.products):  # the end is seen before a gradient is spent
            step = _told(cost, state.products.tolist(), eta, lam)
            if step is not None and step.arrives(trial):
                return self._arrive(state, step)
        losses, gradient = oracle(trial)
        if zero is None:
            return self._leave_zero(oracle, cost, state, losses, gradient, lam)
        if here is None:
            return self._phase_in(oracle, cost, state, trial, losses, gradient, lam)
        bends = [
            dot(slope - new, at - delta) for slope, new, at, delta in pieces(here.gradient, gradient, trial, here.delta)
        ]
        left = [cast(Tensor, state.products)] if step is None else []
        loss, *others = numbers(total(losses), *bends, *left)
        turn = sum(others[: len(bends)])
        step = _told(cost, others[len(bends) :], eta, lam) if step is None else step
        if step is None:
            return state._replace(trial=None, products=None)
        if step.arrives(trial):
            return self._arrive(state, step)
        if not (math.isfinite(loss) and math.isfinite(turn)):
            raise_if_stuck(step.length, oracle)
            return state._replace(trial=None, products=None, residual=step.length, eta=eta / 10)
        state = state._replace(trial=None, products=None, residual=step.length)
        objective, square = loss - step.penalty, step.length**2
        slack = 16 * torch.finfo(losses.dtype).eps * (abs(loss) + abs(step.penalty))
        enough = here.objective + self.sufficient * square / (2 * eta) - slack
        if objective < (max(enough, zero.objective) if state.gain > 0 else enough):
            curvature = 2 * (here.loss + step.slope - loss) / square
            shorter = min(1 / curvature, eta / 2) if curvature > 0 else eta / 2
            return state._replace(eta=max(shorter, eta / 1000))
        longer = min(GROWTH * eta, LONGEST * state.first_eta)
        return state._replace(
            here=Point(trial, losses, gradient, objective, loss),
            eta=min(square / turn, longer) if turn > 0 else longer,
            n_steps=state.n_steps + 1,
            gain=state.gain or max(0.0, objective - zero.objective),
            done=self.tol > 0 and state.gain > 0 and objective - here.objective < self.tol * state.gain,
        )

    def probe(self, oracle: Oracle, cost: GroupCost, state: ProximalState, *, lam: float) -> ProximalState:
        """The state with a trial, whose distance is the residual."""
        if state.trial is not None:
            return state
        step = None
        while step is None:
            state = self._propose(oracle, cost, state, lam)
            step = _told(cost, numbers(cast(Tensor, state.products)), state.eta, lam)
        products = cast(Tensor, state.products)[:N_PRODUCTS]  # a report was read with them, and is read once
        return state._replace(products=products, residual=step.length, done=step.arrives(oracle.x))

    def _arrive(self, state: ProximalState, step: _Step) -> ProximalState:
        """Nothing moves any more: that is the end, or where S is below S(0), a new start at Δ = 0."""
        here, zero = cast(Point, state.here), cast(Point, state.zero)
        state = state._replace(trial=None, products=None, residual=step.length)
        if here.objective < zero.objective:
            return state._replace(here=zero, eta=state.first_eta)
        return state._replace(done=True)

    def _leave_zero(
        self, oracle: Oracle, cost: GroupCost, state: ProximalState, losses: Tensor, gradient: Tensor, lam: float
    ) -> ProximalState:
        """The relaxed start where the quadratic term gives it a scale, else a step of the size of the data."""
        ridge = ridge_of(cost)
        zero, (size,) = start(oracle, cast(Tensor, state.trial), losses, gradient, norm(gradient))
        eta = REACH / (lam * ridge) if ridge > 0 else (oracle.size or 1.0) / (size or 1.0)
        plan = schedule(cost, len(oracle.x), state.n_inner, self.relax) if ridge > 0 and size > 0 else ()
        state = state._replace(zero=zero, eta=eta, first_eta=eta, plan=plan)
        if plan:
            return state._replace(trial=first_trial(cost, zero.gradient, lam))
        return state._replace(trial=None, here=zero)

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
        zero = cast(Point, state.zero)
        if state.phase == len(state.plan):
            here, _ = Point.of(cost, lam, trial, losses, gradient)
            if here is None:
                return state._replace(trial=None, here=zero)
            return state._replace(trial=None, here=here, gain=max(0.0, here.objective - zero.objective), n_steps=1)
        if not read(losses, gradient)[0]:
            return state._replace(trial=None, here=zero)
        trial = next_trial(oracle, cost, state.plan, state.phase, trial, losses, gradient, lam)
        return state._replace(trial=trial, phase=state.phase + 1)

    def _propose(self, oracle: Oracle, cost: GroupCost, state: ProximalState, lam: float) -> ProximalState:
        """The next trial, one prox step from the iterate; an iterate that stays below S(0) gives way to Δ = 0."""
        here, zero = state.here, state.zero
        if here is None or zero is None:
            raise RuntimeError("a step is proposed only from a point that was evaluated")
        if here.objective < zero.objective:
            if oracle.n_gradients >= PATIENCE * state.n_inner:
                here, state = zero, state._replace(here=zero, eta=state.first_eta)
        elif state.gain > 0 and zero.gradient is not zero.losses:
            # S stays above S(0) from here on, and the gradient there is as large as the group
            state = state._replace(zero=replace(zero, gradient=zero.losses))
        memory = cost.memory if isinstance(cost, Penalised) else None
        if memory is not None:
            memory.presume = True  # `_told` looks at the report
        trial = cost.prox(torch.add(here.delta, here.gradient, alpha=state.eta), state.eta * lam)
        products = _products(cost, trial, here)
        if memory is not None:
            memory.presume = False
            products = products if memory.report is None else torch.cat([products, memory.report.to(products)])
        return state._replace(trial=trial, products=products)


class _Step(NamedTuple):
    """A step from the iterate to a trial: ‖step‖, ‖trial‖, ⟨gradient, step⟩, and λ·c(trial)."""

    length: float
    reach: float
    slope: float
    penalty: float

    @classmethod
    def of(cls, cost: GroupCost, products: list[float], eta: float, lam: float) -> _Step:
        """From the numbers of `_products`, read."""
        square, size, slope, along, across = products
        penalty = lam * along
        if isinstance(cost, Penalised):  # at a prox, c needs no singular values: see Penalised
            penalty = along - across / eta - lam * cost.ridge * size
        return cls(square**0.5, size**0.5, slope, penalty)

    def arrives(self, trial: Tensor) -> bool:
        """Whether it is no longer than rounding."""
        return self.length <= torch.finfo(trial.dtype).eps * self.reach < math.inf


def _told(cost: GroupCost, products: list[float], eta: float, lam: float) -> _Step | None:
    """The step, by what was read of it; None where the trial was found on trust and does not hold."""
    if len(products) > N_PRODUCTS and not cast(Subspace, cast(Penalised, cost).memory).learn(products[N_PRODUCTS:]):
        return None
    return _Step.of(cost, products[:N_PRODUCTS], eta, lam)


def _products(cost: GroupCost, trial: Tensor, here: Point) -> Tensor:
    """‖step‖², ‖trial‖², ⟨gradient, step⟩, ⟨gradient, trial⟩ and ⟨step, trial⟩ of the step from here, on the device.

    A cost with `value` and `prox` alone has c(trial) and 0 for the last two.
    """
    found = []
    for piece in pieces(trial, here.delta, here.gradient):
        at, delta, slope = (flat(part) for part in piece)
        step = at - delta
        pairs = (step, step), (at, at), (slope, step), (slope, at), (step, at)
        found.append(torch.stack([torch.dot(a, b) for a, b in pairs]))
    products = found[0].double() if len(found) == 1 else torch.stack(found).sum(0, dtype=torch.float64)
    if isinstance(cost, Penalised):
        return products
    value = cost.value(trial).to(products)
    return torch.cat([products[:3], torch.stack([value, torch.zeros_like(value)])])
