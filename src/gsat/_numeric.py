"""Norms, inner products and reads of scalars, as the costs and solvers need them."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor

from gsat import _checks


def rows(v: Tensor) -> Tensor:
    """The group (m, *features) as a matrix (m, d)."""
    return v.reshape(len(v), -1)


def wide(v: Tensor) -> torch.dtype:
    """The dtype for sums: half precision is summed in float32."""
    return torch.promote_types(v.dtype, torch.float32)


def norm(v: Tensor, dim: int | None = None, *, order: float = 2, keepdim: bool = False) -> Tensor:
    """The norm of v along `dim`, or of all its entries; half precision is summed in float32."""
    return cast(Tensor, torch.linalg.vector_norm(v, order, dim=dim, keepdim=keepdim, dtype=wide(v)))


def dot(a: Tensor, b: Tensor) -> Tensor:
    """The sum of the entries of a·b."""
    return torch.dot(a.reshape(-1), b.reshape(-1))


def total(losses: Tensor) -> Tensor:
    """The sum of the losses, in float64."""
    return losses.sum(dtype=torch.float64)


def numbers(*scalars: Tensor) -> list[float]:
    """Several scalars of the device in one read."""
    return cast("list[float]", torch.stack([scalar.to(torch.float64) for scalar in scalars]).tolist())


def at_a_time(d: int) -> int:
    """How many samples of d entries are worked on at a time where X must not be copied whole: 2 to 8 MB in float64."""
    return 1024 if d <= 1024 else max(1, 2**18 // d)


def mean_norm(X: Any) -> float:
    """E‖X‖₂, the mean Euclidean norm of the samples of X (n, *features), a tensor or an array."""
    if isinstance(X, Tensor):
        _checks.group("X", X)
    if len(X) == 0:
        raise ValueError("X must hold at least one sample, got none")
    if isinstance(known := getattr(X, "mean_norm", None), float):
        return known
    lengths = 0.0
    step = at_a_time(math.prod(X.shape[1:]) if hasattr(X, "shape") else 1)
    for begin in range(0, len(X), step):
        part = getattr(X, "iloc", X)[begin : begin + step]
        part = part.to_numpy() if hasattr(part, "to_numpy") else part
        block = part if isinstance(part, Tensor) else torch.tensor(part)  # a copy: memory maps may be read-only
        lengths += float(norm(rows(block.double()), dim=1).sum())
    return lengths / len(X)
