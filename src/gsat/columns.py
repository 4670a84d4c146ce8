"""Columns of (m, d) arrays as the group-sparse short-cut keeps them: a few, or all of them in parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from gsat._numeric import gram64, norm

BLOCK = 1024  # columns that are worked on at a time at the most: what is made of them stays in the cache
PARTS = 16  # in which columns are worked on at the least, so that what is made of one is small beside all
FORMED = 0.75  # of the parts of a trial: the rest is formed three times, which takes a tenth of the time


def parted(v: Tensor, dim: int = 0) -> Sequence[Tensor]:
    """V in parts along `dim`, along which the columns of the group lie."""
    return torch.split(v, block(v.shape[dim]), dim)


def block(n: int) -> int:
    """How many of n columns are worked on at a time."""
    return max(1, min(BLOCK, math.ceil(n / PARTS)))


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

    @property
    def parts(self) -> Sequence[Tensor]:
        """All columns of W, as rows: (b, h) each."""
        return parted(self.weight.T)

    def columns(self, index: Tensor) -> Tensor:
        """Columns of W, as rows: (s, h)."""
        return self.weight.T if len(index) == self.weight.shape[1] else self.weight.T[index]

    def norms(self, p: Tensor) -> Tensor:
        """The norm of each column of P·W: (d,)."""
        triangle = torch.linalg.qr(p, mode="r").R
        return torch.cat([(triangle @ part.T).square_().sum(0) for part in self.parts]).sqrt_()


class Columns:
    """Columns of an (m, d) array, the others 0: index (s,) ascending, values (s, m)."""

    def __init__(self, layer: Layer, index: Tensor, values: Tensor) -> None:
        self.layer, self.index, self.values = layer, index, values
        self.token = object()  # by which a trial knows where it came from, without holding it

    @property
    def all(self) -> bool:
        """Whether no column is left out."""
        return len(self.index) == self.layer.weight.shape[1]

    def form(self) -> Sequence[Tensor]:
        """The values, to be kept: (b, m) each."""
        return parted(self.values)

    def blocks(self) -> Iterator[Tensor]:
        """The values, to be looked at: (b, m) each."""
        yield from self.form()

    @cached_property
    def through(self) -> Tensor:
        """Their product with Wᵀ, (m, h)."""
        return (self.layer.columns(self.index).T @ self.values).T

    def scaled(self, rows: Tensor) -> Columns:
        """The columns with each sample times its number, rows (m, 1)."""
        return Columns(self.layer, self.index, self.values * rows.T)

    def among(self, index: Tensor) -> Iterator[Tensor]:
        """The values in the columns `index`, which contains that of these: (b, m) each."""
        n, step = len(index), block(len(index))
        if n == len(self.index):
            yield from self.blocks()
            return
        place = torch.searchsorted(index, self.index)
        ends = torch.searchsorted(place, torch.arange(0, n + step, step, device=index.device)).tolist()
        for begin, first, last in zip(range(0, n, step), ends, ends[1:], strict=False):
            part = self.values.new_zeros(min(step, n - begin), self.values.shape[1])
            part[place[first:last] - begin] = self.values[first:last]
            yield part


class Piece(NamedTuple):
    """Some columns of diag(f)·(a·C + P·W), as rows: how they are formed."""

    c: Tensor | None  # (b, m), None for 0
    w: Tensor  # (b, h)
    p: Tensor  # (m, h)
    a: float
    f: Tensor | None = None  # (b,), None for 1

    def form(self) -> Tensor:
        """(b, m), an array of its own."""
        found = self.w @ self.p.T if self.c is None else torch.addmm(self.c, self.w, self.p.T, beta=self.a)
        return found if self.f is None else found.mul_(self.f[:, None])


class Whole(Columns):
    """All columns, in parts of which some are not formed yet.

    Those are formed anew each time they are looked at. `form` forms them for good, and lets what they are made of go
    one by one: where a trial has taken the place of the iterate from which it was made, nothing else holds that.
    through:  their product with Wᵀ, (m, h), where it is known
    origin:   the token of the columns from which these are a step
    products: ‖U‖², ⟨U, S⟩ and ‖S‖², U these columns and S that step
    """

    def __init__(
        self,
        layer: Layer,
        formed: list[Tensor],
        rest: Sequence[Piece] = (),
        *,
        through: Tensor | None = None,
        origin: object = None,
        products: Tensor | None = None,
    ) -> None:
        self.layer, self.index, self.token = layer, layer.every, object()
        self._formed, self._rest = formed, list(rest)
        self.origin, self.products = origin, products
        if through is not None:
            self.through = through

    @classmethod
    def of_product(cls, layer: Layer, p: Tensor, factor: Tensor) -> Whole:
        """P·W·diag(factor), of which nothing is formed: through is P·(W·diag(factor)·Wᵀ)."""
        pieces = [Piece(None, w, p, 0.0, f) for w, f in zip(layer.parts, parted(factor), strict=True)]
        square = p.new_zeros(p.shape[1], p.shape[1])
        for w, f in zip(layer.parts, parted(factor), strict=True):
            square.addmm_(w.T * f, w)
        return cls(layer, [], pieces, through=p @ square)

    def form(self) -> Sequence[Tensor]:
        """All of them, formed for good."""
        while self._rest:
            self._formed.append(self._rest[0].form())
            del self._rest[0]
        return self._formed

    @property
    def values(self) -> Tensor:  # type: ignore[override]
        """All of them in one array, which is made anew."""
        return torch.cat(list(self.blocks()))

    def blocks(self) -> Iterator[Tensor]:
        """Those that are formed, and the others for as long as they are looked at."""
        yield from self._formed
        for piece in self._rest:
            yield piece.form()

    @cached_property
    def through(self) -> Tensor:
        """Their product with Wᵀ, (m, h)."""
        parts = zip(self.blocks(), self.layer.parts, strict=True)
        first, w = next(parts)
        total = w.T @ first
        for part, w in parts:
            total.addmm_(w.T, part)
        return total.T

    def scaled(self, rows: Tensor) -> Whole:
        """The columns with each sample times its number, rows (m, 1)."""
        return Whole(self.layer, [part * rows.T for part in self.blocks()])


class Stride:
    """V = a·C + P·W for columns C that are all there: most parts of it, and the norms of its columns."""

    def __init__(self, base: Columns, a: float, p: Tensor) -> None:
        self.base = base
        self.pieces = [Piece(c, w, p, a) for c, w in zip(base.form(), base.layer.parts, strict=True)]
        self.formed: list[Tensor] = []
        most, norms = int(FORMED * len(self.pieces)), []
        for place, piece in enumerate(self.pieces):
            part = piece.form()
            norms.append(norm(part, dim=1))
            self.formed += [part] if place < most else []
        self.norms = torch.cat(norms)

    def few(self, factor: Tensor, index: Tensor) -> Columns:
        """V·diag(factor), of which no other columns than `index` differ from 0."""
        values = []
        for piece, chosen in zip(self.pieces, parted(torch.isin(self.base.index, index)), strict=True):
            part = self.formed.pop(0) if self.formed else piece.form()
            values.append(part[chosen])
        return Columns(self.base.layer, index, torch.cat(values).mul_(factor[index][:, None]))

    def all(self, factor: Tensor) -> Whole:
        """V·diag(factor), and what a solver asks of it, in one pass; what was formed of V is overwritten."""
        layer, rest = self.base.layer, []
        through = self.norms.new_zeros(len(layer.weight), len(self.pieces[0].p))
        products = self.norms.new_zeros(3, dtype=torch.float64)
        for place, (c, piece, f) in enumerate(zip(self.base.form(), self.pieces, parted(factor), strict=True)):
            if place < len(self.formed):
                part = self.formed[place].mul_(f[:, None])
            else:
                rest.append(piece._replace(f=f))
                part = rest[-1].form()
            through.addmm_(piece.w.T, part)
            products += _products(part, c)
            del part  # before the next one is formed
        return Whole(layer, self.formed, rest, through=through.T, origin=self.base.token, products=products)


def _products(part: Tensor, c: Tensor) -> Tensor:
    """‖U‖², ⟨U, S⟩ and ‖S‖² for some columns U and the step S = U − C to them."""
    at, step = part.reshape(-1), (part - c).reshape(-1)
    return torch.stack([torch.dot(at, at), torch.dot(at, step), torch.dot(step, step)])
