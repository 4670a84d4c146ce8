"""Perturbations that are a product with the weights W of a layer plus single columns, in the place of tensors.

No (m, d) array is held unless most columns move: products of two such perturbations go through W·Wᵀ, and with P = Q·R
the norm of a column of P·W is ‖R·w_j‖, which costs h² numbers per column instead of m·h. Nothing is approximated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gsat._arrays.norms import norm
from gsat.shortcuts.columns import Columns, Layer, Stride, Whole, along, summed

SLACK = 1.2  # the columns held may be this many times those that move: iterates then match, often without a search
MOST = 0.4  # where a larger share of the columns moves, all are held, and none has to be picked out


class Implicit:
    """V = P·W + Σ_k a_k·C_k for m samples: P (m, h) or None for 0, numbers a_k, and C_k of which few columns are held.

    It takes a tensor's place wherever solvers and `GroupSparse` use no more than sums, products with numbers, rows and
    columns of numbers, inner products and norms; torch refuses any other function. The entries count as a matrix
    (m, d), whatever shape is asked for. Sums and products with numbers leave the columns as they are.
    """

    ndim = 2

    def __init__(self, layer: Layer, m: int, p: Tensor | None = None, *terms: tuple[float, Columns]) -> None:
        self.layer, self.m, self.p, self.terms = layer, m, p, terms

    @property
    def shape(self) -> tuple[int, int]:
        return self.m, self.layer.weight.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        return self.layer.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.layer.weight.device

    def __len__(self) -> int:
        return self.m

    def numel(self) -> int:
        return math.prod(self.shape)

    def is_floating_point(self) -> bool:
        return True

    def new_zeros(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.layer.weight.new_zeros(*args, **kwargs)

    def reshape(self, *shape: int) -> Implicit:
        return self

    def view_as(self, other: Implicit) -> Implicit:
        return self

    def clone(self) -> Implicit:
        return self

    def to(self, dtype: torch.dtype) -> Implicit:
        return self  # float32 and float64 are kept as they are

    @cached_property
    def index(self) -> Tensor:
        """The columns that are held, (s,)."""
        return _union([columns.index for _, columns in self.terms], self.layer)

    @property
    def through(self) -> Tensor | None:
        """The product of the held columns with Wᵀ, (m, h), float64; None for 0."""
        total = None
        for factor, columns in self.terms:
            part = columns.through.double() * factor
            total = part if total is None else total.add_(part)
        return total

    @property
    def seen(self) -> Tensor:
        """V·Wᵀ (m, h), by how much the layer's output changes; float64."""
        through = self.through
        if self.p is None:
            return self.new_zeros(self.m, len(self.layer.weight), dtype=torch.float64) if through is None else through
        dense = self.p.double() @ self.layer.gram
        return dense if through is None else dense.add_(through)

    @property
    def all(self) -> bool:
        """Whether all columns are held."""
        return len(self.index) == self.shape[1]

    @cached_property
    def held(self) -> Tensor:
        """The columns `index` of V, as rows (s, m)."""
        if len(self.terms) == 1:
            factor, columns = self.terms[0]
            if self.p is not None:
                return (self.layer.columns(columns.index) @ self.p.T).add_(columns.values, alpha=factor)
            return columns.values if factor == 1 else columns.values * factor
        return torch.cat([self.new_zeros(0, self.m), *self.blocks(self.index)])

    @cached_property
    def stride(self) -> Stride | None:
        """V as a step from columns that are all held; None where it is none."""
        if self.p is None or len(self.terms) != 1 or not self.terms[0][1].all:
            return None
        factor, columns = self.terms[0]
        return Stride(columns, factor, self.p)

    def blocks(self, index: Tensor) -> Iterator[Tensor]:
        """Columns of V, all those that are held among them, to be looked at: (b, m) each."""
        sums = _sums(self, index)
        if self.p is None:
            yield from sums
            return
        for w in self.layer.parted(self.layer.columns(index)):
            product = w @ self.p.T
            yield product.add_(next(sums)) if self.terms else product

    def settle(self) -> None:
        """Form all columns that are held, for good: what is formed on demand needs W as it is now."""
        for _, columns in self.terms:
            columns.form()

    def moving(self) -> Tensor:
        """The numbers of the held columns that differ from 0."""
        found = [norm(part, dim=1, order=math.inf) > 0 for part in self.blocks(self.index)]
        return self.index[torch.cat(found)] if found else self.index

    def expand(self) -> Tensor:
        """V itself, (m, d)."""
        if self.all:
            full = self.new_zeros(*self.shape)
            for part, values in zip(self.layer.parted(full, dim=1), self.blocks(self.layer.every), strict=True):
                part.copy_(values.T)
            return full
        full = self.new_zeros(*self.shape) if self.p is None else self.p @ self.layer.weight
        return full.index_copy_(1, self.index, self.held.T)

    def __add__(self, other: Implicit) -> Implicit:
        p = self.p if other.p is None else other.p if self.p is None else self.p + other.p
        return Implicit(self.layer, self.m, p, *_merged(*self.terms, *other.terms))

    def __sub__(self, other: Implicit) -> Implicit:
        return self + -1.0 * other

    def __mul__(self, factor: float | Tensor) -> Implicit:
        if not isinstance(factor, Tensor) or factor.ndim == 0:
            p = None if self.p is None else self.p * factor
            number = float(factor)
            return Implicit(self.layer, self.m, p, *((number * scale, columns) for scale, columns in self.terms))
        if factor.ndim == 1:
            return self._keep(factor)
        terms = [(scale, columns.scaled(factor)) for scale, columns in self.terms]
        return Implicit(self.layer, self.m, None if self.p is None else self.p * factor, *terms)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Implicit:
        return self * (1 / divisor if divisor else math.inf)

    def by_norm(self, factor: Callable[[Tensor], Tensor]) -> Implicit | None:
        """V with each column times what `factor` makes of its norm, in one pass; None where it takes two."""
        found = None if self.stride is None else self.stride.by_norm(factor, MOST)
        return None if found is None else self._with(found)

    def _keep(self, factor: Tensor) -> Implicit:
        """V·diag(factor), factor (d,): of P·W, only the columns with a factor other than 0 are formed."""
        if self.p is None:
            return self._with(self._all(factor) if self.all else self._few(self.index, self.held, factor))
        index = factor.nonzero().squeeze(1)
        few, stride = len(index) <= MOST * len(factor), self.stride
        vars(self).pop("stride")  # norms have been taken of it: overwritten and let go
        if stride is not None:
            return self._with(stride.few(factor, index) if few else stride.all(factor))
        if not few:
            return self._with(self._all(factor))
        joint = _union([index, self.index], self.layer)
        index = joint if len(joint) <= SLACK * len(index) else index
        values = self.held
        del self.held  # as above
        if not torch.equal(index, self.index):
            found = torch.isin(index, self.index, assume_unique=True)
            values = values[torch.searchsorted(self.index, index[found])]
            if not found.all():
                known, values = values, values.new_empty(len(index), self.m)
                values[found] = known
                values[~found] = self.layer.columns(index[~found]) @ self.p.T
        return self._with(self._few(index, values, factor))

    def _few(self, index: Tensor, values: Tensor, factor: Tensor) -> Columns:
        origin = self.terms[0][1].token if len(self.terms) == 1 else None
        return Columns(self.layer, index, values * factor[index][:, None], origin=origin)

    def _all(self, factor: Tensor) -> Whole:
        """All columns of V·diag(factor); where V is a product alone, they are formed when they are asked for."""
        vars(self).pop("held", None)  # with it there would be twice as much as the group
        if self.p is not None and not self.terms:
            return Whole.of_product(self.layer, self.p, factor)
        parts = zip(self.blocks(self.layer.every), self.layer.parted(factor), strict=True)
        return Whole(self.layer, [part * f[:, None] for part, f in parts])

    def _with(self, columns: Columns) -> Implicit:
        return Implicit(self.layer, self.m, None, (1.0, columns))

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        known = _FUNCTIONS.get(func)
        return NotImplemented if known is None else known(*args, **(kwargs or {}))


def _merged(*terms: tuple[float, Columns]) -> list[tuple[float, Columns]]:
    """The sum of the terms, with each set of columns once."""
    total: dict[int, tuple[float, Columns]] = {}
    for factor, columns in terms:
        before = total.get(id(columns), (0.0, columns))[0]
        total[id(columns)] = (before + factor, columns)
    return [(factor, columns) for factor, columns in total.values() if factor != 0]


def _union(indices: list[Tensor], layer: Layer) -> Tensor:
    """The columns that are in any of them, ascending."""
    longest = max(indices, key=len, default=layer.every[:0])
    if all(len(index) == 0 or index is longest or torch.equal(index, longest) for index in indices):
        return longest
    if len(longest) == len(layer.every):
        return layer.every
    there = torch.zeros_like(layer.every, dtype=torch.bool)
    for index in indices:
        there[index] = True
    return there.nonzero().squeeze(1)


def _aligned(a: Implicit, b: Implicit) -> Iterator[tuple[Tensor, Tensor]]:
    """What a and b hold beside P·W, in all columns that one of them holds: some of the columns at a time."""
    if a.terms and b.terms:
        index = _union([a.index, b.index], a.layer)
        mine = _sums(a, index)
        yield from ((part, part) for part in mine) if a is b else zip(mine, _sums(b, index), strict=True)


def _sums(v: Implicit, index: Tensor) -> Iterator[Tensor]:
    """Σ_k a_k·C_k in the columns `index`, some of them at a time."""
    factors = [factor for factor, _ in v.terms]
    for parts in zip(*(columns.among(index) for _, columns in v.terms), strict=True):
        total = parts[0] if factors == [1] else parts[0] * factors[0]
        for factor, part in zip(factors[1:], parts[1:], strict=True):
            total.add_(part, alpha=factor)
        yield total


def _dot(a: Implicit, b: Implicit) -> Tensor:
    product = _along_a_step(a, b)
    if product is None:
        product = a.new_zeros((), dtype=torch.float64)
        for mine, others in _aligned(a, b):
            product += torch.dot(mine.reshape(-1), others.reshape(-1))
    if a.p is not None:
        product = product + (a.p * b.seen).sum()
    if b.p is not None and (through := a.through) is not None:
        product = product + (b.p * through).sum()
    return product


def _along_a_step(a: Implicit, b: Implicit) -> Tensor | None:
    """The product of what a and b hold beside P·W, where that is a trial U and the C from which it is a step S = U − C.

    α·U + β·C is (α + β)·U − β·S, and the products of U and S are found once.
    """
    if not a.terms or not b.terms:
        return None
    held = [columns for _, columns in (*a.terms, *b.terms)]
    for trial in held:
        others = [columns for columns in held if columns is not trial]
        if trial.origin is None or any(other.token is not trial.origin for other in others):
            continue
        if trial.products is None and others:
            index = _union([trial.index, others[0].index], a.layer)
            parts = zip(trial.among(index), others[0].among(index), strict=True)
            trial.products = summed([product for part, c in parts for product in along(part, c)])
        if trial.products is not None and bool(torch.isfinite(trial.products).all()):
            at, back = _parts_of(a, trial)
            of, away = _parts_of(b, trial)
            numbers = trial.products.new_tensor([at * of, -(at * away + back * of), back * away])
            return torch.dot(numbers, trial.products)
    return None


def _parts_of(v: Implicit, trial: Columns) -> tuple[float, float]:
    """α + β and β for what v holds, α·U + β·C."""
    return sum(factor for factor, _ in v.terms), sum(factor for factor, of in v.terms if of is not trial)


def _vector_norm(
    v: Implicit, order: float = 2, dim: int | None = None, keepdim: bool = False, *, dtype: torch.dtype
) -> Tensor:
    """The Euclidean norm of all entries, of each row (dim=1) or each column (dim=0); order inf: the largest entry."""
    if order == math.inf:  # asked for only where squares leave the range of the dtype
        parts = v.blocks(v.index if v.p is None else v.layer.every)
        found = [norm(part, order=order) for part in parts if part.numel()]
        return torch.stack([v.new_zeros((), dtype=dtype), *found]).amax()
    if dim == 0:
        if v.stride is not None:
            return v.stride.norms
        parts = v.blocks(v.index) if v.p is None else iter([v.held])
        held = torch.cat([v.new_zeros(0), *(norm(part, dim=1) for part in parts)])
        if v.all:
            return held
        columns = v.new_zeros(v.shape[1], dtype=dtype) if v.p is None else v.layer.norms(v.p)
        return columns.index_copy_(0, v.index, held)
    if dim is None:
        return _dot(v, v).clamp(min=0).sqrt().to(dtype)
    squares = v.new_zeros(v.m, dtype=torch.float64)
    for values, _ in _aligned(v, v):
        squares += norm(values, dim=0).double().square()
    if v.p is not None:
        through = v.through
        squares += (v.p * (v.seen if through is None else v.seen + through)).sum(1)
    return squares.clamp(min=0).sqrt().to(dtype).view(-1, 1) if keepdim else squares.clamp(min=0).sqrt().to(dtype)


def _isfinite(v: Implicit) -> Tensor:
    """Whether the numbers that make up V are finite."""
    found = [torch.isfinite(part).all() for _, columns in v.terms for part in columns.blocks()]
    found += [torch.tensor(math.isfinite(factor), device=v.device) for factor, _ in v.terms]
    return torch.stack([*found, *([] if v.p is None else [torch.isfinite(v.p).all()])])


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    torch.dot: _dot,
    torch.linalg.vector_norm: _vector_norm,
    torch.zeros_like: lambda v: Implicit(v.layer, v.m),
    torch.isfinite: _isfinite,
    torch.lerp: lambda a, b, weight, out=None: (1 - weight) * a + weight * b,
    torch.add: lambda a, b, alpha=1: a + alpha * b,
}
