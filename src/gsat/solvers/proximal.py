"""Proximal gradient ascent with a step that finds its own length, from a start that sees through flat losses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from gsat import _checks
from gsat._arrays.chunks import pieces
from gsat._arrays.norms import norm, rows, wide
from gsat._ranks import sharing
from gsat.costs import Penalised
from gsat.solvers.base import Ending, Point, raise_if_stuck, start
from gsat.solvers.oracle import Oracle
from gsat.solvers.starts import relaxed

REACH = 10.0  # the first step is this many times 1/(λ·ridge): within 5 % of the linearised maximum
GROWTH = 4.0
LONGEST = 1e5  # in first steps; a longer one changes nothing and may overflow
PATIENCE = 0.75  # the share of n_inner after which an iterate below S(0) is given up


@dataclass(frozen=True)
class ProximalState:
    """The iterate, the length `eta` of the next step, and the `gain` S − S(0) of the first iterate above S(0)."""

    here: Point
    zero: Point | None  # Δ = 0, to go back to; None once S has passed S(0)
    eta: float
    longest: float  # that eta may become
    gain: float = 0.0
    n_steps: int = 0
    done: bool = False


@dataclass(frozen=True)
class Proximal:
    """Δ ← prox(Δ + η∇ℓ(Δ), ηλ): exactly structured in every step, and stable for every λ.

    η is the inverse of the curvature measured along the last step; a step that does not raise S is taken back, and η is
    cut by what the trial showed.

    Parameters
    ----------
    relax : int
        Gradients of the relaxed start (`gsat.solvers.starts` says how and why). Where S does not pass S(0) soon, the
        ascent starts again at Δ = 0. With 0 it starts there at once.
    sufficient : float
        The share of ‖step‖²/2η by which S must rise.
    tol : float
        The ascent ends with a step that raises S by less than this share of the first gain.
    residual : bool
        Whether `Solution.residual` is computed, which takes one more prox; it is NaN otherwise.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> x, solver = torch.zeros(5, 4), gsat.Proximal(tol=1e-3)
    >>> found = gsat.maximise(lambda z: z.sum(1), x, gsat.LowRank(), lam=1.0, solver=solver)
    >>> found.delta.shape
    torch.Size([5, 4])
    """

    axis_free: ClassVar[bool] = True
    by_columns: ClassVar[bool] = True

    relax: int = 4
    sufficient: float = 1e-3
    tol: float = 0.0
    residual: bool = True

    def __post_init__(self) -> None:
        _checks.count("relax", self.relax)
        _checks.number("tol", self.tol, least=0, below=1)
        _checks.number("sufficient", self.sufficient, least=0, most=1)

    def init(self, oracle: Oracle, cost: Penalised, *, lam: float) -> ProximalState:
        """Where the relaxed start leads, or Δ = 0; without a quadratic term the first step has the size of the data."""
        zero = self._zero(oracle)
        slope = float(norm(zero.gradient))
        eta = (oracle.size or 1.0) / (slope or 1.0)
        if cost.ridge > 0:
            eta = min(REACH / (lam * cost.ridge), oracle.reach / (slope or 1.0))
        state = ProximalState(zero, None, eta, LONGEST * eta)
        here = self._relaxed(oracle, cost, zero, lam) if cost.ridge > 0 and slope > 0 else None
        if here is None or not (here.is_finite and math.isfinite(here.objective)):
            return state
        gain = max(0.0, here.objective - zero.objective)
        return replace(state, here=here, zero=None if gain > 0 else zero, gain=gain, n_steps=1)

    def step(self, oracle: Oracle, cost: Penalised, state: ProximalState, *, lam: float) -> ProximalState:
        """Propose a trial, evaluate it, and accept or reject it."""
        here, eta, floor = state.here, state.eta, oracle.floor
        below = state.zero is not None and here.objective < floor
        ended = replace(state, done=True)
        if below:  # from Δ = 0, with the first step
            ended = replace(state, here=state.zero or here, zero=None, eta=state.longest / LONGEST, n_steps=0)
        if below and oracle.n_gradients >= PATIENCE * oracle.n_inner:
            return ended
        trial = self._propose(cost, state, lam)
        length = math.sqrt(trial.square)
        if length <= torch.finfo(here.image.dtype).eps * trial.size < math.inf:  # nothing moves any more
            return ended
        if trial.size > oracle.reach:
            return replace(state, eta=eta / 10) if oracle.is_near(here.image) else ended
        losses, gradient = self._evaluate(oracle, trial.image)
        turn = _turn(here, trial.image, gradient)  # ⟨∇ℓ(Δ) − ∇ℓ(U), U − Δ⟩
        there = Point.at(trial.delta, losses, gradient, trial.penalty, trial.image)
        if not (math.isfinite(there.loss) and math.isfinite(turn)):
            raise_if_stuck(length, oracle)
            return replace(state, eta=eta / 10)
        slack = 16 * torch.finfo(losses.dtype).eps * (abs(there.loss) + abs(trial.penalty))
        enough = here.objective + self.sufficient * trial.square / (2 * eta) - slack
        if there.objective < (max(enough, floor) if state.gain > 0 else enough):
            curvature = 2 * (here.loss + trial.rise - there.loss) / trial.square
            shorter = min(1 / curvature, eta / 2) if curvature > 0 else eta / 2
            return replace(state, eta=max(shorter, eta / 1000))
        longer = min(GROWTH * eta, state.longest)
        gain = state.gain or max(0.0, there.objective - floor)
        return replace(
            state,
            here=there,
            zero=None if gain > 0 else state.zero,
            eta=min(trial.square / turn, longer) if turn > 0 else longer,
            gain=gain,
            n_steps=state.n_steps + 1,
            done=self.tol > 0 and state.gain > 0 and there.objective - here.objective < self.tol * state.gain,
        )

    def finish(self, cost: Penalised, state: ProximalState, *, lam: float) -> Ending:
        """The iterate, and the length of the next step; before the first step, where that would lead."""
        here, moved = state.here, state.n_steps > 0 or state.done
        if moved and not self.residual and not cost.unbounded:
            return Ending([(self._features(cost, here.delta), here.losses)], math.nan, math.nan)
        delta, trial = (self._features(cost, v) for v in (here.delta, self._propose(cost, state, lam).delta))
        residual = float(norm(trial - delta))
        return Ending([(delta, here.losses) if moved else (trial, None)], residual, residual)

    def _zero(self, oracle: Oracle) -> Point:
        """The point Δ = 0."""
        return start(oracle)

    def _relaxed(self, oracle: Oracle, cost: Penalised, zero: Point, lam: float) -> Point | None:
        """The point where the relaxed start leads, if there is one."""
        return relaxed(oracle, cost, zero.gradient, lam=lam, relax=self.relax)

    def _propose(self, cost: Penalised, state: ProximalState, lam: float) -> Trial:
        """U = prox(Δ + η∇ℓ(Δ), ηλ); c(U) follows from inner products of U, Δ and ∇ℓ(Δ)."""
        here, eta = state.here, state.eta
        u = cost.prox(torch.add(here.delta, here.gradient, alpha=eta), eta * lam)
        sums = torch.zeros(5, dtype=torch.float64, device=u.device)
        for part, delta, slope in _parts(u, here.delta, here.gradient):  # no array is made for the products
            step = part - delta
            pairs = (step, step), (part, part), (slope, step), (slope, part), (step, part)
            sums += torch.stack([torch.dot(a, b) for a, b in pairs])
        square, length, rise, ahead, across = sharing().summed(sums).tolist()
        value = cost.value_at_prox(u, eta * lam, gap=eta * ahead - across, square=length)
        return Trial(u, u, square, math.sqrt(length), rise, lam * value)

    def _evaluate(self, oracle: Oracle, image: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and gradient there."""
        return oracle(image)

    def _features(self, cost: Penalised, delta: Tensor) -> Tensor:
        """The perturbation (m, *features) of an iterate."""
        return delta


class Trial(NamedTuple):
    """A step from Δ to U that is not evaluated yet; `image` is what the loss sees of U, as in `Point`."""

    delta: Tensor  # U
    image: Tensor
    square: float  # ‖U − Δ‖²
    size: float  # ‖U‖
    rise: float  # ⟨∇ℓ(Δ), U − Δ⟩
    penalty: float  # λ·c(U)


def _turn(here: Point, image: Tensor, gradient: Tensor) -> float:
    """⟨∇ℓ(Δ) − ∇ℓ(U), U − Δ⟩: how much the loss bends down along the step."""
    parts = _parts(image, here.image, here.gradient, gradient)
    own = torch.zeros((), dtype=torch.float64, device=image.device)
    for u, delta, slope, new in parts:
        own += torch.dot(slope - new, u - delta)
    (turn,) = sharing().sums(float(own))  # one number is read, however many parts there are
    return turn


def _parts(*groups: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Groups (m, *features) a few rows at a time, each as a vector; half precision as float32."""
    matrices = [rows(group) for group in groups]
    for part in pieces(*matrices[0].shape):
        yield tuple(matrix[part].reshape(-1).to(wide(matrix)) for matrix in matrices)
