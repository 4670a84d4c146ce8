"""The exact short-cut for models that see their input through one linear layer: the problem in its row space.

W·x + b sees a perturbation δ only through W. Where neither the cost nor the search depends on the choice of axes, every
iterate that starts at 0 stays in the row space of W. With Wᵀ = Q·R, Q (d, h) orthonormal, δ_i = Q·c_i: lengths,
angles, ranks and equal rows are those of c, and the model is head(W·x + b + Rᵀ·c). Nothing is approximated, and a step
costs h numbers per sample instead of d. In a metric A the layer is W·A, and δ_i = A·Q·c_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from gsat._arrays.norms import rows
from gsat.metric import Metric
from gsat.models.first_layer import FirstLayer
from gsat.solvers import Solver
from gsat.solvers.oracle import Loss

EVEN = 0.1  # where the diagonal of R spans more than this, W·Wᵀ has lost too many digits and W itself is decomposed


@dataclass(frozen=True)
class RowSpace:
    """A group in coordinates c of the row space of the first layer, counted from the group itself: a `Path`.

    x: (m, h), zeros; q: (d, h), the orthonormal basis Q; factor: (h, h), R; seen: (m, h), W·x + b; shift: (h, d), Qᵀ,
    or in a metric Qᵀ·A.
    """

    metric: ClassVar[None] = None  # the coordinates are taken in it

    x: Tensor
    q: Tensor
    factor: Tensor
    seen: Tensor
    shift: Tensor
    layer: FirstLayer
    shape: torch.Size  # of a sample
    mask: Tensor | None = None  # the basis is masked already

    @classmethod
    def of(cls, layer: FirstLayer, x: Tensor, mask: Tensor | None = None, metric: Metric | None = None) -> RowSpace:
        """The group x (m, *features) as the layer sees it; mask: boolean (*features), False where nothing may move."""
        weight = layer.weight if mask is None else layer.weight * mask.reshape(-1).to(x.dtype)
        weight = weight if metric is None else metric.apply(weight)
        q, factor = _orthonormal(weight)
        q = q if mask is None else q * mask.reshape(-1, 1).to(q.dtype)  # rounding passes the mask
        seen, shift = layer(x), q.T if metric is None else metric.apply(q.T.contiguous())
        return cls(torch.zeros_like(seen), q, factor, seen, shift, layer, x.shape[1:])

    def outputs(self, z: Tensor, part: slice = slice(None)) -> Tensor:
        """What the model returns for the samples of `part` whose coordinates are z."""
        return self.layer.head(torch.addmm(self.seen[part], z, self.factor))

    def project(self, v: Tensor) -> Tensor:
        """V·Q: (m, *features) -> (m, h)."""
        return rows(v) @ self.q

    def expand(self, delta: Tensor) -> Tensor:
        """C·Qᵀ, which is Z: (m, h) -> (m, *features)."""
        return (delta @ self.q.T).view(len(delta), *self.shape)

    def perturbation(self, delta: Tensor) -> Tensor:
        """C·Qᵀ·A, the perturbation with these coordinates: (m, h) -> (m, *features)."""
        return (delta @ self.shift).view(len(delta), *self.shape)

    def moved(self, x: Tensor, delta: Tensor) -> Tensor:
        """X + C·Qᵀ·A, the group x (m, *features) moved by the perturbation with these coordinates."""
        return torch.addmm(rows(x), delta, self.shift).view(x.shape)

    def solver_for(self, solver: Solver, loss: Loss, n_inner: int) -> Solver:
        """The solver itself."""
        return solver


def _orthonormal(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Q (d, h) and R (h, h) with Wᵀ = Q·R: by Cholesky's factor of W·Wᵀ where that is precise, else by QR."""
    if weight.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest":
        lower, info = torch.linalg.cholesky_ex((weight @ weight.T).double())
        least, most = lower.diagonal().aminmax()
        if int(info) == 0 and float(least) > EVEN * float(most):
            eye = torch.eye(len(lower), dtype=lower.dtype, device=lower.device)
            inverse = torch.linalg.solve_triangular(lower.T, eye, upper=True)
            return weight.T @ inverse.to(weight.dtype), lower.T.to(weight.dtype).contiguous()
    q, r = torch.linalg.qr(weight.T)
    return cast(Tensor, q), cast(Tensor, r).contiguous()
