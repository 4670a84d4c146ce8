"""Losses of single samples: (outputs, y) -> (m,), one number for each of the m samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

SampleLoss = Callable[[Tensor, Tensor], Tensor]


def per_sample_cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """The cross-entropy of each sample's logits: (m, classes), (m,) -> (m,)."""
    try:
        return cross_entropy(outputs, y, reduction="none")
    except IndexError:
        wrong = y[(y < 0) | (y >= outputs.shape[1])]
        raise ValueError(f"y must be of the {outputs.shape[1]} classes 0, 1, ..., got {int(wrong[0])}") from None


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
