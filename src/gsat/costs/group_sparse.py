"""A few features that move in everybody: genes, SNPs, pixels."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from gsat import _checks
from gsat._arrays.norms import column_norms, in_any, rows, wide
from gsat.costs.base import Counted


@dataclass(frozen=True)
class GroupSparse(Counted):
    """Few features move, in all samples at once: g(Δ) = Σ_j ‖Δ[:, j]‖₂; shrink makes each norm shorter by tau.

    Parameters
    ----------
    alpha : float
        The weight of g in the cost, 0 to 1.
    k : int, optional
        At most k columns (or blocks) move at all: g is 0 or +∞, and shrink keeps the k largest.
    feature_groups : sequence of d hashable labels, optional
        A block for each feature: j then runs over blocks, and the norm is over samples and the columns of the block.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> gsat.GroupSparse().prox(torch.tensor([[3.0, 0.1], [4.0, 0.1]]), 1.0)  # the weak column does not move
    tensor([[1.3500, 0.0000],
            [1.8000, 0.0000]])
    """

    feature_groups: Any = field(default=None, kw_only=True)
    _blocks: Tensor | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feature_groups is not None:
            object.__setattr__(self, "feature_groups", flat_labels(self.feature_groups))
            object.__setattr__(self, "_blocks", block_numbers(self.feature_groups))

    def columns(self, m: int) -> GroupSparse:
        """Itself: g and the square see the norms of the columns alone."""
        return self

    def norms(self, delta: Tensor) -> Tensor:
        """The Euclidean norm of each column, or of each block of columns in order of first appearance."""
        return self._part_sizes(_checks.group("delta", delta))

    def _part_sizes(self, delta: Tensor) -> Tensor:
        columns = column_norms(rows(delta)).to(wide(delta))
        if self._blocks is None:
            return columns
        if len(self._blocks) != len(columns):
            raise ValueError(
                f"feature_groups must have one entry per feature ({len(columns)}), got {len(self._blocks)}"
            )
        unit = columns.amax().clamp(min=torch.finfo(columns.dtype).tiny)  # so that no square leaves the range
        squares = (columns / unit).square()
        blocks = self._blocks.to(delta.device)
        return columns.new_zeros(int(blocks.max()) + 1).index_add_(0, blocks, squares).sqrt() * unit

    def measure(self, delta: Tensor) -> float:
        """The number of columns, or blocks, that move in some sample."""
        moving = in_any(rows(delta).ne(0))
        if self._blocks is None:
            return float(moving.sum())
        return float(torch.bincount(self._blocks[moving.cpu()]).count_nonzero())

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        norms = self._part_sizes(v)
        if self.k is None:
            keep = (norms - tau).clamp(min=0) / torch.where(norms > 0, norms, 1)  # 0/0 reads as 0
        else:
            chosen = norms.topk(min(self.k, len(norms))).indices
            keep = torch.zeros_like(norms).index_fill_(0, chosen, 1)
        if self._blocks is not None:
            keep = keep[self._blocks.to(v.device)]
        return (rows(v) * keep.to(v.dtype)).view_as(v)


def flat_labels(labels: Any) -> tuple[Hashable, ...]:
    """One label per feature as a tuple; arrays and tensors may have the shape of a sample."""
    return tuple(labels.reshape(-1).tolist() if hasattr(labels, "reshape") else labels)


@lru_cache(maxsize=16)
def block_numbers(labels: tuple[Hashable, ...]) -> Tensor:
    """The labels as numbers 0, 1, ... in order of first appearance."""
    codes: dict[Hashable, int] = {}
    return torch.tensor([codes.setdefault(label, len(codes)) for label in labels])
