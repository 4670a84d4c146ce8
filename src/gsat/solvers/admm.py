"""Algorithm 2 of the paper, corrected (docs/paper.md says what differs from the print and why)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from gsat import _checks
from gsat._arrays.norms import finite, norm
from gsat.costs import Penalised
from gsat.solvers.base import Ending, raise_if_stuck, start
from gsat.solvers.oracle import Oracle


@dataclass(frozen=True)
class ADMMState:
    """The variables of Algorithm 2: `split` is δ, `delta` is z, `dual` is u = γ/ρ; `curvature` estimates L.

    `before` is the state that this one was made from, with the gradient there: where the loss is not finite at `split`,
    the round is made again with a shorter step.
    """

    split: Tensor
    delta: Tensor
    dual: Tensor
    curvature: float = 0.0
    before: tuple[ADMMState, Tensor] | None = None
    n_steps: int = 0
    done: bool = False


@dataclass(frozen=True)
class ADMM:
    """One ascent step on δ, a shrink for z, and a step of the scaled multiplier u.

    δ ← δ + η₁·[∇ℓ(δ) − 2λ·ridge·δ − ρ(δ − z − u)],  z ← shrink(δ − u, λα/ρ),  u ← u − (δ − z)

    Parameters
    ----------
    rho : float
        The penalty ρ of the split.
    eta1 : float or "auto"
        The ascent step; "auto" is 1/(L + 2λ·ridge + ρ) with L the largest curvature of the loss seen so far.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> x, solver = torch.zeros(5, 4), gsat.ADMM(rho=2.0)
    >>> found = gsat.maximise(lambda z: z.sum(1), x, gsat.LowRank(), lam=1.0, solver=solver)
    >>> found.delta.shape
    torch.Size([5, 4])
    """

    axis_free: ClassVar[bool] = True
    by_columns: ClassVar[bool] = False

    rho: float = 1.0
    eta1: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        _checks.number("rho", self.rho, above=0)
        if self.eta1 != "auto":
            _checks.number("eta1", self.eta1, above=0)

    def init(self, oracle: Oracle, cost: Penalised, *, lam: float) -> ADMMState:
        """The first round, from δ = z = u = 0."""
        zero = torch.zeros_like(oracle.x)
        return self._round(cost, ADMMState(zero, zero, zero), start(oracle).gradient, 0.0, lam)

    def step(self, oracle: Oracle, cost: Penalised, state: ADMMState, *, lam: float) -> ADMMState:
        """One round of δ, z and u."""
        losses, gradient = oracle(state.split)
        earlier, slope = state.before if state.before is not None else (state, gradient)
        length = float(norm(state.split - earlier.split))
        if not finite(losses, gradient):
            if self.eta1 != "auto":
                raise FloatingPointError(
                    f"loss or gradient is not finite at step {oracle.n_gradients - 1}: {self._advice}"
                )
            raise_if_stuck(length, oracle)
            curvature = 10 * (state.curvature + 2 * lam * cost.ridge + self.rho)
            return self._round(cost, earlier, slope, curvature, lam)
        measured = float(norm(gradient - slope)) / length if length > 0 else 0.0
        return self._round(cost, state, gradient, max(state.curvature, measured), lam)

    def finish(self, cost: Penalised, state: ADMMState, *, lam: float) -> Ending:
        """The structured variable z, and how far δ is from it."""
        earlier = state if state.before is None else state.before[0]
        return Ending(
            [(state.delta, None)],
            residual=float(norm(state.split - state.delta)),
            travel=float(norm(state.delta - earlier.delta)),
        )

    @property
    def _advice(self) -> str:
        return f'eta1 = {self.eta1} is too large, take a smaller one or "auto"'

    def _round(self, cost: Penalised, state: ADMMState, gradient: Tensor, curvature: float, lam: float) -> ADMMState:
        eta = 1 / (curvature + 2 * lam * cost.ridge + self.rho) if self.eta1 == "auto" else float(self.eta1)
        pull = state.split - state.delta - state.dual
        split = state.split + eta * (gradient - 2 * lam * cost.ridge * state.split - self.rho * pull)
        n_steps = state.n_steps + 1
        if not math.isfinite(float(norm(split))):
            raise FloatingPointError(f"δ is not finite at step {n_steps}: {self._advice}")
        delta = cost.shrink(split - state.dual, lam * cost.alpha / self.rho)
        return ADMMState(
            split,
            delta,
            dual=state.dual - (split - delta),
            curvature=curvature,
            before=(replace(state, before=None), gradient),
            n_steps=n_steps,
        )
