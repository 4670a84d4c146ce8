"""Algorithm 2 of the paper, corrected (docs/paper.md says what differs from the print and why)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor

from gsat import _checks
from gsat._arrays.norms import at_hand, norm
from gsat.costs import GroupCost, Penalised
from gsat.solvers.base import Answer, raise_if_stuck, read, ridge_of, start
from gsat.solvers.oracle import Oracle


@dataclass(frozen=True)
class ADMMState:
    """The variables of Algorithm 2: `split` is δ, `delta` is z, `dual` is u = γ/ρ; `curvature` estimates L."""

    split: Tensor
    delta: Tensor
    dual: Tensor
    curvature: float = 0.0
    before: tuple[ADMMState, Tensor] | None = None  # the state before, and the gradient there
    sizes: Tensor | None = None  # ‖δ‖, ‖δ − z‖ and the length of the last step of z, on the device
    n_steps: int = 0
    done: bool = False

    @property
    def residual(self) -> float:
        """‖δ − z‖_F."""
        return math.inf if self.sizes is None else float(self.sizes[1])

    @property
    def drift(self) -> float:
        """The length of the last step of z."""
        return math.inf if self.sizes is None else float(self.sizes[2])

    @property
    def answers(self) -> list[Answer]:
        """The structured variable z."""
        return [(self.delta, None)]


@dataclass(frozen=True)
class ADMM:
    """One ascent step on δ, a shrink for z, and a step of the scaled multiplier u.

    δ ← δ + η₁·[∇ℓ(δ) − 2λ·ridge·δ − ρ(δ − z − u)],  z ← shrink(δ − u, λα/ρ),  u ← u − (δ − z)

    eta1: a number, or "auto": 1/(L + 2λ·ridge + ρ) with L the largest curvature of the loss seen so far.
    A cost with `value` and `prox` alone is taken as g itself, with α = 1 and no quadratic term.
    """

    rho: float = 1.0
    eta1: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        _checks.number("rho", self.rho, above=0)
        if self.eta1 != "auto":
            _checks.number("eta1", self.eta1, above=0)

    def init(self, x: Tensor, n_inner: int) -> ADMMState:
        """δ = z = u = 0."""
        zero = torch.zeros_like(x)
        return ADMMState(zero, zero, zero)

    def step(self, oracle: Oracle, cost: GroupCost, state: ADMMState, *, lam: float) -> ADMMState:
        """One round of δ, z and u."""
        losses, gradient = oracle(state.split)
        if state.before is None:
            return self._round(cost, state, start(oracle, state.split, losses, gradient)[0].gradient, 0.0, lam)
        earlier, slope = state.before
        finite, (length, turn, size) = read(
            losses, gradient, norm(state.split - earlier.split), norm(gradient - slope), cast(Tensor, state.sizes)[0]
        )
        self._check(size, state.n_steps)
        if not finite:
            if self.eta1 != "auto":
                raise FloatingPointError(
                    f"loss or gradient is not finite at step {oracle.n_gradients - 1}: {self._advice}"
                )
            raise_if_stuck(length, oracle)
            curvature = 10 * (state.curvature + 2 * lam * ridge_of(cost) + self.rho)
            return self._round(cost, earlier, slope, curvature, lam)
        measured = turn / length if length > 0 else 0.0
        return self._round(cost, state, gradient, max(state.curvature, measured), lam)

    def finish(self, oracle: Oracle, cost: GroupCost, state: ADMMState, *, lam: float) -> ADMMState:
        """The state, which must be finite."""
        if state.sizes is not None:
            self._check(float(state.sizes[0]), state.n_steps)
        return state

    def _check(self, size: float, n_steps: int) -> None:
        if not math.isfinite(size):
            raise FloatingPointError(f"δ is not finite at step {n_steps}: {self._advice}")

    @property
    def _advice(self) -> str:
        return f'eta1 = {self.eta1} is too large, take a smaller one or "auto"'

    def _round(self, cost: GroupCost, state: ADMMState, gradient: Tensor, curvature: float, lam: float) -> ADMMState:
        ridge = ridge_of(cost)
        eta = 1 / (curvature + 2 * lam * ridge + self.rho) if self.eta1 == "auto" else float(self.eta1)
        pull = state.split - state.delta - state.dual
        split = state.split + eta * (gradient - 2 * lam * ridge * state.split - self.rho * pull)
        size, n_steps = norm(split), state.n_steps + 1
        if at_hand(size):
            self._check(float(size), n_steps)
        try:
            if isinstance(cost, Penalised):
                delta = cost.shrink(split - state.dual, lam * cost.alpha / self.rho)
            else:
                delta = cost.prox(split - state.dual, lam / self.rho)
        except (ValueError, RuntimeError):
            self._check(float(size), n_steps)  # a decomposition fails where it was not read that δ is not finite
            raise
        gap = split - delta
        return ADMMState(
            split,
            delta,
            dual=state.dual - gap,
            curvature=curvature,
            before=(replace(state, before=None), gradient),
            sizes=torch.stack([size, norm(gap), norm(delta - state.delta)]),
            n_steps=n_steps,
        )
