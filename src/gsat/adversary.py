"""Adversary: the worst structured perturbation of a group, for anyone's training loop."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gsat import _checks
from gsat.costs import GroupCost, GroupSparse, Penalised, PerBatch, Scaled, bound
from gsat.losses import SampleLoss, per_sample_cross_entropy
from gsat.models import layout
from gsat.models.first_layer import Model
from gsat.shortcuts.active import ActiveSet, active_set
from gsat.shortcuts.moved import Form, Moved
from gsat.shortcuts.row_space import Reduced, RowSpace, row_space
from gsat.solvers import ADMM, Linearised, Proximal, Solution, Solver, climb, maximise, named
from gsat.solvers.oracle import frozen, untouched


class Adversary:
    """Moves a group to where the model's loss less λ·c(Δ) is largest: `x_adv = adversary(model, x, y)`.

    The parameters are those of `gsat.maximise`; `loss` is (outputs, y) -> (m,), by default the cross-entropy. `last`
    is the `Solution` of the last call, `form` its Δ as a short-cut found it (`gsat.reduce`, `gsat.active`). A
    `PerBatch` cost without given batches draws anew in every call, from `generator` or else from one of its own that
    starts at seed 0.
    """

    def __init__(
        self,
        cost: GroupCost | PerBatch,
        *,
        lam: float,
        solver: str | Solver[Any] = "proximal",
        n_inner: int = 20,
        loss: SampleLoss | None = None,
        feature_mask: Any = None,
        bounds: Any = None,
        generator: Generator | None = None,
    ) -> None:
        self.cost = cost
        self.lam = _checks.number("lam", lam, above=0)
        self.solver = named(solver)
        self.n_inner = _checks.count("n_inner", n_inner, least=1)
        self.loss = per_sample_cross_entropy if loss is None else loss
        self.feature_mask, self.bounds = feature_mask, bounds
        self.generator = torch.Generator().manual_seed(0) if generator is None else generator
        self.last: Solution | None = None
        self.form: Form | None = None  # of the last perturbation, where a short-cut found it

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The perturbed group, without a gradient; model, x and y are left as they are."""
        return self.search(model, x, y, batch).group()

    def search(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None, *, residual: bool = True) -> Moved:
        """As a call, but what is as large as the group is not formed yet; to be used before the weights change.

        residual: as in `gsat.maximise`; training asks for none
        """
        x = _checks.group("x", x)
        _checks.labels(y, len(x))
        self.last = self.form = None  # they may be as large as the group: let them go first
        with frozen(model), untouched(x):
            y = y.clone() if y.is_inference() else y
            found, moved = self._solved(model, x.detach(), y, batch, residual)
        self.form = moved.form
        self.last = replace(found, found=moved.later())
        return moved

    @property
    def compact(self) -> Tensor | None:
        """The last perturbation in coordinates with the same lengths and angles, often far fewer."""
        if self.form is not None:
            return self.form.compact
        return None if self.last is None else self.last.delta

    def _solved(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any, residual: bool) -> tuple[Solution, Moved]:
        """The inner problem by the short-cut that holds, or else as it is."""
        active = self._active_set(model, x)
        if active is not None:
            oracle = active.oracle(lambda outputs: self.loss(outputs, y))
            cost = bound(self.cost, len(x), batch)
            found = climb(oracle, cost, lam=self.lam, solver=self.solver, n_inner=self.n_inner, residual=residual)
            return found, Moved(x, form=active.form(found.delta))
        space = self._row_space(model, x)
        see: Model = partial(layout.outputs, model)
        at, mask = x, self.feature_mask
        if space is not None:
            see, at, mask = space.outputs, space.x, None
        found = maximise(
            lambda z: self.loss(see(z), y),
            at,
            self.cost,
            lam=self.lam,
            solver=self.solver,
            n_inner=self.n_inner,
            feature_mask=mask,
            bounds=self.bounds,
            batch=batch,
            generator=self.generator,
            residual=residual,
        )
        if space is None:
            return found, Moved(x, found.delta, bounds=_checks.bounds(self.bounds, x))
        return found, Moved(x, form=Reduced(space, found.delta))

    def _active_set(self, model: nn.Module, x: Tensor) -> ActiveSet | None:
        """The group as the first layer sees it, where few columns move and the solver can do without the others."""
        cost = self.cost.cost if type(self.cost) is Scaled else self.cost
        if type(cost) is not GroupSparse or cost.ridge == 0 or cost.alpha == 0 or self.bounds is not None:
            return None
        if type(self.solver) not in (Proximal, Linearised):
            return None
        return active_set(model, x, _checks.feature_mask(self.feature_mask, x))

    def _row_space(self, model: nn.Module, x: Tensor) -> RowSpace | None:
        """The group in the row space of the first layer, where the cost and the solver do not depend on the axes."""
        cost = self.cost.cost if isinstance(self.cost, PerBatch) else self.cost
        if not isinstance(cost, Penalised) or not cost.rotates or cost.ridge == 0 or self.bounds is not None:
            return None
        if not isinstance(self.solver, Proximal | ADMM | Linearised):
            return None
        return row_space(model, x, _checks.feature_mask(self.feature_mask, x))
