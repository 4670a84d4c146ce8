"""Norms, inner products and sums, precise for groups of millions of float32 numbers.

Inside `_ranks.shared` a group of samples is spread over ranks: sums over samples are then those over all ranks.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor

from gsat import _checks
from gsat._arrays.chunks import at_a_time, pieces, take
from gsat._ranks import sharing

FEW = 2**16  # float32 numbers that one sum adds up to 1e-6


def rows(v: Tensor) -> Tensor:
    """The group (m, *features) as a matrix (m, d)."""
    return v.reshape(len(v), math.prod(v.shape[1:]))  # -1 is not told where there are no rows


def wide(v: Tensor) -> torch.dtype:
    """The dtype for sums: half precision is summed in float32."""
    return torch.float32 if v.dtype in (torch.float16, torch.bfloat16) else v.dtype


def norm(v: Tensor, dim: int | None = None, *, keepdim: bool = False) -> Tensor:
    """The Euclidean norm of v along `dim`, or of all its entries, for a group v: rows are samples.

    The norm of all entries and those of columns (dim 0) go over the rows of all ranks that share the group.
    """
    found, ranks = length(v, dim, keepdim=keepdim), sharing()
    if ranks.alone or dim not in (None, 0):
        return found
    return ranks.summed(found.double().square()).sqrt().to(found.dtype)


def length(v: Tensor, dim: int | None = None, *, keepdim: bool = False) -> Tensor:
    """The Euclidean norm of v, as `norm`, but of this very tensor: of one shift, of norms of columns, of some rows.

    Half precision is summed in float32. All entries are summed row by row: one sum of millions of float32 numbers is
    wrong by 3e-4. Norms of columns are summed a few rows at a time, three times faster than by torch's own function.
    """
    if dim is None and v.ndim > 1 and v.numel() > FEW:
        v = length(rows(v), dim=1)
    elif dim == 0 and not keepdim and not v.requires_grad and v.ndim == 2 and v.stride(1) == 1:
        squares = v.new_zeros(v.shape[1], dtype=wide(v))
        for part in torch.split(v, at_a_time(v.shape[1])):
            squares += part.to(wide(v)).square().sum(0)
        return squares.sqrt()
    return cast(Tensor, torch.linalg.vector_norm(v, dim=dim, keepdim=keepdim, dtype=wide(v)))


def largest(v: Tensor, dim: int | None = None, *, keepdim: bool = False) -> Tensor:
    """The largest |entry| of v along `dim`, or of the whole group; NaN where there is one."""
    if dim is None:
        found = torch.maximum(v.amax(), -v.amin()) if v.numel() else v.new_zeros(())
        return sharing().most(found.to(wide(v)))
    return torch.maximum(v.amax(dim, keepdim), -v.amin(dim, keepdim)).to(wide(v))


def column_norms(v: Tensor) -> Tensor:
    """The norm of each column of v (m, d), also where squares would leave the range of float32."""
    found = norm(v, dim=0)
    if not 1e-12 < float(length(found)) < 1e12:
        unit = float(largest(v))
        if 0 < unit < math.inf:
            return norm(v / unit, dim=0) * unit
    return found


def total(losses: Tensor) -> Tensor:
    """The sum of the losses, or other numbers of the samples of a group, in float64."""
    return sharing().summed(losses.sum(dtype=torch.float64))


def mean(numbers: Tensor) -> float:
    """The mean of numbers (m,), one for each sample of a group, in float64."""
    whole, m = sharing().sums(float(numbers.sum(dtype=torch.float64)), float(len(numbers)))
    return whole / m


def mean_row(v: Tensor) -> Tensor:
    """The mean of the rows of a group v (m, *features), as (1, *features)."""
    own = torch.cat([v.sum(0, dtype=wide(v)).reshape(-1), v.new_full((1,), len(v), dtype=wide(v))])
    sums = sharing().summed(own)  # in one message
    return (sums[:-1] / sums[-1]).to(v.dtype).view(1, *v.shape[1:])


def in_any(v: Tensor) -> Tensor:
    """For each column of v (m, d), booleans, whether it is True in any row of the group."""
    return sharing().summed(v.any(0).to(torch.float32)) > 0


def size(v: Tensor) -> int:
    """The number of rows of a group, those of all ranks that share it."""
    return int(sharing().sums(len(v))[0])


def first_rows(v: Tensor, n: int) -> Tensor:
    """The first n rows of a group v (m, d), those of rank 0 before those of rank 1 and so on, on every rank."""
    begin, _ = sharing().places(len(v))
    mine = v[: max(0, n - begin)]
    found = v.new_zeros(n, *v.shape[1:])
    found[begin : begin + len(mine)] = mine
    return sharing().summed(found)


def finite(*found: Tensor) -> bool:
    """Whether every entry of every tensor is finite, on all ranks that share the group."""
    own = all(math.isfinite(float(end)) for v in found if v.numel() for end in torch.aminmax(v))
    return not sharing().any(not own)


def mean_norm(X: Any, weights: Any = None) -> float:
    """E‖X‖₂, the mean Euclidean norm of the samples.

    Parameters
    ----------
    X : tensor or array, (n, *features)
        The samples; a memory map is read a few rows at a time.
    weights : array, (n,), optional
        The weight of each sample in the mean.

    Returns
    -------
    float
        The mean over samples of ‖x_i‖₂, summed in float64.

    Examples
    --------
    >>> import numpy as np
    >>> import gsat
    >>> gsat.mean_norm(np.array([[3.0, 4.0], [0.0, 1.0]]))
    3.0
    """
    if isinstance(X, Tensor):
        _checks.group("X", X)
    if len(X) == 0:
        raise ValueError("X must hold at least one sample, got none")
    n = float(len(X) if weights is None else weights.sum())
    if isinstance(known := getattr(X, "mean_norm", None), float):
        lengths = known * n
    else:
        lengths = 0.0
        for part in pieces(len(X), math.prod(X.shape[1:]) if hasattr(X, "shape") else 1):
            found = norm(rows(take(X, torch.arange(part.start, part.stop)).double()), dim=1)
            lengths += float((found if weights is None else found * torch.as_tensor(weights[part])).sum())
    whole, n = sharing().sums(lengths, n)
    return whole / n
