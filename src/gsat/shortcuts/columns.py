"""The short-cut for costs of whole columns behind a linear first layer: the ascent in the row space of that layer.

With Wᵀ = Q·R as in `row_space`, the gradient of the losses in Δ is G·Qᵀ with G (m, h). A group-sparse Δ leaves the row
space, but every one that can be a maximiser is made by a matrix C (m, h) in it: where S has a maximum, Δ is what shrink
makes of the gradient there, Δ = shrink(C·Qᵀ, α/(2·ridge)) with C = G/(2λ·ridge). Shrink only scales columns, so

    Δ(C) = C·Qᵀ·diag(k),    k_j = the factor of a column whose norm is ‖C·q_j‖, q_j row j of Q,
    P(C) = Δ(C)·Q = C·(Qᵀ·diag(k)·Q),    the image of Δ: all that the model sees of it.

The ascent moves C as proximal ascent moves Δ without a structure, C ← (C + ηG)/(1 + 2ηλ·ridge): mirror ascent, with the
cost itself as the mirror map. Its fixed points are those of proximal ascent, and so is its step rule: in it ‖U − Δ‖² is
⟨C_U − C_Δ, P_U − P_Δ⟩ ≥ 0, and a gradient meets a step by its image. A step costs a few products of (d, h) and (h, h)
matrices; nothing of the size (m, d) is made before the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from gsat._arrays.norms import finite, length, norm
from gsat._ranks import ALONE, shared, sharing
from gsat.costs import Penalised
from gsat.shortcuts.row_space import RowSpace
from gsat.solvers.base import Point, raise_if_stuck, start
from gsat.solvers.oracle import Oracle
from gsat.solvers.proximal import Proximal, ProximalState, Trial
from gsat.solvers.starts import free

SHORT = 100  # times the precision and ‖x‖_F: so short is the shortest step
JITTER = 1e-15  # times h and the trace of CᵀC, on its diagonal: C may have fewer than h directions


class Placed(NamedTuple):
    """What C stands for: the image P(C), the factor of each column (d,), c(Δ(C)) and ‖Δ(C)‖."""

    image: Tensor
    factor: Tensor
    value: float
    size: float


@dataclass(frozen=True)
class ColumnAscent(Proximal):
    """`Proximal` with iterates C (m, h) in place of Δ.

    space: the row space; seen: the losses of images in it; columns: the cost of a row of column norms (1, d)
    """

    space: RowSpace = field(kw_only=True)
    seen: Oracle = field(kw_only=True)
    columns: Penalised = field(kw_only=True)

    def place(self, c: Tensor) -> Placed:
        """P(C), the factors k, c(Δ(C)) and ‖Δ(C)‖; the norms ‖C·q_j‖ come from the triangle of CᵀC."""
        q = self.space.q  # what follows the sum is the same on every rank
        gram = sharing().summed(c.T.double() @ c.double())
        gram.diagonal().add_(JITTER * len(gram) * float(gram.diagonal().sum()) + torch.finfo(gram.dtype).tiny)
        lower, failed = torch.linalg.cholesky_ex(gram)  # it fails where C is not finite
        norms = norm(q @ lower.to(q.dtype), dim=1) if int(failed) == 0 else q.new_full((len(q),), math.nan)  # (d,)
        with shared(ALONE):
            shrunk = self.columns.shrink(norms[None], self.columns.alpha / (2 * self.columns.ridge))  # (1, d)
            value, size = float(self.columns.value(shrunk)), float(length(shrunk))
        factor = shrunk[0] / torch.where(norms > 0, norms, 1)  # 0/0 reads as 0
        moving = factor.nonzero()[:, 0]
        few = q if 2 * len(moving) > len(q) else q[moving]
        scaled = few * (factor if few is q else factor[moving])[:, None]
        return Placed(c @ (few.T @ scaled), factor, value, size)

    def _zero(self, oracle: Oracle) -> Point:
        zero = start(self.seen)
        oracle.at_zero, oracle.n_gradients = zero.losses, self.seen.n_gradients
        return zero

    def _relaxed(self, oracle: Oracle, cost: Penalised, zero: Point, lam: float) -> Point | None:
        """As `starts.blended`: from a trial without a structure, its share grows to 1 in a few gradients."""
        n = min(self.relax, oracle.n_inner // 4)
        image, c, placed = free(cost, zero.gradient, lam), zero.delta, None
        for phase in range(1, n + 1):
            losses, gradient = self._evaluate(oracle, image)
            if not finite(losses, gradient):
                return None
            c = gradient / (2 * lam * cost.ridge)
            placed = self.place(c)
            image = torch.lerp(c, placed.image, phase / n)
        if placed is None or not placed.size < oracle.reach:
            return None
        return Point.at(c, *self._evaluate(oracle, image), penalty=lam * placed.value, image=image)

    def _propose(self, cost: Penalised, state: ProximalState, lam: float) -> Trial:
        here, eta = state.here, state.eta
        c = torch.add(here.delta, here.gradient, alpha=eta) / (1 + 2 * eta * lam * cost.ridge)
        placed = self.place(c)
        move, seen = (a.double() - b.double() for a, b in ((c, here.delta), (placed.image, here.image)))
        products = (move * seen).sum(), (here.gradient.double() * seen).sum()
        square, rise = sharing().sums(*map(float, products))
        return Trial(c, placed.image, max(square, 0.0), placed.size, rise, lam * placed.value)

    def _evaluate(self, oracle: Oracle, image: Tensor) -> tuple[Tensor, Tensor]:
        losses, gradient = self.seen(image)
        oracle.n_gradients = self.seen.n_gradients
        if finite(image) and not finite(losses, gradient):
            # a step of C that is shorter may move nothing: look next to Δ = 0 itself
            shortest = SHORT * torch.finfo(image.dtype).eps * oracle.size
            if not finite(self.seen.losses(image * (shortest / float(norm(image))))):
                raise_if_stuck(0.0, oracle)
        return losses, gradient

    def _features(self, cost: Penalised, delta: Tensor) -> Tensor:
        """Δ(C), (m, *features)."""
        return self.space.expand(delta) * self.place(delta).factor.view(self.space.shape)
