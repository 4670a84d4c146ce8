"""The attacks' feasible sets: a structure shared by the samples of a group, with ‖δ_i‖₂ ≤ eps for each of them.

The samples may lie on several ranks (`_ranks`): parts are found from sums over all of them.

A ball knows the shared part of a perturbation (the columns that move, the subspace), finds the part along which given
gradients are steepest, and restricts a perturbation to a part. Scaling rows keeps every structure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize

from gsat._arrays.chunks import at_a_time
from gsat._arrays.norms import in_any, largest, mean_row, norm, size, total
from gsat._arrays.svd import right_singular_vectors, truncate_singular_values
from gsat._ranks import sharing
from gsat.costs import block_numbers

ROUNDS = 4  # reweightings in the search for the steepest part
TRIES = 8  # subspaces to begin that search with


class Ball(Protocol):
    """A structure across the rows of (m, d) matrices."""

    rows_are_free: ClassVar[bool]  # in a given part each row may be chosen on its own
    rotates: ClassVar[bool]  # a rotation of the features keeps the structure
    clips: ClassVar[bool]  # cutting single entries keeps the structure

    def part(self, gradient: Tensor) -> Tensor:
        """The shared part along which Σ_i max_{‖δ_i‖ ≤ 1} ⟨g_i, δ_i⟩ is largest, or nearly so."""

    def restrict(self, v: Tensor, part: Tensor) -> Tensor:
        """The perturbation closest to v whose shared part is `part`."""

    def nearest(self, v: Tensor) -> Tensor:
        """The perturbation closest to v that has the structure, whatever its shared part."""

    def shared(self, delta: Tensor) -> Tensor:
        """The shared part of a perturbation that has the structure."""


@dataclass(frozen=True)
class Free:
    """No structure: nothing is shared."""

    rows_are_free: ClassVar[bool] = True
    rotates: ClassVar[bool] = True
    clips: ClassVar[bool] = True

    def part(self, gradient: Tensor) -> Tensor:
        """Empty."""
        return gradient.new_empty(0)

    def restrict(self, v: Tensor, part: Tensor) -> Tensor:
        """`v` itself."""
        return v

    def nearest(self, v: Tensor) -> Tensor:
        """`v` itself."""
        return v

    def shared(self, delta: Tensor) -> Tensor:
        """Empty."""
        return delta.new_empty(0)


@dataclass(frozen=True)
class Equal:
    """All rows are equal. The part is empty while the row is sought, or the row (d,) itself."""

    rows_are_free: ClassVar[bool] = False
    rotates: ClassVar[bool] = True
    clips: ClassVar[bool] = False

    def part(self, gradient: Tensor) -> Tensor:
        """Empty: `restrict` finds the row."""
        return gradient.new_empty(0)

    def restrict(self, v: Tensor, part: Tensor) -> Tensor:
        """The mean row in every row."""
        return self.nearest(v)

    def nearest(self, v: Tensor) -> Tensor:
        """The mean row in every row."""
        return mean_row(v).expand_as(v).contiguous()

    def shared(self, delta: Tensor) -> Tensor:
        """Empty."""
        return delta.new_empty(0)


@dataclass(frozen=True)
class Columns:
    """At most k columns, or blocks of columns, are non-zero. The part is a mask (d,) of zeros and ones."""

    rows_are_free: ClassVar[bool] = True
    rotates: ClassVar[bool] = False
    clips: ClassVar[bool] = True

    k: int
    feature_groups: tuple[Hashable, ...] | None = None

    def part(self, gradient: Tensor) -> Tensor:
        """The mask of the k columns, or blocks, with the largest reweighted energy."""
        blocks = self._blocks(gradient)

        def heaviest(weights: Tensor) -> Tensor:
            return self._top(sharing().summed(weights @ gradient.square()), blocks)

        lengths = gradient.new_zeros(len(gradient), int(blocks.max()) + 1).index_add_(1, blocks, gradient.square())
        first = self._top(sharing().summed(lengths.sqrt().sum(0)))[blocks]
        return _steepest(self, gradient, heaviest, first)  # which is exact for k = 1

    def restrict(self, v: Tensor, part: Tensor) -> Tensor:
        """`v` in the columns of the mask."""
        return v * part

    def nearest(self, v: Tensor) -> Tensor:
        """`v` in the k columns, or blocks, of the largest norms."""
        return v * self._top(norm(v, dim=0).square().to(v.dtype), self._blocks(v))

    def shared(self, delta: Tensor) -> Tensor:
        """The mask of the columns that move."""
        return in_any(delta != 0).to(delta.dtype)

    def _blocks(self, v: Tensor) -> Tensor:
        """The number of each column's block."""
        d = v.shape[1]
        if self.feature_groups is None:
            return torch.arange(d, device=v.device)
        if len(self.feature_groups) != d:
            raise ValueError(f"feature_groups must have one entry per feature ({d}), got {len(self.feature_groups)}")
        return block_numbers(self.feature_groups).to(v.device)

    def _top(self, energy: Tensor, blocks: Tensor | None = None) -> Tensor:
        """The mask of the k largest entries; with blocks that of the columns of the k blocks with the largest sums."""
        if blocks is not None:
            summed = energy.new_zeros(int(blocks.max()) + 1).index_add_(0, blocks, energy)
            return self._top(summed)[blocks]
        return torch.zeros_like(energy).index_fill_(0, energy.topk(min(self.k, len(energy))).indices, 1)


@dataclass(frozen=True)
class Subspace:
    """The rows lie in one subspace of at most `rank` dimensions. The part is an orthonormal basis (rank, d)."""

    rows_are_free: ClassVar[bool] = True
    rotates: ClassVar[bool] = True
    clips: ClassVar[bool] = False

    rank: int

    def part(self, gradient: Tensor) -> Tensor:
        """The leading right singular vectors of the reweighted gradient, or a better subspace.

        Σ_i ‖P g_i‖ has many local maxima. Each of TRIES subspaces, the first of them the reweighted one, climbs by
        P = span(Gᵀ·U), U_i = P g_i/‖P g_i‖, which never loses. It lies in the span of the gradients, so that with more
        features than samples all is done in coordinates of that.
        """
        if sharing().alone and gradient.shape[1] > 2 * len(gradient):
            frame, triangle = torch.linalg.qr(gradient.T)
            return cast(Tensor, self.part(triangle.T) @ frame.T)
        begin, m = sharing().places(len(gradient))
        rank = min(self.rank, m, gradient.shape[1])
        first = _steepest(self, gradient, lambda w: right_singular_vectors(w.sqrt()[:, None] * gradient, rank))
        if rank == min(m, gradient.shape[1]):
            return first
        drawn = torch.randn(TRIES - 1, m, rank, generator=Generator().manual_seed(0)).to(gradient)
        mixed = torch.cat([(gradient @ first.T)[None], drawn[:, begin : begin + len(gradient)]])
        for _ in range(ROUNDS):
            spanned = gradient.T @ normalize(mixed, dim=2, eps=1e-30)
            bases = torch.linalg.qr(sharing().summed(spanned)).Q  # (TRIES, d, rank)
            mixed = gradient @ bases
        best = int(sharing().summed(norm(mixed, dim=2).sum(1)).argmax())
        return cast(Tensor, bases[best].T.contiguous())

    def restrict(self, v: Tensor, part: Tensor) -> Tensor:
        """Each row's projection on the subspace."""
        return (v @ part.T) @ part

    def nearest(self, v: Tensor) -> Tensor:
        """The matrix of the rank that is nearest to v."""
        return truncate_singular_values(v, self.rank)

    def shared(self, delta: Tensor) -> Tensor:
        """An orthonormal basis of the rows' span."""
        return right_singular_vectors(delta, min(self.rank, size(delta), delta.shape[1]))


def unit_rows(v: Tensor) -> Tensor:
    """Each row divided by its norm; a row of zeros stays so."""
    v, lengths = _directed(v)
    return v.div_(lengths)


def inside(v: Tensor, eps: float) -> Tensor:
    """Rows longer than eps scaled to eps."""
    return v * _cut(v, eps)


def walk(delta: Tensor, gradient: Tensor, step: float, eps: float) -> None:
    """δ_i ← δ_i + step·g_i/‖g_i‖ in place, rows longer than eps scaled to eps; a few rows at a time, as small parts."""
    n = at_a_time(delta.shape[1])
    for rows, slope in zip(torch.split(delta, n), torch.split(gradient, n), strict=True):
        direction, lengths = _directed(slope)
        rows.addcmul_(direction, step / lengths)
        rows.mul_(_cut(rows, eps))


def _directed(v: Tensor) -> tuple[Tensor, Tensor]:
    """New rows of the same directions whose squares neither overflow nor underflow, and their norms (1 for zeros)."""
    unit = largest(v, dim=1, keepdim=True).to(v.dtype)
    v = v / torch.where(unit > 0, unit, 1)
    lengths = norm(v, dim=1, keepdim=True).to(v.dtype)
    return v, torch.where(lengths > 0, lengths, 1)


def _cut(v: Tensor, eps: float) -> Tensor:
    """What scales rows longer than eps to eps."""
    lengths = norm(v, dim=1, keepdim=True).to(v.dtype)
    return eps / torch.where(lengths > eps, lengths, eps if eps > 0 else 1)


def _steepest(ball: Ball, gradient: Tensor, best: Callable[[Tensor], Tensor], first: Tensor | None = None) -> Tensor:
    """The part P that makes Σ_i ‖P g_i‖ large, by a few rounds of P = argmax Σ_i w_i·‖P g_i‖², w_i = 1/‖P g_i‖.

    `first` is a part to compare with.
    """
    full = norm(gradient, dim=1).to(gradient.dtype)
    tiny = torch.finfo(gradient.dtype).tiny ** 0.25
    weights = 1 / full.clamp(min=tiny).square()  # at first every sample counts the same
    found: list[tuple[float, Tensor]] = []
    if first is not None:
        found.append((float(total(norm(ball.restrict(gradient, first), dim=1))), first))
    for _ in range(ROUNDS):
        part = best(weights)
        reached = norm(ball.restrict(gradient, part), dim=1).to(gradient.dtype)
        found.append((float(total(reached)), part))
        weights = 1 / torch.maximum(reached, 1e-3 * full).clamp(min=tiny)
    return max(found, key=lambda pair: pair[0])[1]
