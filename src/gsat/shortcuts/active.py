"""The exact short-cut for group-sparse costs on models that see their input through one linear layer.

The gradient of the loss is g·W, with W (h, d) the weights of the layer and g (m, h) the gradient at its output, and the
iterates have few columns that are not 0. So a perturbation is kept as P·W plus single columns (`gsat.implicit`), and
only the columns that a cost keeps are formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from gsat._arrays.norms import at_hand, dusted, norm, rows
from gsat.models.first_layer import Model, first_layer, layer_output
from gsat.shortcuts.columns import Columns, Layer
from gsat.shortcuts.implicit import Implicit
from gsat.solvers.oracle import Loss, Oracle

WIDE = 5  # columns for every sample, below which columns are picked out in more time than whole arrays take


class ActiveOracle(Oracle):
    """As `Oracle`, for perturbations of the group x that are given and answered as `Implicit`.

    loss: of the output (m, h) of the first layer; seen: that output at Δ = 0
    """

    def __init__(self, loss: Loss, seen: Tensor, x: Implicit) -> None:
        super().__init__(loss, seen)
        self._layer, self._at_output = x.layer, Oracle(loss, seen)
        self.x = cast(Tensor, x)

    def __call__(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        """The losses at x + Δ and their gradient in Δ."""
        losses, gradient = self._at_output(self._change(delta))
        self.n_gradients, self.at_zero = self._at_output.n_gradients, self._at_output.at_zero
        return losses, cast(Tensor, Implicit(self._layer, len(gradient), dusted(gradient)))

    def losses(self, delta: Tensor) -> Tensor:
        """The losses at x + Δ alone."""
        return self._at_output.losses(self._change(delta))

    def _change(self, delta: Tensor) -> Tensor:
        return cast(Implicit, delta).seen.to(delta.dtype)


@dataclass(frozen=True)
class ActiveSet:
    """A group x as the first layer of a model sees it: its output there, and the rest of the model."""

    x: Implicit
    seen: Tensor  # (m, h)
    head: Model

    def oracle(self, loss: Loss) -> Oracle:
        """What a solver asks, for a loss of the model's outputs."""
        return ActiveOracle(lambda seen: loss(self.head(seen)), self.seen, self.x)

    def form(self, delta: Tensor) -> Sparse:
        """An answer of the solver, whatever becomes of the weights."""
        found = cast(Implicit, delta)
        found.settle()
        return Sparse(self.seen, found)


@dataclass(frozen=True)
class Sparse:
    """A perturbation of which some columns differ from 0, or all: a `gsat.moved.Form`."""

    seen: Tensor  # (m, h), the output of the first layer at Δ = 0
    delta: Implicit

    @property
    def compact(self) -> Tensor:
        """The columns that are held, (m, s)."""
        return self.delta.expand() if self.delta.all else self.delta.held.T

    @property
    def lengths(self) -> Tensor:
        """‖δ_i‖₂ for each sample, (m,)."""
        return norm(cast(Tensor, self.delta), dim=1)

    def expand(self) -> Tensor:
        """Δ (m, d)."""
        return self.delta.expand()

    def later(self, *, kept: bool) -> Callable[[], Tensor]:
        """As `expand`; nothing else is used, so that it is always kept."""
        return self.delta.expand

    def output(self) -> Tensor:
        """What the first layer gives at x + Δ: (m, h)."""
        return self.seen + self.delta.seen.to(self.seen.dtype)

    def add_product(self, total: Tensor, g: Tensor) -> Tensor:
        """Add gᵀ·Δ to the total in place; total: (h, d), g: (m, h)."""
        if not self.delta.all:
            return total.index_add_(1, self.delta.index, (self.delta.held @ g).T)
        parts = self.delta.layer.parted(total, dim=1)
        for part, values in zip(parts, self.delta.blocks(self.delta.index), strict=True):
            part.addmm_(g.T, values.T)
        return total


def active_set(model: nn.Module, x: Tensor, mask: Tensor | None = None) -> ActiveSet | None:
    """The group x (m, *features) for a perturbation with few columns, or None where nothing is gained.

    Models as for `gsat.reduce.row_space`, with a first layer of fewer outputs than samples and many more inputs.
    mask: boolean (*features), True where the adversary may move
    """
    found = first_layer(model, x)
    if found is None or found[0].out_features >= len(x) or found[0].in_features < WIDE * len(x):
        return None
    if not at_hand(x):  # how many columns move would have to be read in every step
        return None
    layer, head = found
    weight = layer.weight.detach()
    if mask is not None:
        weight = weight * mask.reshape(-1).to(weight.dtype)
    seen_by = Layer(weight)
    group = Implicit(seen_by, len(x), None, (1.0, Columns(seen_by, seen_by.every, rows(x).T)))
    return ActiveSet(group, layer_output(layer, x), head)
