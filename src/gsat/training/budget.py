"""The price λ of the inner problem: fixed, or following a budget while the model trains."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

from gsat import _checks
from gsat._arrays.norms import mean_norm
from gsat.defences import GSAT, Defence

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

    def update(self, t: int, norm: float) -> None:
        """Record one step and move λ."""
        if t >= self.from_step:
            self.norm_sum, self.lam_sum, self.n = self.norm_sum + norm, self.lam_sum + (self.lam or 0.0), self.n + 1
        if self.lam is None or self.target is None:
            return
        self.recent = norm if self.recent is None else MEMORY * self.recent + (1 - MEMORY) * norm
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


def control_for(defence: Defence, X: Any, lam: Any, budget: float, n_outer: int) -> Control:
    """The rule for λ: a number, "paper" (0.25·E‖X‖₂), or "auto" (a mean ‖δ_i‖ of budget·E‖X‖₂)."""
    from_step = int((1 - LAST) * n_outer)
    if not isinstance(defence, GSAT):
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
