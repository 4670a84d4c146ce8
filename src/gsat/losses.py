"""Losses of single samples: (outputs, y) -> (m,), one number for each of the m samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gsat import _checks
from gsat._arrays.norms import first_rows, size

SampleLoss = Callable[[Tensor, Tensor], Tensor]


def per_sample_cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """The cross-entropy of each sample's logits: (m, classes), (m,) -> (m,)."""
    try:
        return cross_entropy(outputs, y, reduction="none")
    except (IndexError, RuntimeError):
        _check_classes(outputs, y)
        raise


def margin(outputs: Tensor, y: Tensor) -> Tensor:
    """max_{k≠y} z_k − z_y of each sample's logits z, above 0 where it is wrong: (m, classes), (m,) -> (m,)."""
    try:
        own = torch.zeros_like(outputs, dtype=torch.bool).scatter_(1, y[:, None], True)
    except RuntimeError:
        _check_classes(outputs, y)
        raise
    return outputs.masked_fill(own, -torch.inf).amax(1) - outputs.gather(1, y[:, None])[:, 0]


def _check_classes(outputs: Tensor, y: Tensor) -> None:
    """Raise where a label is not the number of one of the outputs (m, classes)."""
    wrong = y[(y < 0) | (y >= outputs.shape[1])]
    if len(wrong):
        raise ValueError(f"y must be of the {outputs.shape[1]} classes 0, 1, ..., got {int(wrong[0])}") from None


class BoundedMargin:
    """σ(margin/scale), nearly 1 for a sample that is wrong and 0 for one that is right: Σ_i almost counts the errors.

    A sample that is wrong already has next to no slope, so that a shared perturbation is not spent on it.

    Parameters
    ----------
    scale
        A share of a typical |margin|; with it the loss is the same for logits in other units.
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = _checks.number("scale", scale, above=0)

    @classmethod
    def fitting(cls, outputs: Tensor, y: Tensor) -> BoundedMargin:
        """With a tenth of the median |margin| of these samples as the scale, or more where some are so much larger.

        The slope of a sample whose margin is 100 times the scale is 0 in float32: the largest is at most 60 times it.
        """
        sizes = margin(outputs.detach(), y).abs()
        sizes = first_rows(sizes, size(sizes))  # of all ranks that share the group
        typical = max(float(sizes.median()) / 10, float(sizes.max()) / 60)
        return cls(typical if math.isfinite(typical) and typical > 0 else 1.0)

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(m, classes), (m,) -> (m,)."""
        return (margin(outputs, y) / self.scale).sigmoid()


def dlr(outputs: Tensor, y: Tensor) -> Tensor:
    """The difference of logits ratio, margin/(z_(1) − z_(3)), z in descending order: (m, classes), (m,) -> (m,).

    It does not change with the scale of the logits. It needs three classes.
    """
    if outputs.shape[1] < 3:
        raise ValueError(f'loss="dlr" needs at least 3 classes, got {outputs.shape[1]}; take loss="margin"')
    ordered = outputs.topk(3, dim=1).values
    return margin(outputs, y) / (ordered[:, 0] - ordered[:, 2]).clamp(min=torch.finfo(outputs.dtype).tiny ** 0.5)


def checked_loss(loss: Any) -> SampleLoss | str:
    """The function of one of `NAMED_LOSSES`, but "margin" itself, whose scale is that of a group; or the function."""
    if callable(loss):
        return loss  # type: ignore[no-any-return]
    name = "cross-entropy" if loss is None else _checks.one_of("loss", loss, NAMED_LOSSES)
    functions: dict[str, SampleLoss] = {"cross-entropy": per_sample_cross_entropy, "dlr": dlr}
    return functions.get(name, name)


def named_loss(loss: SampleLoss | str | None, outputs: Callable[[], Tensor], y: Tensor) -> SampleLoss:
    """The loss of that name, or the function itself; None is the cross-entropy.

    Parameters
    ----------
    loss
        One of `NAMED_LOSSES`, a function (outputs, y) -> (m,), or None.
    outputs, y
        A function that gives logits (m, classes) of samples with labels y (m,), from which "margin" takes its scale.
    """
    chosen = checked_loss(loss)
    return chosen if callable(chosen) else BoundedMargin.fitting(outputs(), y)


NAMED_LOSSES = ("cross-entropy", "margin", "dlr")


def half_squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    """½(f(x_i) − y_i)²: (m, 1), (m,) -> (m,)."""
    return 0.5 * (outputs[:, 0] - y).square()


class WeightedCrossEntropy:
    """The cross-entropy of each sample times the weight of its class.

    Parameters
    ----------
    weights
        One weight for each class, (classes,); None for equal ones.
    """

    def __init__(self, weights: Any = None) -> None:
        self.weights = None if weights is None else torch.as_tensor(weights, dtype=torch.float32)

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(m, classes), (m,) -> (m,)."""
        losses = per_sample_cross_entropy(outputs, y)
        return losses if self.weights is None else losses * self.weights.to(losses)[y]
