"""Losses of single samples: (outputs, y) -> (m,), one number for each of the m samples."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import cross_entropy

SampleLoss = Callable[[Tensor, Tensor], Tensor]


def per_sample_cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """The cross-entropy of each sample's logits: (m, classes), (m,) -> (m,)."""
    return cross_entropy(outputs, y, reduction="none")
