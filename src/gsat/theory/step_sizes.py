"""Theorem 3: the step sizes under which training converges, and how far a model is from where it would stop."""

from __future__ import annotations

import math
import warnings
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gsat import _checks
from gsat._arrays.chunks import take, take_labels
from gsat._arrays.norms import norm, total
from gsat.costs import GroupCost, PerBatch, bound, penalised
from gsat.losses import SampleLoss, per_sample_cross_entropy
from gsat.models.modes import frozen
from gsat.solvers import maximise
from gsat.solvers.oracle import Loss, Oracle
from gsat.theory.dual import REACH

EXACT = 1e-6  # the length of the next step, in units of Δ, from which on the maximum is not counted as found


@dataclass(frozen=True)
class Schedule:
    """The step sizes of Theorem 3 and what they are made of.

    Attributes
    ----------
    eta0
        Of the weights, 1/(16(κ+1)²ℓ̃).
    eta1
        Of δ in ADMM, 1/ℓ̃ on the sum over the group.
    ell
        ℓ̃ = β + 2λ(1−α) + ρ, how fast the gradients of the augmented problem turn.
    mu
        2λ(1−α) − β, how concave it is in δ.
    kappa
        ℓ̃/mu, its condition number.
    beta, rho
        β and ρ, as they were given.

    Examples
    --------
    >>> import gsat
    >>> steps = gsat.schedule(beta=1.0, lam=4.0, alpha=0.5)
    >>> steps.ell, steps.mu, steps.kappa
    (6.0, 3.0, 2.0)
    >>> steps.smoothness  # 1 + 1/3
    1.3333333333333333
    """

    eta0: float
    eta1: float
    ell: float
    mu: float
    kappa: float
    beta: float = math.nan
    rho: float = math.nan

    @property
    def reach(self) -> float:
        """β/mu: how fast the maximiser Δ*(w)/√m moves with the weights at most, the first part of Lemma 2."""
        return self.beta / self.mu

    @property
    def smoothness(self) -> float:
        """β + β²/mu: how fast the gradient of F(w) turns at most, the second part of Lemma 2.

        β is that of the loss alone: the quadratic term of the cost depends on δ, not on w.
        """
        return self.beta * (1 + self.reach)

    def iterations(self, eps: float, *, gap: float, distance: float = 0.0) -> float:
        """Theorem 3's bound of the iterations after which the mean of ‖∇F(w_t)‖² is at most eps².

        N = (128κ²ℓ̃·gap + 5κℓ̃²·distance²)·(1 + a·√(3 + ρ/a))²/eps² ,   a = λ(1−α)

        The first factor has the constants of Theorem C.1 of Lin, Jin and Jordan (2020), which the paper's proof calls
        on, the second one is that of the proof's last step, from the augmented problem to F. The paper gives the order
        (β+ρ)²(1 + ρa + a²)/eps² alone, without `gap`, which it counts as a constant.

        Parameters
        ----------
        eps
            The wanted ‖∇F(w)‖, above 0.
        gap
            F(w_0) − min F, or a bound of it: F(w_0) for a loss that is at least 0.
        distance
            ‖Δ_0 − Δ*(w_0)‖_F/√m at the beginning.

        Returns
        -------
        float
            N, not rounded.

        Examples
        --------
        >>> import gsat
        >>> steps = gsat.schedule(beta=1.0, lam=4.0, alpha=0.5)
        >>> steps.iterations(0.1, gap=1.0) / steps.iterations(0.2, gap=1.0)
        4.0
        """
        eps = _checks.number("eps", eps, above=0)
        gap, distance = _checks.number("gap", gap, least=0), _checks.number("distance", distance, least=0)
        a = (self.ell - self.beta - self.rho) / 2
        first = 128 * self.kappa**2 * self.ell * gap + 5 * self.kappa * self.ell**2 * distance**2
        return first * (1 + a * math.sqrt(3 + self.rho / a)) ** 2 / eps**2


def schedule(beta: float, lam: float, alpha: float, rho: float = 1.0) -> Schedule:
    """The step sizes of Theorem 3 for a loss that is β-smooth in weights and samples, where β ≤ λ(1−α).

    The paper's η₁ = O(1/β) does not count the terms 2λ(1−α) and ρ and is too long (docs/paper.md).

    Parameters
    ----------
    beta
        β, the smoothness of the loss, above 0.
    lam, alpha
        The price λ of the cost, and the weight α of its structure, 0 <= α < 1.
    rho
        The penalty parameter of ADMM, above 0.

    Returns
    -------
    Schedule
        η₀, η₁ and what they are made of, and the bounds that Lemma 2 and Theorem 3 give for them.

    Examples
    --------
    >>> import gsat
    >>> steps = gsat.schedule(beta=1.0, lam=4.0, alpha=0.5)
    >>> steps.eta1 == 1 / steps.ell
    True
    """
    beta, lam = _checks.number("beta", beta, above=0), _checks.number("lam", lam, above=0)
    alpha, rho = _checks.number("alpha", alpha, least=0, below=1), _checks.number("rho", rho, above=0)
    if beta > lam * (1 - alpha):
        raise ValueError(
            f"beta must be <= lam·(1 − alpha) = {lam * (1 - alpha):g}, got {beta:g}; take lam >= {beta / (1 - alpha):g}"
        )
    ell, mu = beta + 2 * lam * (1 - alpha) + rho, 2 * lam * (1 - alpha) - beta
    kappa = ell / mu
    return Schedule(1 / (16 * (kappa + 1) ** 2 * ell), 1 / ell, ell, mu, kappa, beta, rho)


def stationarity(
    model: nn.Module,
    X: Any,
    y: Any,
    cost: GroupCost | PerBatch,
    lam: float,
    *,
    loss: SampleLoss | None = None,
    n_inner: int = 1000,
    feature_mask: Any = None,
    batch: Any = None,
) -> float:
    """‖∇F(w)‖₂ at the model's weights w, F(w) = max_Δ (1/m)[Σ_i ℓ(f_w(x_i + δ_i), y_i) − λ·c(Δ)] for one group X, y.

    By Danskin's theorem ∇F(w) is the gradient of the mean loss in w at the maximiser Δ, which is found in float64 with
    at most 2·n_inner gradients; a warning says where that was not enough. The gradient is taken in all weights that
    require one. Model and gradients are left as they are.

    Parameters
    ----------
    model
        A torch module.
    X, y
        The group: samples (m, *features) as the model sees them, and labels (m,).
    cost, lam
        The cost c, and its price λ, above 0.
    loss
        (outputs, y) -> (m,); None for the cross-entropy.
    n_inner
        Half of the gradients, at the most.
    feature_mask
        Boolean (*features), True where samples may move; None for everywhere.
    batch
        One id per sample, for a `PerBatch` cost.

    Returns
    -------
    float
        ‖∇F(w)‖₂.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> table = gsat.data.make_batches(40, 5)
    >>> model = gsat.models.ELUNet(5, 3, hidden=0)
    >>> gsat.stationarity(model, table.X.astype("float32"), table.codes, gsat.LowRank(), lam=5.0) > 0
    True
    """
    lam, sample_loss = _checks.number("lam", lam, above=0), per_sample_cross_entropy if loss is None else loss
    exact = deepcopy(model).double().eval()
    weights = [weight for weight in exact.parameters() if weight.requires_grad]
    if not weights:
        raise ValueError("model must have weights that require a gradient, got none")
    if len(X) == 0 or len(y) != len(X):
        raise ValueError(f"y must have one label per sample of X ({len(X)}, at least 1), got {len(y)}")
    everybody = torch.arange(len(X))
    x, labels = take(X, everybody).to(weights[0]), take_labels(y, everybody).to(weights[0].device)
    group_cost = bound(cost, len(x), batch)
    mask = _checks.feature_mask(feature_mask, x)
    with frozen(exact):
        delta = _maximiser(lambda z: sample_loss(exact(z), labels), x, group_cost, lam, n_inner, mask)
    with torch.enable_grad():
        mean = sample_loss(exact(x + delta), labels).mean()
        slopes = torch.autograd.grad(mean, weights, allow_unused=True, materialize_grads=True)
    return float(norm(torch.cat([slope.reshape(-1) for slope in slopes])))


def _maximiser(loss: Loss, x: Tensor, cost: GroupCost, lam: float, n_inner: int, mask: Tensor | None) -> Tensor:
    """argmax_Δ S(Δ): what the proximal solver finds, then prox steps of one length as long as they shrink.

    The solver compares values of S, which tells points apart to the root of the rounding error only.
    """
    found = maximise(loss, x, cost, lam=lam, n_inner=n_inner, feature_mask=mask)
    ridge, oracle, here, last = penalised(cost).ridge, Oracle(loss, x, mask), found.delta, math.inf
    for _ in range(n_inner if ridge > 0 else 0):
        eta = REACH / (lam * ridge)
        there = cost.prox(here + eta * oracle(here)[1], eta * lam)
        step, size = float(norm(there - here)), float(norm(there))
        if not step < last * (size or 1.0):  # at rounding error, or S is not concave here
            break
        here, last = there, step / (size or 1.0)
    value = float(total(oracle.losses(here))) - lam * float(cost.value(here))
    if last <= EXACT and value >= len(x) * found.objective - EXACT * abs(value):
        return here
    if found.residual > EXACT * float(norm(found.delta)):
        warnings.warn(
            f"the inner maximum was not found to high accuracy: at n_inner = {n_inner} the next step has length "
            f"{found.residual:.3g}, and ‖Δ‖ is {float(norm(found.delta)):.3g}; take a larger n_inner or lam",
            RuntimeWarning,
            stacklevel=3,
        )
    return found.delta
