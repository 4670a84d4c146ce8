"""Which path a problem takes: the samples as they are, or the row space of the model's first layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from gsat.costs import Metric
from gsat.models import layout
from gsat.models.first_layer import first_layer
from gsat.shortcuts.row_space import RowSpace


class Path(Protocol):
    """A group x in coordinates in which a perturbation is sought; lengths and angles are those of the features.

    With a metric A the features are those of Z, and the perturbation is Δ = Z·A.
    """

    @property
    def x(self) -> Tensor:
        """The group in these coordinates, (m, ...)."""

    @property
    def mask(self) -> Tensor | None:
        """False for coordinates that must not move."""

    @property
    def metric(self) -> Metric | None:
        """In which the coordinates still have to be taken; None where they are."""

    def outputs(self, z: Tensor, part: slice = ...) -> Tensor:
        """What the model returns for the samples of `part` whose coordinates are z."""

    def project(self, v: Tensor) -> Tensor:
        """The coordinates of Z (m, *features), as far as the model can see it."""

    def expand(self, delta: Tensor) -> Tensor:
        """Z (m, *features) with these coordinates; without a metric, the perturbation."""

    def perturbation(self, delta: Tensor) -> Tensor:
        """The perturbation Δ (m, *features) with these coordinates."""

    def moved(self, x: Tensor, delta: Tensor) -> Tensor:
        """The group x (m, *features) moved by it, as a tensor of its own."""


@dataclass(frozen=True)
class Plain:
    """The samples as they are."""

    model: nn.Module
    x: Tensor
    mask: Tensor | None
    metric: Metric | None = None

    def outputs(self, z: Tensor, part: slice = slice(None)) -> Tensor:
        """What the model returns for z."""
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


def choose(
    model: nn.Module, x: Tensor, mask: Tensor | None = None, *, rotates: bool, metric: Metric | None = None
) -> Path:
    """The path of a problem on the group x (m, *features): `RowSpace` where that is exact and smaller, else `Plain`.

    model: in eval mode; mask: boolean (*features), False where nothing may move; rotates: whether neither the problem
    nor the search depends on the axes of feature space (the cost rotates, the solver is axis-free, no bounds); metric:
    fitting x and the mask
    """
    layer = first_layer(model, x) if rotates else None
    return Plain(model, x, mask, metric) if layer is None else RowSpace.of(layer, x, mask, metric)
