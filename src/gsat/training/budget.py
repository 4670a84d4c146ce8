"""The price λ of the inner problem: fixed, or following a budget while the model trains."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from statistics import fmean
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from gsat import _checks
from gsat._arrays.norms import mean, mean_norm, norm, rows
from gsat.defences import GSAT, Defence
from gsat.defences.budgets import budget_used, by_class
from gsat.losses import named_loss
from gsat.metric import fitting
from gsat.models import layout
from gsat.models.modes import frozen
from gsat.training.history import Step

LAST = 0.1  # the share of the steps over which λ and the norms are averaged
KAPPA = 0.2  # weight of a new group in the price of a class, at first: large finds λ, small keeps it
SETTLING = 100  # steps after which it is half of that
TURNOVER = 4.0  # least sum of these weights over the last tenth, within which the norms then meet the target
LEAST_KAPPA = 0.02
EVEN = 0.75  # a class with that share of the samples of the largest, or more, counts as large as it
STEER = 1.5  # the most by which λ leaves the mean of the prices so that the last tenth meets the target


@dataclass
class Control:
    """λ and how it follows the budget: each class has a price, and λ is their mean.

    A class c with n_c samples, n those of the largest, has the target t_c = target·n_c/n: what moves a rare class as
    far as the others hides it from the model. From n_c = 3n/4 on, t_c = target, so that classes which are equal but
    for chance have one target. λ_c, the price at which its mean ‖δ_i‖ is t_c, is a running mean of
    λ·mean‖δ_i‖/t_c, since ‖δ_i‖ is about inverse to λ. It is linear in the norm: a strong structure is all or
    nothing for a single group, and a mean of logarithms would settle elsewhere. So with such classes, and for a
    regression, the mean ‖δ_i‖ over all samples meets the target. Over the last tenth, where the budget is counted, λ
    makes up for what its groups used too much or too little so far.
    """

    lam: float | None
    target: float | None = None
    n_outer: int = 1
    norm_sum: float = 0.0  # this and the next two are over the last tenth of the steps
    lam_sum: float = 0.0
    n: int = 0
    warned: bool = False
    prices: list[float] = field(default_factory=list)  # λ_c of class c; 0 before its first sample
    sizes: list[float] = field(default_factory=list)  # samples of class c so far
    late_sums: list[float] = field(default_factory=list)  # Σ‖δ_i‖ of class c over the last tenth, and its samples
    late_sizes: list[float] = field(default_factory=list)

    def price(self, defence: Defence, model: nn.Module, x: Tensor, y: Tensor) -> None:
        """Give the defence its λ, the target as the unit of its cost and those of the classes; others have no price.

        The first "auto" λ is target·mean‖∇ℓ_i‖: with a linear loss and without structure ‖δ_i‖ is then half the target.
        """
        if not priced(defence):
            return
        if self.lam is None and self.target is not None:
            self.lam = max(1e-12, self.target * _steepness(defence, model, x, y))
        self.give(defence)

    def give(self, defence: GSAT) -> None:
        """Set λ, the unit of the cost and the targets of the classes."""
        defence.scale, defence.targets = self.target, self.targets
        defence.lam = defence.lam if self.lam is None else self.lam

    def update(self, t: int, norms: Tensor, y: Tensor) -> None:
        """Record the norms ‖δ_i‖ (m,) of step t with the labels of their samples, and move λ."""
        late = t >= int((1 - LAST) * self.n_outer)
        if late:
            self.norm_sum, self.lam_sum = self.norm_sum + mean(norms.double()), self.lam_sum + (self.lam or 0.0)
            self.n += 1
        if self.lam is None or self.target is None:
            return
        sums, sizes = by_class(norms, y)
        self.sizes = _added(self.sizes, sizes)
        if late:
            self.late_sums, self.late_sizes = _added(self.late_sums, sums), _added(self.late_sizes, sizes)
        self.prices += [0.0] * (len(self.sizes) - len(self.prices))
        targets = self.targets
        for c, (total, size) in enumerate(zip(sums, sizes, strict=True)):
            if size:
                before = self.prices[c] or self.lam
                price = self.lam * total / size / targets[c]
                self.prices[c] = before + self._kappa(t) * (price - before)
        self.lam = fmean(price for price in self.prices if price) * self._steer()
        if not self.warned and not 1e-12 < self.lam < 1e12:
            self.warned = True
            warnings.warn(
                f"the budget, a mean norm of {self.target:.3g}, seems out of reach: it is {float(norms.mean()):.3g} at "
                f"lam = {self.lam:.3g}; take another budget or a larger n_inner",
                RuntimeWarning,
                stacklevel=4,
            )
        self.lam = min(max(self.lam, 1e-15), 1e15)

    @property
    def used(self) -> float | None:
        """The mean over classes of mean‖δ_i‖/t_c over the last tenth: 1 where the budget is met."""
        return budget_used(self.late_sums, self.late_sizes, self.targets)

    @property
    def targets(self) -> list[float]:
        """t_c for every class: target where n_c ≥ 3n/4, else target·n_c/n; 0 without a budget."""
        most = max(self.sizes, default=1.0)
        return [(self.target or 0.0) * (1.0 if size >= EVEN * most else size / most) for size in self.sizes]

    def _kappa(self, t: int) -> float:
        """The weight of the group of step t."""
        least = min(max(TURNOVER / (LAST * self.n_outer), LEAST_KAPPA), KAPPA)
        return max(KAPPA / (1 + t / SETTLING), least)

    def _steer(self) -> float:
        """By how much a group of what is left of the last tenth must use less, so that all of it uses 1; else 1."""
        steps = self.n_outer - int((1 - LAST) * self.n_outer)
        if self.used is None or self.n >= steps:
            return 1.0
        left = steps - self.n * self.used  # of the budget
        return min(max((steps - self.n) / left, 1 / STEER), STEER) if left > 0 else STEER

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


def _added(totals: list[float], more: list[float]) -> list[float]:
    """Their sum, class by class; either may know fewer classes than the other."""
    return [a + b for a, b in zip_longest(totals, more, fillvalue=0.0)]


def _steepness(defence: GSAT, model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The mean ‖∇ℓ_i‖₂ over the group, in δ or in the metric's z, for the loss of the adversary."""
    with frozen(model):
        point = x.detach().clone().requires_grad_()
        outputs = layout.outputs(model, point)
        losses = named_loss(defence.adversary.loss, lambda: outputs, y)(outputs, y)
        (slope,) = torch.autograd.grad(losses.sum(), point)
        metric = fitting(defence.adversary.metric, x)
        slope = slope if metric is None else metric.apply(slope)
    return mean(norm(rows(slope), dim=1))


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
    if not priced(defence):
        return Control(None, n_outer=n_outer)
    if lam == "auto":
        target = _checks.number("budget", budget, above=0) * mean_norm(X)
        if target == 0:
            raise ValueError('lam="auto" needs samples that are not all zero, got E‖X‖ = 0')
        if not math.isfinite(target):
            raise ValueError(f'lam="auto" needs finite samples, got E‖X‖ = {target / budget}')
        return Control(None, target, n_outer)
    if lam == "paper":
        return Control(0.25 * mean_norm(X), n_outer=n_outer)
    if isinstance(lam, str):
        raise ValueError(f'lam must be a number > 0, "auto" or "paper", got {lam!r}')
    return Control(_checks.number("lam", lam, above=0), n_outer=n_outer)
