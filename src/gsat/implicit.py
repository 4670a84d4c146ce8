"""Perturbations that are a product with the weights W of a layer plus single columns, in the place of tensors.

No (m, d) array is held: products of two such perturbations go through W·Wᵀ, and with P = Q·R the norm of a column of
P·W is ‖R·w_j‖, which costs h² numbers per column instead of m·h. Nothing is approximated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gsat._numeric import norm
from gsat._spectrum import gram64

BLOCK = 512  # columns that are worked on at a time: what is made of them is small, and stays in the cache
SLACK = 1.2  # the columns held may be this many times those that move: iterates then match, often without a search
MOST = 0.5  # where a larger share of the columns moves, all are held, and none has to be picked out


class Layer:
    """The weights W (h, d) through which a perturbation is seen."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    @cached_property
    def gram(self) -> Tensor:
        """W·Wᵀ (h, h), float64."""
        return gram64(self.weight)

    @cached_property
    def every(self) -> Tensor:
        """The numbers of all columns."""
        return torch.arange(self.weight.shape[1], device=self.weight.device)

    def columns(self, index: Tensor) -> Tensor:
        """Columns of W, as rows: (s, h)."""
        return self.weight.T if len(index) == self.weight.shape[1] else self.weight.T[index]

    def norms(self, p: Tensor) -> Tensor:
        """The norm of each column of P·W: (d,)."""
        triangle = torch.linalg.qr(p, mode="r").R
        blocks = torch.split(self.weight, BLOCK, dim=1)
        return torch.cat([(triangle @ block).square_().sum(0) for block in blocks]).sqrt_()


class Columns:
    """Columns of an (m, d) array, the others 0: index (s,) ascending, values (s, m)."""

    def __init__(self, layer: Layer, index: Tensor, values: Tensor) -> None:
        self.layer, self.index, self.values = layer, index, values

    @cached_property
    def through(self) -> Tensor:
        """Their product with Wᵀ, (m, h)."""
        return (self.layer.columns(self.index).T @ self.values).T

    def among(self, index: Tensor, step: int) -> Iterator[Tensor]:
        """The values in the columns `index`, which contains that of these, `step` columns at a time: (step, m)."""
        n, m = len(index), self.values.shape[1]
        if n == len(self.index):
            yield from torch.split(self.values, step)
            return
        place = torch.searchsorted(index, self.index)
        ends = torch.searchsorted(place, torch.arange(0, n + step, step, device=index.device)).tolist()
        for begin, first, last in zip(range(0, n, step), ends, ends[1:], strict=False):
            part = self.values.new_zeros(min(step, n - begin), m)
            part[place[first:last] - begin] = self.values[first:last]
            yield part


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

    @cached_property
    def held(self) -> Tensor:
        """The columns `index` of V, as rows (s, m)."""
        if self.p is None and len(self.terms) == 1 and self.terms[0][0] == 1:
            return self.terms[0][1].values
        return self.taken(self.index)

    def taken(self, index: Tensor) -> Tensor:
        """Columns of V, all those that are held among them, as rows (len(index), m): an array of their own."""
        if self.p is not None and len(self.terms) == 1 and len(self.terms[0][1].index) == len(index):
            factor, columns = self.terms[0]
            return torch.addmm(columns.values, self.layer.columns(index), self.p.T, beta=factor)
        total = self.new_zeros(len(index), self.m) if self.p is None else self.layer.columns(index) @ self.p.T
        for factor, columns in self.terms:
            for part, values in zip(torch.split(total, BLOCK), columns.among(index, BLOCK), strict=True):
                part.add_(values, alpha=factor)
        return total

    def expand(self) -> Tensor:
        """V itself, (m, d)."""
        if len(self.index) == self.shape[1]:
            return self.held.T.clone(memory_format=torch.contiguous_format)
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
        terms = [(1.0, Columns(self.layer, of.index, of.values * factor.T * scale)) for scale, of in self.terms]
        return Implicit(self.layer, self.m, None if self.p is None else self.p * factor, *terms)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Implicit:
        return self * (1 / divisor if divisor else math.inf)

    def _keep(self, factor: Tensor) -> Implicit:
        """V·diag(factor), factor (d,): of P·W, only the columns with a factor other than 0 are formed."""
        if self.p is None:
            return self._with(self.index, self.held * factor[self.index][:, None])
        index = factor.nonzero().squeeze(1)
        joint = _union([index, self.index], self.layer)
        if len(index) > MOST * len(factor):
            index = self.layer.every
        elif len(joint) <= SLACK * len(index):
            index = joint
        values = self.held  # norms have been taken of it: overwritten and let go
        del self.held
        if len(index) == len(factor) > len(values):
            del values  # two of them would be twice as large as the group
            values = self.taken(index)
        elif not torch.equal(index, self.index):
            found = torch.isin(index, self.index, assume_unique=True)
            values = values[torch.searchsorted(self.index, index[found])]
            if not found.all():
                known, values = values, values.new_empty(len(index), self.m)
                values[found] = known
                values[~found] = self.layer.columns(index[~found]) @ self.p.T
        return self._with(index, values.mul_(factor[index][:, None]))

    def _with(self, index: Tensor, values: Tensor) -> Implicit:
        return Implicit(self.layer, self.m, None, (1.0, Columns(self.layer, index, values)))

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
    for parts in zip(*(columns.among(index, BLOCK) for _, columns in v.terms), strict=True):
        total = parts[0] if factors == [1] else parts[0] * factors[0]
        for factor, part in zip(factors[1:], parts[1:], strict=True):
            total.add_(part, alpha=factor)
        yield total


def _dot(a: Implicit, b: Implicit) -> Tensor:
    product = a.new_zeros((), dtype=torch.float64)
    for mine, others in _aligned(a, b):
        product += torch.dot(mine.reshape(-1), others.reshape(-1))
    if a.p is not None:
        product += (a.p * b.seen).sum()
    if b.p is not None and (through := a.through) is not None:
        product += (b.p * through).sum()
    return product


def _vector_norm(
    v: Implicit, order: float = 2, dim: int | None = None, keepdim: bool = False, *, dtype: torch.dtype
) -> Tensor:
    """The Euclidean norm of all entries, of each row (dim=1) or each column (dim=0); order inf: the largest entry."""
    if order == math.inf:
        entries = v.held if v.p is None else v.expand()  # asked for only where squares leave the range of the dtype
        return norm(entries, order=order) if entries.numel() else v.new_zeros((), dtype=dtype)
    if dim == 0:
        if v.p is None and len(v.terms) == 1:  # without a copy of the columns
            held = norm(v.terms[0][1].values, dim=1) * abs(v.terms[0][0])
        else:
            held = norm(v.held, dim=1)
        if len(held) == v.shape[1]:
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
    parts = [columns.values for _, columns in v.terms] + ([] if v.p is None else [v.p])
    factors = torch.tensor([math.isfinite(factor) for factor, _ in v.terms], device=v.device)
    return torch.cat([factors, *(torch.isfinite(part).all().reshape(1) for part in parts)])


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    torch.dot: _dot,
    torch.linalg.vector_norm: _vector_norm,
    torch.zeros_like: lambda v: Implicit(v.layer, v.m),
    torch.isfinite: _isfinite,
    torch.lerp: lambda a, b, weight, out=None: (1 - weight) * a + weight * b,
    torch.add: lambda a, b, alpha=1: a + alpha * b,
}
