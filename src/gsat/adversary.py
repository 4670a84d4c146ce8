"""Adversary: the worst structured perturbation of a group, for anyone's training loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from gsat import _checks
from gsat.costs import GroupCost, Penalised
from gsat.grouping import PerBatch
from gsat.oracle import clamped, frozen, untouched
from gsat.reduce import RowSpace, row_space
from gsat.solvers import ADMM, Linearised, Proximal, Solution, Solver, maximise, named

SampleLoss = Callable[[Tensor, Tensor], Tensor]  # (outputs, y) -> (m,)


def per_sample_cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """The cross-entropy of each sample's logits: (m, classes), (m,) -> (m,)."""
    return cross_entropy(outputs, y, reduction="none")


class Adversary:
    """Moves a group to where the model's loss less λ·c(Δ) is largest: `x_adv = adversary(model, x, y)`.

    The parameters are those of `gsat.maximise`; `loss` is (outputs, y) -> (m,), by default the cross-entropy. `last`
    is the `Solution` of the last call, `compact` its Δ in coordinates with the same lengths and angles, often far
    fewer (`gsat.reduce`). A `PerBatch` cost without given batches draws anew in every call, from
    `generator` or else from one of its own that starts at seed 0.
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
        self.compact: Tensor | None = None
        self.light = False  # True where only lengths and ranks are wanted of `last`: it then holds the compact Δ

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The perturbed group, without a gradient; model, x and y are left as they are."""
        x = _checks.group("x", x)
        _checks.labels(y, len(x))
        with frozen(model), untouched(x):
            y = y.clone() if y.is_inference() else y
            seen = self._row_space(model, x)
            see, at, mask = (model, x, self.feature_mask) if seen is None else (seen.outputs, seen.x, None)
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
            )
            self.compact, self.last = found.delta, found
            delta = found.delta if seen is None else seen.basis.expand(found.delta).view_as(x)
            if seen is not None and self.light:
                return delta.add_(x)
            self.last = replace(found, delta=delta)
        return clamped(x.detach() + delta, _checks.bounds(self.bounds, x))

    def _row_space(self, model: nn.Module, x: Tensor) -> RowSpace | None:
        """The group in the row space of the first layer, where the cost and the solver do not depend on the axes."""
        cost = self.cost.cost if isinstance(self.cost, PerBatch) else self.cost
        if not isinstance(cost, Penalised) or not cost.rotates or cost.ridge == 0 or self.bounds is not None:
            return None
        if not isinstance(self.solver, Proximal | ADMM | Linearised):
            return None
        return row_space(model, x, _checks.feature_mask(self.feature_mask, x))
