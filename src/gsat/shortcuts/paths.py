"""Which path a problem takes: the samples as they are, the row space of the model's first layer, or both.

A path says in which coordinates a perturbation is sought (`x`, `outputs`), what it is as a perturbation of the samples
(`perturbation`, `moved`), and which solver climbs in it (`solver_for`).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gsat.costs import Penalised
from gsat.metric import Metric
from gsat.models import layout
from gsat.models.first_layer import first_layer
from gsat.shortcuts.columns import ColumnAscent
from gsat.shortcuts.row_space import RowSpace
from gsat.solvers import Solver
from gsat.solvers.oracle import Loss, Oracle


@dataclass(frozen=True)
class Plain:
    """The samples as they are.

    x: (m, *features); mask: boolean (*features), False where nothing may move; metric: A, where what moves is Z and the
    perturbation is Δ = Z·A
    """

    model: nn.Module
    x: Tensor
    mask: Tensor | None
    metric: Metric | None = None

    def outputs(self, z: Tensor, part: slice = slice(None)) -> Tensor:
        """What the model returns for the samples z of `part`."""
        return layout.outputs(self.model, z)

    def project(self, v: Tensor) -> Tensor:
        """`v` itself."""
        return v

    def expand(self, delta: Tensor) -> Tensor:
        """`delta` itself, in the shape of the group."""
        return delta.view(len(delta), *self.x.shape[1:])

    def perturbation(self, delta: Tensor) -> Tensor:
        """Z·A, or `delta` itself."""
        return self.expand(delta if self.metric is None else self.metric.apply(delta))

    def moved(self, x: Tensor, delta: Tensor) -> Tensor:
        """X + Δ."""
        return x + self.perturbation(delta)

    def solver_for(self, solver: Solver, loss: Loss, n_inner: int) -> Solver:
        """The solver itself; loss: outputs (m, ...) of the model -> (m,); n_inner: as in `Oracle`."""
        return solver


@dataclass(frozen=True, kw_only=True)
class Columns(Plain):
    """The samples as they are, with the row space in which `ColumnAscent` climbs, and the cost of column norms."""

    space: RowSpace
    cost: Penalised

    def solver_for(self, solver: Solver, loss: Loss, n_inner: int) -> Solver:
        """`ColumnAscent` with the settings of a solver whose steps may be taken by columns."""
        space = self.space
        seen = Oracle(lambda z: loss(space.outputs(z)), space.x, n_inner=n_inner, group=self.x)
        return ColumnAscent(**vars(solver), space=space, seen=seen, columns=self.cost)


Path = Plain | RowSpace  # a group in coordinates in which a perturbation is sought, with lengths and angles as before


def choose(
    model: nn.Module,
    x: Tensor,
    mask: Tensor | None = None,
    *,
    rotates: bool,
    columns: Penalised | None = None,
    metric: Metric | None = None,
) -> Path:
    """The path of a problem on the group x (m, *features): `RowSpace` or `Columns` where exact and smaller, or `Plain`.

    model: in eval mode; mask: boolean (*features), False where nothing may move; rotates: whether neither the problem
    nor the search depends on the axes of feature space (the cost rotates, the solver is axis-free, no bounds);
    columns: the cost of column norms, where it sees nothing else and `ColumnAscent` may take the solver's place;
    metric: fitting x and the mask
    """
    layer = first_layer(model, x) if rotates or columns is not None else None
    if layer is None:
        return Plain(model, x, mask, metric)
    space = RowSpace.of(layer, x, mask, metric)
    return space if columns is None else Columns(model=model, x=x, mask=mask, metric=metric, space=space, cost=columns)
