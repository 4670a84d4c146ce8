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

    eta0:  of the weights, 1/(16(κ+1)²ℓ̃)
    eta1:  of δ in ADMM, 1/ℓ̃ on the sum over the group
    ell:   ℓ̃ = β + 2λ(1−α) + ρ, how fast the gradients of the augmented problem turn
    mu:    2λ(1−α) − β, how concave it is in δ; kappa: κ = ℓ̃/mu, its condition number

    Examples
    --------
    >>> import gsat
    >>> steps = gsat.schedule(beta=1.0, lam=4.0, alpha=0.5)
    >>> steps.ell, steps.mu, steps.kappa
    (6.0, 3.0, 2.0)
    """

    eta0: float
    eta1: float
    ell: float
    mu: float
    kappa: float


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
        η₀, η₁ and what they are made of.

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
    return Schedule(eta0=1 / (16 * (kappa + 1) ** 2 * ell), eta1=1 / ell, ell=ell, mu=mu, kappa=kappa)


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
