"""The exact short-cut for models that see their input through one linear layer: the problem in its row space.

W·x + b sees a perturbation δ only through W. Where neither the cost nor the search depends on the choice of axes, every
iterate that starts at 0 stays in the row space of W. With Wᵀ = Q·R, Q (d, h) orthonormal, δ_i = Q·c_i: lengths,
angles, ranks and equal rows are those of c, and the first layer of c is R instead of W. Nothing is approximated, and a
step costs h numbers per sample instead of d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import cast

import torch
from torch import Tensor, nn

from gsat._arrays.norms import gram64, norm, rows
from gsat.models.first_layer import Model, first_layer, layer_output

EVEN = 1e-3  # where the diagonal of R spans more than this, W·Wᵀ has lost too many digits and W itself is decomposed
LEVEL = 0.1  # the same for W·Wᵀ summed in float32, which takes half the time


@dataclass(frozen=True)
class Basis:
    """Wᵀ = Q·R for the weights W (h, d) of a layer: Q itself, or R alone, from the Cholesky factor Rᵀ·R = W·Wᵀ."""

    weight: Tensor
    factor: Tensor  # R (h, h), float64 where Q is not kept
    q: Tensor | None = None  # (d, h)
    version: int | None = None  # of the weights, where they are the model's own

    @classmethod
    def of(cls, weight: Tensor, mask: Tensor | None = None) -> Basis:
        """The cheaper of the two that is precise; of the columns of W where the mask (d,) is True."""
        version = None
        if mask is not None:
            weight = weight * mask.to(weight.dtype)
        elif not weight.is_inference():
            version = weight._version
        if weight.dtype != torch.float64:
            if torch.get_float32_matmul_precision() == "highest":
                factor = _triangle((weight @ weight.T).double(), LEVEL)
                if factor is not None:
                    return cls(weight, factor, version=version)
            factor = _triangle(gram64(weight), EVEN)
            if factor is not None:
                return cls(weight, factor, version=version)
        q, r = torch.linalg.qr(weight.T)
        return cls(weight, r, q if mask is None else q * mask[:, None].to(q.dtype), version)  # rounding passes the mask

    @property
    def spanning(self) -> Tensor:
        """Rows that span the row space: (h, d)."""
        if self.q is not None:
            return self.q.T
        self.assert_unchanged()
        return self.weight

    def assert_unchanged(self) -> None:
        """Raise where the weights are no longer those that were decomposed."""
        if self.version is not None and self.weight._version != self.version:
            raise RuntimeError("a perturbation that was not kept must be asked for before the weights change")

    def multiples(self, c: Tensor) -> Tensor:
        """P with P·spanning = C·Qᵀ: (n, h) -> (n, h)."""
        return c if self.q is not None else _solve(self.factor.T, c, upper=False)

    def expand(self, c: Tensor) -> Tensor:
        """C·Qᵀ: (n, h) -> (n, d)."""
        return self.multiples(c) @ self.spanning

    def project(self, v: Tensor, seen: Tensor | None = None) -> Tensor:
        """V·Q: (n, d) -> (n, h); `seen` is V·Wᵀ where that is known."""
        if self.q is not None:
            return v @ self.q
        return _solve(self.factor, v @ self.weight.T if seen is None else seen, upper=True)

    def kept(self) -> Basis:
        """The same, whatever becomes of the weights."""
        return self if self.q is not None else replace(self, weight=self.weight.clone(), version=None)


@dataclass(frozen=True)
class RowSpace:
    """A group in coordinates of the row space of the first layer.

    x: (m, h), the group; outputs: of the model for coordinates (m, h) of the same samples
    """

    x: Tensor
    basis: Basis
    offset: Tensor  # (m, h), what of the first layer's output does not change with the coordinates
    head: Model

    @cached_property
    def factor(self) -> Tensor:
        """The first layer in these coordinates."""
        return self.basis.factor.to(self.x.dtype).contiguous()

    def seen(self, z: Tensor) -> Tensor:
        """What the first layer gives for the samples whose coordinates are z: (m, h)."""
        return torch.addmm(self.offset, z, self.factor)

    def outputs(self, z: Tensor) -> Tensor:
        """What the model returns for the samples whose coordinates are z."""
        return self.head(self.seen(z))

    def split(self, n: int) -> list[RowSpace]:
        """The group in parts of at most n samples."""
        parts = zip(torch.split(self.x, n), torch.split(self.offset, n), strict=True)
        return [RowSpace(x, self.basis, offset, self.head) for x, offset in parts]


@dataclass(frozen=True)
class Reduced:
    """The perturbation Δ = C·Qᵀ of a group, `compact` is C (m, h): a `gsat.moved.Form`."""

    space: RowSpace
    compact: Tensor

    @property
    def lengths(self) -> Tensor:
        """‖δ_i‖₂ for each sample, (m,)."""
        return norm(self.compact, dim=1)

    def expand(self) -> Tensor:
        """Δ (m, d)."""
        return self.space.basis.expand(self.compact)

    def later(self, *, kept: bool) -> Callable[[], Tensor]:
        """As `expand`, whatever becomes of the group and, if it is kept, of the weights."""
        basis = self.space.basis.kept() if kept else self.space.basis
        return partial(basis.expand, self.compact)

    def output(self) -> Tensor:
        """What the first layer gives at x + Δ: (m, h)."""
        self.space.basis.assert_unchanged()
        return self.space.seen(self.space.x + self.compact)

    def add_product(self, total: Tensor, g: Tensor) -> Tensor:
        """Add gᵀ·Δ to the total in place; total: (h, d), g: (m, h)."""
        basis = self.space.basis
        return total.addmm_(g.T @ basis.multiples(self.compact), basis.spanning)


def row_space(model: nn.Module, x: Tensor, mask: Tensor | None = None) -> RowSpace | None:
    """The group x (m, *features) as the first layer of `model` sees it, or None where that is not all it sees.

    The short-cut holds for an nn.Sequential that begins with nn.Linear (nn.Flatten, nn.Identity, nn.Dropout and
    nn.BatchNorm1d may stand before it), and for a module whose attribute `first_linear` is the nn.Linear through which
    alone it uses its input; the layer must have fewer outputs than inputs. The model must be in eval mode.
    mask: boolean (*features), True where the adversary may move
    """
    found = first_layer(model, x)
    if found is None:
        return None
    layer, head = found
    seen = layer_output(layer, x)
    basis = Basis.of(layer.weight.detach(), None if mask is None else mask.reshape(-1))
    product = None if mask is not None else seen if layer.bias is None else seen - layer.bias.detach()
    start = basis.project(rows(x), product)
    return RowSpace(start, basis, torch.addmm(seen, start, basis.factor.to(x.dtype), alpha=-1), head)


def _triangle(gram: Tensor, even: float) -> Tensor | None:
    """R with Rᵀ·R = gram; None where its diagonal spans more than `even`."""
    lower, info = torch.linalg.cholesky_ex(gram)
    least, most = lower.diagonal().aminmax()
    return lower.T if int(info) == 0 and float(least) > even * float(most) else None


def _solve(triangle: Tensor, right: Tensor, *, upper: bool) -> Tensor:
    """X with X·triangle = right, in the precision of the triangle; its rows lie in one piece each."""
    found = torch.linalg.solve_triangular(triangle, right.to(triangle.dtype), upper=upper, left=False)
    return cast(Tensor, found.to(right.dtype).contiguous())
