"""Norms, inner products and reads of scalars, as the costs and solvers need them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from gsat import _checks

DUST = 1e-20
AT_HAND = ("cpu",)  # devices whose numbers cost nothing to read
BLOCK64 = 2048  # columns turned to float64 at a time: the whole matrix is never copied
FEW = 2**16  # float32 numbers that one sum adds up to 1e-6


def rows(v: Tensor) -> Tensor:
    """The group (m, *features) as a matrix (m, d)."""
    return v.reshape(len(v), -1)


def wide(v: Tensor) -> torch.dtype:
    """The dtype for sums: half precision is summed in float32."""
    return torch.float32 if v.dtype in (torch.float16, torch.bfloat16) else v.dtype


def norm(v: Tensor, dim: int | None = None, *, order: float = 2, keepdim: bool = False) -> Tensor:
    """The norm of v along `dim`, or of all its entries; half precision is summed in float32.

    All entries are summed row by row: one sum of millions of float32 numbers is wrong by 3e-4. The largest entry comes
    from the two extremes, ten times faster than torch's own norm of that order; so do norms of columns from sums of
    squares, three times faster, where no gradient is asked for.
    """
    if order == math.inf and isinstance(v, Tensor) and v.numel() > 0:
        axes = () if dim is None else dim
        return torch.maximum(v.amax(axes, keepdim), -v.amin(axes, keepdim)).to(wide(v))
    if dim == 0 and order == 2 and not keepdim and isinstance(v, Tensor) and _in_rows(v) and not v.requires_grad:
        squares = v.new_zeros(v.shape[1], dtype=wide(v))
        for part in torch.split(v, at_a_time(v.shape[1])):
            squares += part.to(wide(v)).square().sum(0)
        return squares.sqrt()
    if dim is None and order == 2 and not keepdim and isinstance(v, Tensor) and v.ndim > 1 and v.numel() > FEW:
        v = norm(rows(v), dim=1)
    return cast(Tensor, torch.linalg.vector_norm(v, order, dim=dim, keepdim=keepdim, dtype=wide(v)))


def _in_rows(v: Tensor) -> bool:
    """Whether v is a matrix whose rows lie in one piece each."""
    return v.ndim == 2 and v.stride(1) == 1


def in_range(size: float) -> bool:
    """Whether the squares that make up a norm of that size stay in the range of float32."""
    return 1e-12 < size < 1e12


def gram64(v: Tensor) -> Tensor:
    """v·vᵀ accumulated in float64 by blocks of columns."""
    first, *others = torch.split(v, BLOCK64, dim=1)
    part = first.double()
    gram = part @ part.T
    for block in others:
        part = block.double()
        gram.addmm_(part, part.T)
    return gram


def dot(a: Tensor, b: Tensor) -> Tensor:
    """The sum of the entries of a·b; half precision is summed in float32."""
    return torch.dot(flat(a), flat(b))


def flat(v: Tensor) -> Tensor:
    """The entries of v in a row, half precision as float32."""
    return v.reshape(-1).to(wide(v))


def dusted(v: Tensor) -> Tensor:
    """A float32 gradient with 0 for entries below 1e-20 of the largest, which no sum can tell from 0.

    Of samples that the model is sure of they may be denormal, and processors multiply those a hundred times slower.
    """
    size = v.abs()
    return v.masked_fill(size < DUST * size.amax(), 0) if v.dtype == torch.float32 else v


def zero_like(v: Tensor) -> Tensor:
    """Zeros of the shape of v, to be read only: of a tensor they take no memory."""
    return v.new_zeros(()).expand(v.shape) if isinstance(v, Tensor) else torch.zeros_like(v)


def pieces(*groups: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Groups (m, *features) of one shape, as matrices and a few rows at a time: what is made of these is small."""
    if not isinstance(groups[0], Tensor):
        yield groups
        return
    matrices = [rows(group) for group in groups]
    if len(matrices[0]) <= at_a_time(matrices[0].shape[1]):
        yield tuple(matrices)
        return
    yield from zip(*(torch.split(matrix, at_a_time(matrix.shape[1])) for matrix in matrices), strict=True)


def total(losses: Tensor) -> Tensor:
    """The sum of the losses, in float64."""
    return losses.sum(dtype=torch.float64)


def numbers(*found: Tensor) -> list[float]:
    """The entries of several small tensors of the device, in one read."""
    return cast("list[float]", torch.cat([entries.reshape(-1).to(torch.float64) for entries in found]).tolist())


def at_hand(v: Tensor) -> bool:
    """Whether the numbers of v can be read without a wait."""
    return v.device.type in AT_HAND


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
