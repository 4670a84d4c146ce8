"""The structured adversary in training: groups are moved as far as the budget allows, and no sample much farther."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gsat import _checks, _defaults
from gsat._arrays.norms import norm, rows
from gsat.adversary import Adversary
from gsat.attacks.sets import inside
from gsat.costs import GroupCost, PerBatch, penalised, scaled
from gsat.defences.base import Defence
from gsat.defences.budgets import budget_used, by_class
from gsat.losses import SampleLoss
from gsat.metric import Metric
from gsat.solvers import Proximal, Solution, Solver
from gsat.solvers.oracle import clamped

FARTHEST = 3.0  # ‖δ_i‖ of a sample at the most, in units of the wanted mean (docs/choose.md)
MOST = 2.0  # of its budget that a group uses at the most
TOL = 1e-3  # of "proximal" in training: half the gradients, at less than half a percent of the gain (docs/paper.md)


class GSAT(Defence):
    """The structured adversary: argmax_Δ Σ_i ℓ(x_i + δ_i) − λ·c(Δ), or with Δ = Z·A and c(Z) in a metric A.

    `lam`, `scale` (the s of `gsat.costs.Scaled`, or None for the plain cost) and `targets`, the wanted mean ‖δ_i‖ of
    each class, are set by `gsat.gdadmm`. With a scale no sample moves farther than 3·s, also where the inner problem
    has no maximum, and no group uses more than twice its budget: where a structure is all or nothing, a few groups
    would use that of all.

    Parameters
    ----------
    cost, feature_mask, bounds, metric
        As in `gsat.maximise`.
    solver, n_inner
        As there, but "proximal" stands for `Proximal(tol=1e-3, residual=False)`: easy groups take fewer gradients.
    loss
        ℓ, a function (outputs, y) -> (m,), or "cross-entropy" (the default), "margin" or "dlr".
    generator
        Of the random batches of a `PerBatch` cost; by default one with seed 0.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
    >>> defence = gsat.defences.GSAT(gsat.LowRank(k=2))
    >>> len(gsat.gdadmm(model, x, y, defence, n_outer=5, budget=0.1)), defence.delta.shape
    (5, torch.Size([8, 6]))
    """

    name, spans_ranks = "gsat", True

    def __init__(
        self,
        cost: GroupCost | PerBatch,
        *,
        solver: str | Solver = "proximal",
        n_inner: int = _defaults.N_INNER_GSAT,
        loss: SampleLoss | str | None = None,
        feature_mask: Any = None,
        bounds: Any = None,
        generator: Generator | None = None,
        metric: Metric | None = None,
    ) -> None:
        self.cost = cost
        self.adversary = Adversary(
            cost,
            lam=1.0,
            solver=Proximal(tol=TOL, residual=False) if solver == "proximal" else solver,
            n_inner=n_inner,
            loss=loss,
            feature_mask=feature_mask,
            bounds=bounds,
            generator=generator,
            metric=metric,
        )
        self.scale: float | None = None
        self.targets: list[float] = []
        self._told = False  # of a problem without a maximum, once for all groups
        self.solution: Solution | None = None  # of the last group, in the coordinates of the path that was taken

    @property
    def lam(self) -> float:
        """The price of the cost."""
        return self.adversary.lam

    @lam.setter
    def lam(self, value: float) -> None:
        self.adversary.lam = _checks.number("lam", value, above=0)

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The group moved to where the loss less λ·c(Δ) is largest."""
        self._path = self._compact = self.solution = None  # they may be as large as the group: let them go first
        self.adversary.cost = self.cost if self.scale is None else scaled(self.cost, self.scale)
        self._path, found = self.adversary.solve(model, x, y, batch, warn=self.scale is None and not self._told)
        self._told |= found.unbounded
        if self.scale is not None:
            found = replace(found, delta=self._cut(rows(found.delta), y, self.scale).view_as(found.delta))
        self.solution, self._compact = found, found.delta
        with torch.inference_mode(False), torch.no_grad():
            moved = self._path.moved(x.detach(), self._compact)
            return clamped(moved, _checks.bounds(self.adversary.bounds, x))

    def _cut(self, delta: Tensor, y: Tensor, scale: float) -> Tensor:
        """Long rows of Δ (m, d) cut, then all of it scaled: equal rows stay equal, columns and ranks as few."""
        delta = inside(delta, FARTHEST * scale)
        used = budget_used(*by_class(norm(delta, dim=1), y), self.targets)
        return delta if used is None or used <= MOST else delta * (MOST / used)

    def describe(self) -> dict[str, Any]:
        """How the inner problem is solved, for JSON."""
        metric = {} if (found := self.adversary.metric) is None else {"metric": f"{found!r} {found.fingerprint}"}
        return {"solver": repr(self.adversary.solver), "n_inner": self.adversary.n_inner, **metric}

    def state_dict(self) -> dict[str, Tensor]:
        """The generator that draws the batches of a `PerBatch` cost."""
        return {"generator": self.adversary.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue the draws."""
        super().load_state_dict(state)
        self.adversary.generator.set_state(state["generator"])

    def measure(self) -> float | None:
        """The number of columns (or blocks) that move, or the rank."""
        inner = self.cost.cost if isinstance(self.cost, PerBatch) else self.cost
        return None if self._compact is None else penalised(inner).measure(self._compact)
