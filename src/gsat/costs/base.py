"""Group costs c(Δ) = α·g(Δ) + (1−α)·‖Δ‖²_F: what it costs an adversary to move a whole group of samples."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from gsat import _checks
from gsat._arrays import unread as _unread
from gsat._arrays.norms import at_hand, in_range, norm, rows, wide
from gsat._arrays.subspace import Subspace
from gsat._arrays.svd import First, Soft, rescale_singular_values, singular_values


class GroupCost(Protocol):
    """What a solver needs of a cost. c(0) = 0; `delta` and `v` have shape (m, *features)."""

    def value(self, delta: Tensor) -> Tensor:
        """c(Δ), a scalar tensor; +inf where Δ is not allowed."""

    def prox(self, v: Tensor, tau: float) -> Tensor:
        """argmin_U  tau·c(U) + ½‖U − V‖²_F."""


class Penalised(ABC):
    """A structure g with its weight α and a quadratic term: c(Δ) = α·g(Δ) + ridge·‖Δ‖²_F, ridge = 1 − α.

    A subclass gives `_structure` (g) and `_shrink` (the prox of g for tau > 0). With α = 0 nothing is structured:
    g counts as 0 and shrink is the identity, also where g takes the value +∞. g is a norm or the indicator of a cone,
    so that at U = prox(V, tau) the cost is c(U) = ⟨V − U, U⟩/tau − ridge·‖U‖²_F, which needs no evaluation of g.
    """

    alpha: float

    @property
    def rotates(self) -> bool:
        """Whether c(Δ) = c(Δ·Q) for every rotation Q of the features: see `gsat.reduce`."""
        return False

    @property
    def ridge(self) -> float:
        """The weight of ‖Δ‖²_F in the cost."""
        return 1 - self.alpha

    def remembering(self) -> Penalised:
        """The same cost for one ascent, where each V is near the last one; it may begin with what it found there."""
        return self

    @property
    def memory(self) -> Subspace | None:
        """What it found there."""
        return None

    @abstractmethod
    def _structure(self, delta: Tensor) -> Tensor: ...

    @abstractmethod
    def _shrink(self, v: Tensor, tau: float) -> Tensor: ...

    def structure(self, delta: Tensor) -> Tensor:
        """g(Δ), a scalar tensor; +inf where Δ does not have the structure."""
        _checks.group("delta", delta)
        return self._structure(delta) if self.alpha > 0 else delta.new_zeros((), dtype=wide(delta))

    def value(self, delta: Tensor) -> Tensor:
        """c(Δ) = α·g(Δ) + ridge·‖Δ‖²_F, a scalar tensor."""
        return self.alpha * self.structure(delta) + self.ridge * norm(delta).square()

    def shrink(self, v: Tensor, tau: float) -> Tensor:
        """argmin_U  tau·g(U) + ½‖U − V‖²_F, of the shape of `v`; the identity at tau = 0."""
        _checks.group("v", v)
        tau = _checks.number("tau", tau, least=0)
        return self._shrink(v, tau) if tau > 0 and self.alpha > 0 else v.clone()

    def prox(self, v: Tensor, tau: float) -> Tensor:
        """argmin_U  tau·c(U) + ½‖U − V‖²_F = shrink(V/s, tau·α/s) with s = 1 + 2·tau·ridge."""
        _checks.group("v", v)
        tau = _checks.number("tau", tau, least=0)
        scale = 1 + 2 * tau * self.ridge
        v = v / scale  # the same name: what a solver made for this call alone is let go
        return self.shrink(v, tau * self.alpha / scale)


@dataclass(frozen=True)
class _Weighted(Penalised):
    alpha: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _checks.number("alpha", self.alpha, least=0, most=1))


@dataclass(frozen=True)
class Universal(_Weighted):
    """One shift moves every sample: g(Δ) = 0 if all rows are equal, else +∞."""

    @property
    def rotates(self) -> bool:
        """Equal rows stay equal."""
        return True

    def _structure(self, delta: Tensor) -> Tensor:
        matrix = rows(delta)
        return indicator((matrix - matrix.mean(0)).abs().amax(), matrix.abs().amax(), delta)

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        return v.mean(0, keepdim=True).expand_as(v).contiguous()


@dataclass(frozen=True)
class GroupSparse(_Weighted):
    """Few features move, in all samples at once: g(Δ) = Σ_j ‖Δ[:, j]‖₂.

    `feature_groups` gives a block to each of the d features: j then runs over blocks, and the norm is over samples and
    the columns of the block. With `k`, at most k columns (or blocks) move at all: g is 0 or +∞.
    """

    k: int | None = field(default=None, kw_only=True)
    feature_groups: Any = field(default=None, kw_only=True)
    _blocks: Tensor | None = field(init=False, repr=False, compare=False, default=None)
    _n_blocks: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None:
            object.__setattr__(self, "k", _checks.count("k", self.k))
        if self.feature_groups is not None:
            object.__setattr__(self, "feature_groups", flat_labels(self.feature_groups))
            object.__setattr__(self, "_blocks", block_numbers(self.feature_groups))
            object.__setattr__(self, "_n_blocks", len(set(self.feature_groups)))

    def norms(self, delta: Tensor) -> Tensor:
        """The Euclidean norm of each column, or of each block of columns in order of first appearance."""
        _checks.group("delta", delta)
        if isinstance(delta, Tensor) and not at_hand(delta):
            columns = _norms_unread(rows(delta))
        else:
            columns = norm(rows(delta), dim=0)
            if not in_range(float(norm(columns))):
                largest = float(norm(delta, order=math.inf))
                if 0 < largest < math.inf and largest != 1:
                    return self.norms(delta / largest) * largest
        if self._blocks is None:
            return columns.to(wide(delta))
        if len(self._blocks) != len(columns):
            raise ValueError(
                f"feature_groups must have one entry per feature ({len(columns)}), got {len(self._blocks)}"
            )
        squares = columns.new_zeros(self._n_blocks)
        return squares.index_add_(0, self._blocks.to(delta.device), columns.square()).sqrt().to(wide(delta))

    def count(self, columns: Tensor) -> int:
        """How many columns, or blocks of columns, these numbers of columns are."""
        return len(columns) if self._blocks is None else int(torch.unique(self._blocks[columns.cpu()]).numel())

    def _structure(self, delta: Tensor) -> Tensor:
        norms = self.norms(delta)
        if self.k is None:
            return norms.sum()
        if self.k >= len(norms):
            return norms.new_zeros(())
        return indicator(norms.kthvalue(len(norms) - self.k).values, norms.amax(), delta)

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        once = getattr(v, "by_norm", None) if self.k is None and self._blocks is None else None
        if once and (found := once(lambda norms: _soft(norms, tau))) is not None:  # a V that is not formed yet
            return cast(Tensor, found)
        norms = self.norms(v)
        if self.k is None:
            keep = _soft(norms, tau)
        else:
            largest = norms.topk(min(self.k, len(norms))).indices
            keep = torch.zeros_like(norms).index_fill_(0, largest, 1)
        if self._blocks is not None:
            keep = keep[self._blocks.to(v.device)]
        return (rows(v) * keep.to(v.dtype)).view_as(v)


@dataclass(frozen=True)
class LowRank(_Weighted):
    """A few shifts, mixed differently for each sample: g(Δ) = Σ_k σ_k(Δ), features flattened to (m, d).

    With `k`, the rank is at most k: g is 0 or +∞.
    """

    k: int | None = field(default=None, kw_only=True)
    _memory: Subspace | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None:
            object.__setattr__(self, "k", _checks.count("k", self.k))

    @property
    def rotates(self) -> bool:
        """Singular values stay as they are."""
        return True

    def remembering(self) -> LowRank:
        """Singular vectors are sought from the last ones."""
        twin = copy(self)
        object.__setattr__(twin, "_memory", Subspace())
        return twin

    @property
    def memory(self) -> Subspace | None:
        """Singular vectors."""
        return self._memory

    def _structure(self, delta: Tensor) -> Tensor:
        sigma = singular_values(rows(delta))
        if self.k is None:
            return sigma.sum().to(wide(delta))
        if self.k >= len(sigma):
            return delta.new_zeros((), dtype=wide(delta))
        return indicator(sigma[self.k], sigma[0], delta)

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        matrix = rows(v)
        if self.k is not None and self.k >= min(matrix.shape):
            return v.clone()
        rescale = rescale_singular_values if at_hand(v) else _unread.rescale_singular_values
        if self.k is not None:
            return rescale(matrix, First(self.k)).reshape(v.shape)
        return rescale(matrix, Soft(tau), self._memory).reshape(v.shape)


@dataclass(frozen=True)
class Unstructured(Penalised):
    """Every sample moves on its own: c(Δ) = ‖Δ‖²_F, ordinary distributional robustness."""

    alpha: float = field(init=False, repr=False, default=0.0)

    @property
    def rotates(self) -> bool:
        """Lengths stay as they are."""
        return True

    def _structure(self, delta: Tensor) -> Tensor:
        return delta.new_zeros((), dtype=wide(delta))

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        return v.clone()


def _soft(norms: Tensor, tau: float) -> Tensor:
    """By what a norm is multiplied that is to be shorter by tau, and not below 0."""
    least = torch.finfo(norms.dtype).tiny * torch.finfo(norms.dtype).eps  # above 0
    return (norms - tau).relu_() / norms.clamp(min=least)  # 0/0 reads as 0


def _norms_unread(v: Tensor) -> Tensor:
    """The norm of each column, float64, whatever its size and without a read."""
    if v.dtype != torch.float64:  # squares do not leave the range of float64
        return cast(Tensor, torch.linalg.vector_norm(v, dim=0, dtype=torch.float64))
    unit = torch.exp2(torch.frexp(norm(v, order=math.inf)).exponent.to(v.dtype) - 1)  # a power of 2: nothing is rounded
    return norm(v / unit, dim=0) * unit


def indicator(excess: Tensor, size: Tensor, delta: Tensor) -> Tensor:
    """0 where `excess` is at most the tolerance times `size`, else +inf."""
    tolerance = 1e-12 if delta.dtype == torch.float64 else max(1e-6, 4 * torch.finfo(delta.dtype).eps)
    allowed = excess.double() <= tolerance * size.double()
    return torch.where(allowed, 0.0, math.inf).to(wide(delta))


def flat_labels(labels: Any) -> tuple[Hashable, ...]:
    """One label per feature as a tuple; arrays and tensors may have the shape of a sample."""
    return tuple(labels.reshape(-1).tolist() if hasattr(labels, "reshape") else labels)


@lru_cache(maxsize=16)
def block_numbers(labels: tuple[Hashable, ...]) -> Tensor:
    """The labels as numbers 0, 1, ... in order of first appearance."""
    codes: dict[Hashable, int] = {}
    return torch.tensor([codes.setdefault(label, len(codes)) for label in labels])
