"""A group and the perturbation found for it: arrays as large as the group are formed only where they are asked for.

The short-cuts find Δ as a product of small matrices or as a few columns, and know what the first layer W·x + b gives at
x + Δ. A step of the weights needs no more: gᵀ(x + Δ) = gᵀx + gᵀΔ is the gradient of W, g (m, h) that of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsat._arrays.norms import dusted, rows
from gsat.models import layout
from gsat.models.first_layer import instead, untouched_first_layer
from gsat.solvers.oracle import clamped

_FLEETING: ContextVar[bool] = ContextVar("fleeting", default=False)


class Form(Protocol):
    """A perturbation Δ of a group, as a short-cut finds it."""

    @property
    def compact(self) -> Tensor:
        """Δ in fewer coordinates, with the same lengths and angles."""

    @property
    def lengths(self) -> Tensor:
        """‖δ_i‖₂ for each sample, (m,)."""

    def expand(self) -> Tensor:
        """Δ (m, d), an array of its own."""

    def later(self, *, kept: bool) -> Callable[[], Tensor]:
        """As `expand`, whatever becomes of the group and, if it is kept, of the weights."""

    def output(self) -> Tensor:
        """What the first layer gives at x + Δ: (m, h)."""

    def add_product(self, total: Tensor, g: Tensor) -> Tensor:
        """Add gᵀ·Δ to the total in place; total: (h, d), g: (m, h)."""


@dataclass(frozen=True, eq=False)
class Moved:
    """The group x moved by `delta`, or by the `form` of it that a short-cut found."""

    x: Tensor
    delta: Tensor | None = None
    form: Form | None = None
    bounds: tuple[Tensor, Tensor] | None = None

    def later(self) -> Tensor | Callable[[], Tensor]:
        """Δ of the shape of x, for whoever asks for it later; inside `fleeting`, before the weights change."""
        if self.form is None:
            return cast(Tensor, self.delta)
        return partial(_shaped, self.form.later(kept=not _FLEETING.get()), self.x.shape)

    def group(self) -> Tensor:
        """The perturbed group x + Δ, inside the bounds and without a gradient."""
        with torch.inference_mode(False), torch.no_grad():
            if self.form is None:
                return clamped(self.x + cast(Tensor, self.delta), self.bounds)
            return self.form.expand().view_as(self.x).add_(self.x)  # no short-cut holds with bounds

    def outputs(self, model: nn.Module) -> Tensor:
        """What the model, in the mode it is in, returns for x + Δ, with a gradient in its weights."""
        layer = None if self.form is None else untouched_first_layer(model, self.x)
        if layer is None:
            return layout.outputs(model, self.group())
        apply: Any = _MovedLayer.apply
        seen = apply(layer.weight, layer.bias, self.x, self.form)
        with instead(layer, seen):
            return cast(Tensor, model(self.x))


@contextmanager
def fleeting(yes: bool) -> Iterator[None]:
    """A block whose perturbations are not kept beyond the next change of the weights, which saves a copy of those."""
    token = _FLEETING.set(yes)
    try:
        yield
    finally:
        _FLEETING.reset(token)


def _shaped(delta: Callable[[], Tensor], shape: torch.Size) -> Tensor:
    return delta().view(shape)


class _MovedLayer(torch.autograd.Function):
    """W·(x + Δ) + b as a function of W and b."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, x: Tensor, form: Form) -> Tensor:
        ctx.save_for_backward(x)
        ctx.form = form
        return form.output()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (x,) = ctx.saved_tensors
        g = dusted(g)
        weight = ctx.form.add_product(g.T @ rows(x), g) if ctx.needs_input_grad[0] else None
        return weight, g.sum(0) if ctx.needs_input_grad[1] else None, None, None
