"""Warnings of what makes a model look robust when it is not, as AutoAttack gives them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gsat import _checks
from gsat._arrays.norms import rows
from gsat.attacks.precision import HALF, in_float32
from gsat.losses import SampleLoss, named_loss
from gsat.models import layout
from gsat.models.modes import frozen, untouched
from gsat.solvers.oracle import Oracle


def warn_of_masking(
    model: nn.Module, x: Tensor, y: Tensor, searches: Sequence[tuple[SampleLoss | str | None, str]]
) -> None:
    """Warn where an attack would look weak for the wrong reason, on at most 50 of the samples.

    Parameters
    ----------
    model, x, y
        The model, samples (m, *features) and labels (m,).
    searches
        Loss and strength of each attack.
    """
    if model.training:
        _warn("the model is in train mode; it is attacked in eval mode, as it would be used")
    model, x, y = in_float32(model, x), x[:50].detach(), y[:50]
    x = x.float() if x.dtype in HALF else x
    with frozen(model), untouched(x):
        outputs, again = layout.outputs(model, x), layout.outputs(model, x)
        if not bool(torch.isfinite(outputs).all()):
            raise FloatingPointError("the model's outputs are not finite on x; look at x and at the weights")
        if not torch.equal(outputs, again):
            _warn("the model is randomised: two passes over the same samples differ, and gradients are noise")
        losses = [loss for loss, _ in searches]
        if (None in losses or "cross-entropy" in losses) and outputs.ndim == 2 and _on_simplex(outputs):
            _warn("the model returns probabilities where logits are expected: gradients vanish; drop the softmax")
        for loss in dict.fromkeys(loss for loss, strength in searches if strength == "fast"):
            dead = _dead(model, x, y, outputs, loss)
            if bool(dead.any()):
                instead = 'loss="margin" or ' if loss in (None, "cross-entropy") else ""
                _warn(
                    f"the gradient is exactly zero for {int(dead.sum())} of {len(x)} samples, which are not wrong yet: "
                    f'a fast attack cannot see them; take {instead}strength="standard"'
                )


def warn_of_bounds(x: Tensor, bounds: Sequence[Any]) -> None:
    """Warn, once, where samples x (m, *features) do not keep one of the bounds: the model sees them clamped.

    Parameters
    ----------
    x
        The samples.
    bounds
        Pairs (lo, hi) as in `gsat.maximise`, or None.
    """
    for pair in bounds:
        ends = _checks.bounds(pair, x)
        if ends is None:
            continue
        lo, hi = ends
        outside = (x < lo) | (x > hi)
        if bool(outside.any()):
            _warn(
                f"{float(outside.double().mean()):.1%} of the entries of x are outside bounds from {float(lo.min()):g} "
                f"to {float(hi.max()):g} (x is from {float(x.min()):.3g} to {float(x.max()):.3g}), and the model sees "
                "them clamped: bounds are in the units that the module sees, after preparation and standardisation"
            )
            return


def _dead(model: nn.Module, x: Tensor, y: Tensor, outputs: Tensor, loss: SampleLoss | str | None) -> Tensor:
    """The samples (m,) whose gradient is exactly zero, without those that are wrong already and need not move."""
    sample_loss = named_loss(loss, lambda: outputs, y)
    _, gradient = Oracle(lambda z: sample_loss(layout.outputs(model, z), y), x)(torch.zeros_like(x))
    dead = (rows(gradient) == 0).all(1)
    return dead if callable(loss) else dead & (outputs.argmax(1) == y)


def _on_simplex(outputs: Tensor) -> bool:
    sums = outputs.sum(1)
    return bool((outputs >= 0).all()) and bool(torch.isclose(sums, torch.ones_like(sums), atol=1e-4).all())


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
