"""Warnings of what makes a model look robust when it is not, as AutoAttack gives them."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from gsat._arrays.norms import rows
from gsat.losses import SampleLoss, named_loss
from gsat.models import layout
from gsat.models.modes import frozen, untouched
from gsat.solvers.oracle import Oracle


def warn_of_masking(model: nn.Module, x: Tensor, y: Tensor, loss: SampleLoss | str | None) -> None:
    """Warn where an attack would look weak for the wrong reason, on at most 50 of the samples."""
    if model.training:
        _warn("the model is in train mode; it is attacked in eval mode, as it would be used")
    x, y = x[:50].detach(), y[:50]
    with frozen(model), untouched(x):
        outputs, again = layout.outputs(model, x), layout.outputs(model, x)
        if not bool(torch.isfinite(outputs).all()):
            raise FloatingPointError("the model's outputs are not finite on x; look at x and at the weights")
        if not torch.equal(outputs, again):
            _warn("the model is randomised: two passes over the same samples differ, and gradients are noise")
        if loss is None and outputs.ndim == 2 and _on_simplex(outputs):
            _warn("the model returns probabilities where logits are expected: gradients vanish; drop the softmax")
        sample_loss = named_loss(loss, lambda: outputs, y)
        _, gradient = Oracle(lambda z: sample_loss(layout.outputs(model, z), y), x)(torch.zeros_like(x))
        dead = int((rows(gradient) == 0).all(1).sum())
        if dead:
            _warn(f"the gradient is exactly zero for {dead} of {len(x)} samples: attacks cannot see them")


def _on_simplex(outputs: Tensor) -> bool:
    sums = outputs.sum(1)
    return bool((outputs >= 0).all()) and bool(torch.isclose(sums, torch.ones_like(sums), atol=1e-4).all())


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
