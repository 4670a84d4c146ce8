"""Adversary: the worst structured perturbation of a group, for anyone's training loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from gsat import _checks, _defaults
from gsat._arrays.norms import size
from gsat._ranks import Ranks, shared, sharing
from gsat.costs import GroupCost, PerBatch, bound
from gsat.losses import SampleLoss, checked_loss, named_loss
from gsat.metric import Metric, fitting
from gsat.models.modes import frozen, untouched
from gsat.models.unwrapped import unwrapped
from gsat.shortcuts import Path, choose
from gsat.solvers import Solution, Solver, climb, named
from gsat.solvers.oracle import Oracle, clamped


class Adversary:
    """Moves a group to where the model's loss less λ·c(Δ) is largest: `x_adv = adversary(model, x, y)`.

    Parameters
    ----------
    cost, lam, solver, n_inner, feature_mask, bounds, metric
        As in `gsat.maximise`.
    loss : callable or str, optional
        (outputs, y) -> (m,), or "cross-entropy" (the default), "margin" or "dlr".
    generator : torch.Generator, optional
        A `PerBatch` cost without given batches draws anew in every call, from this or from one that starts at seed 0.
    group : {"own", "shared"}
        In a program of several processes (torch.distributed): with "own" each moves its samples as a group of its own,
        with "shared" the samples of all processes are one group. All of them then have to call the adversary together.

    Attributes
    ----------
    last : Solution or None
        That of the last call.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> table = gsat.data.make_batches(60, 10)
    >>> x, y = torch.as_tensor(table.X).float(), torch.as_tensor(table.codes)
    >>> model = gsat.models.ELUNet(10, 3)
    >>> adversary = gsat.Adversary(gsat.LowRank(), lam=1.0)
    >>> moved = adversary(model, x, y)  # train on these
    >>> adversary.last.objective >= 0
    True
    """

    def __init__(
        self,
        cost: GroupCost | PerBatch,
        *,
        lam: float,
        solver: str | Solver = "proximal",
        n_inner: int = _defaults.N_INNER,
        loss: SampleLoss | str | None = None,
        feature_mask: Any = None,
        bounds: Any = None,
        generator: Generator | None = None,
        metric: Metric | None = None,
        group: Literal["own", "shared"] = "own",
    ) -> None:
        _checks.methods("cost must be", cost.cost if isinstance(cost, PerBatch) else cost, "value", "prox")
        self.cost = cost
        self.lam = _checks.number("lam", lam, above=0)
        self.solver = named(solver)
        self.n_inner = _checks.count("n_inner", n_inner, least=1)
        self.loss = checked_loss(loss)
        self.feature_mask, self.bounds, self.metric = feature_mask, bounds, metric
        self.generator = torch.Generator().manual_seed(0) if generator is None else generator
        self.group = _checks.one_of("group", group, ("own", "shared"))
        self.last: Solution | None = None

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The perturbed group, without a gradient; model, x and y are left as they are."""
        self.last = None  # it is as large as the group: let it go first
        path, found = self.solve(model, x, y, batch)
        with torch.inference_mode(False), torch.no_grad():
            self.last = replace(found, delta=path.perturbation(found.delta))
            return clamped(x.detach() + self.last.delta, _checks.bounds(self.bounds, x))

    def solve(
        self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None, *, warn: bool = True
    ) -> tuple[Path, Solution]:
        """The solution of the inner problem, its Δ in the coordinates of the path that was taken.

        warn: whether a problem without a maximum is told, which need not be where the caller cuts long rows of Δ
        """
        model = unwrapped(_checks.module("model", model))
        x = _checks.group("x", x)
        _checks.labels(y, len(x))
        ranks = Ranks.of() if self.group == "shared" else sharing()  # in training, those of the run
        with shared(ranks), frozen(model), untouched(x):
            mask, bounds = _checks.feature_mask(self.feature_mask, x), _checks.bounds(self.bounds, x)
            y = y.clone() if y.is_inference() else y
            cost = bound(self.cost, len(x), batch, self.generator)
            free = cost.ridge > 0 and bounds is None
            rotates = free and cost.rotates and self.solver.axis_free
            columns = cost.columns(size(x)) if free and self.solver.by_columns else None
            metric = fitting(self.metric, x, mask)
            path = choose(model, x.detach(), mask, rotates=rotates, columns=columns, metric=metric)
            loss = named_loss(self.loss, lambda: path.outputs(path.x), y)
            solver = path.solver_for(self.solver, lambda outputs: loss(outputs, y), self.n_inner)
            oracle = Oracle(lambda z: loss(path.outputs(z), y), path.x, path.mask, bounds, self.n_inner, x, path.metric)
            return path, climb(oracle, cost, lam=self.lam, solver=solver, warn=warn)
