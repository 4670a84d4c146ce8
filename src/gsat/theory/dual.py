"""The two halves of a bound by weak duality: inner maxima from above, and the price λ that makes the bound smallest.

Every law Q with W(P, Q) ≤ r has E_Q[ℓ] ≤ λr + E[max_Δ S(Δ)/m], whatever λ: S(Δ) = Σ_i ℓ(x_i + δ_i) − λ·c(Δ) for the
groups x of P^m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gsat._arrays.norms import norm, rows, total
from gsat.costs import Penalised
from gsat.solvers.oracle import Oracle

REACH = 100.0  # the steps are this many times 1/(λ·ridge), nearly those of the linearised iteration
CLOSE = 1e-10  # the gap at which the ascent ends, in units of the loss
EXPANSION = 4.0


@dataclass(frozen=True, eq=False)
class Maximum:
    """Where an ascent ended: Δ, the losses (m,) there, and a super-gradient s of S, (m, *features)."""

    delta: Tensor
    losses: Tensor
    slope: Tensor

    def gap(self, modulus: float) -> float:
        """How far S(Δ) can be below its maximum, at the most: ‖s‖²_F/(2·modulus)."""
        return float(norm(self.slope).square()) / (2 * modulus)

    def gaps(self, modulus: float) -> Tensor:
        """The same for each sample (m,), for a cost that does not tie the samples to each other."""
        return norm(rows(self.slope), dim=1).square() / (2 * modulus)


def concave_maximum(oracle: Oracle, cost: Penalised, *, lam: float, modulus: float, n_inner: int) -> Maximum:
    """The maximum of S(Δ) = Σ_i ℓ(x_i + δ_i) − λ·c(Δ), strongly concave with `modulus` = 2λ·ridge − β > 0.

    Steps Δ⁺ = prox(Δ + η∇ℓ(Δ), ηλ). By the rule for a minimum ∇ℓ(Δ) + (Δ − Δ⁺)/η is a sub-gradient of λ·c at Δ⁺, so

        s = ∇ℓ(Δ⁺) − ∇ℓ(Δ) + (Δ⁺ − Δ)/η   is a super-gradient of S at Δ⁺, and   max S ≤ S(Δ⁺) + ‖s‖²_F/(2·modulus)

    The steps contract by (1 + ηβ)/(1 + 2ηλ·ridge) < 1; they end where the gap is negligible, or after n_inner gradients
    (at least two).
    """
    eta = REACH / (lam * cost.ridge)
    here = torch.zeros_like(oracle.x)
    _, gradient = oracle(here)
    while True:
        there = cost.prox(here + eta * gradient, eta * lam)
        losses, after = oracle(there)
        found = Maximum(there, losses, after - gradient + (there - here) / eta)
        if found.gap(modulus) <= CLOSE * abs(float(total(losses))) or oracle.n_gradients >= n_inner:
            return found
        here, gradient = there, after


def best_lam(dual: Callable[[float], tuple[float, float]], radius: float, *, start: float, ratio: float) -> float:
    """The λ > 0 with the smallest λ·radius + E[max S/m], to a factor `ratio`.

    `dual(lam)` is the expectation and minus its derivative, the mean of c(Δ)/m at the maxima. The bound is convex in λ
    and smallest where the mean cost is the radius: bisection of log λ, beginning at `start`.
    """
    low = high = start
    while dual(high)[1] > radius:
        low, high = high, high * EXPANSION
    while dual(low)[1] <= radius:
        if low * radius <= 1e-12 * abs(dual(low)[0]):  # the loss is bounded, and there is nothing more to be had
            return low
        low, high = low / EXPANSION, low
    while high > ratio * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if dual(middle)[1] > radius else (low, middle)
    return min(low, high, key=lambda lam: lam * radius + dual(lam)[0])
