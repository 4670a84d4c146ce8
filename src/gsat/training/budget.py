"""The price λ of the inner problem: fixed, or following a budget while the model trains."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from gsat import _checks
from gsat._arrays.norms import mean_norm, norm, rows
from gsat.defences import GSAT, Defence
from gsat.models import layout
from gsat.models.modes import frozen
from gsat.training.history import Step

LAST = 0.1  # the share of the steps over which λ and the mean norm are averaged
KAPPA, LEAST_KAPPA = 0.2, 0.02  # gain of the dual step of λ, at first and at last: large finds λ, small keeps it
MOST = 6.0  # of the ratio; a lower one would hide how large the perturbations of some groups are
SETTLING = 100  # steps after which the gain is half the first
MEMORY = 0.5  # of the running mean; a longer one lags behind and makes λ swing


@dataclass
class Control:
    """λ and its dual step: λ ← λ·exp(κ·(min(mean‖δ‖/target, 6) − 1)), so that the mean norm meets the target.

    mean‖δ‖ is a running mean over groups, and the step is linear in it: a strong structure is all or nothing for a
    single group, and a step that balances logarithms of such norms would settle at another mean.
    """

    lam: float | None
    target: float | None = None
    from_step: int = 0  # averages are taken from here on
    norm_sum: float = 0.0
    lam_sum: float = 0.0
    n: int = 0
    warned: bool = False
    recent: float | None = None  # the running mean of the norm

    def price(self, defence: Defence, model: nn.Module, x: Tensor, y: Tensor) -> None:
        """Give the defence its λ, and the target as the unit of its cost; the others have no price.

        The first "auto" λ is target·mean‖∇ℓ_i‖: with a linear loss and without structure ‖δ_i‖ is then half the target.
        """
        if not priced(defence):
            return
        if self.lam is None and self.target is not None:
            self.lam = max(1e-12, self.target * _steepness(defence, model, x, y))
        defence.scale = self.target
        defence.lam = defence.lam if self.lam is None else self.lam

    def update(self, t: int, mean: float) -> None:
        """Record the mean ‖δ_i‖ of step t, and move λ."""
        if t >= self.from_step:
            self.norm_sum, self.lam_sum, self.n = self.norm_sum + mean, self.lam_sum + (self.lam or 0.0), self.n + 1
        if self.lam is None or self.target is None:
            return
        self.recent = mean if self.recent is None else MEMORY * self.recent + (1 - MEMORY) * mean
        kappa = max(KAPPA / (1 + t / SETTLING), LEAST_KAPPA)
        self.lam *= math.exp(kappa * (min(self.recent / self.target, MOST) - 1))
        if not self.warned and not 1e-12 < self.lam < 1e12:
            self.warned = True
            warnings.warn(
                f"the budget, a mean norm of {self.target:.3g}, seems out of reach: it is {self.recent:.3g} at "
                f"lam = {self.lam:.3g}; take another budget or a larger n_inner",
                RuntimeWarning,
                stacklevel=4,
            )
        self.lam = min(max(self.lam, 1e-15), 1e15)

    def averages(self, steps: Sequence[Step]) -> tuple[float, float | None]:
        """The mean norm and the mean λ over the last tenth of n_outer, or of `steps` where the run ended before."""
        if self.n:
            return self.norm_sum / self.n, None if self.lam is None else self.lam_sum / self.n
        if not steps:
            return 0.0, None
        last = steps[-math.ceil(LAST * len(steps)) :]
        lam = None if self.lam is None else fmean(step.lam or 0.0 for step in last)
        return fmean(step.mean_norm for step in last), lam


def priced(defence: Defence) -> TypeGuard[GSAT]:
    """Whether the defence has a price λ, which training sets."""
    return isinstance(defence, GSAT)


def _steepness(defence: GSAT, model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The mean ‖∇_x ℓ_i‖₂ over the group, for the loss of the adversary."""
    with frozen(model):
        point = x.detach().clone().requires_grad_()
        losses = defence.adversary.loss(layout.outputs(model, point), y)
        (slope,) = torch.autograd.grad(losses.sum(), point)
    return float(norm(rows(slope), dim=1).mean())


def control_for(defence: Defence, X: Any, lam: Any, budget: float, n_outer: int) -> Control:
    """The rule for λ in a run of n_outer steps on X.

    Parameters
    ----------
    defence
        What perturbs the groups; only GSAT has a price.
    X
        The samples (n, *features), as the model sees them.
    lam
        A number, "paper" (0.25·E‖X‖₂), or "auto" (a mean ‖δ_i‖ of budget·E‖X‖₂).
    budget
        The wanted mean norm as a fraction of E‖X‖₂, for "auto".
    n_outer
        The number of steps, over whose last tenth λ and the norm are averaged.

    Returns
    -------
    Control
        With λ, or for "auto" with the target, from which the first step finds λ.
    """
    from_step = int((1 - LAST) * n_outer)
    if not priced(defence):
        return Control(None, from_step=from_step)
    if lam == "auto":
        target = _checks.number("budget", budget, above=0) * mean_norm(X)
        if target == 0:
            raise ValueError('lam="auto" needs samples that are not all zero, got E‖X‖ = 0')
        if not math.isfinite(target):
            raise ValueError(f'lam="auto" needs finite samples, got E‖X‖ = {target / budget}')
        return Control(None, target, from_step)
    if lam == "paper":
        return Control(0.25 * mean_norm(X), from_step=from_step)
    if isinstance(lam, str):
        raise ValueError(f'lam must be a number > 0, "auto" or "paper", got {lam!r}')
    return Control(_checks.number("lam", lam, above=0), from_step=from_step)
