"""Columns of (m, d) arrays as the group-sparse short-cut keeps them: a few, or all of them in parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from gsat._arrays.norms import gram64, in_range, norm

BLOCK = 1024  # columns that are worked on at a time at the most: what is made of them stays in the cache
PARTS = 16  # in which columns are worked on at the least, so that what is made of one is small beside all
FORMED = 0.8  # of the parts of a trial: the rest is formed twice, and only for as long as it is looked at


class Layer:
    """The weights W (h, d) through which a perturbation is seen."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.step = min(BLOCK, math.ceil(weight.shape[1] / PARTS))  # columns that are worked on at a time

    def parted(self, v: Tensor, dim: int = 0) -> Sequence[Tensor]:
        """V in parts along `dim`, along which columns of the group lie: all, or some of them."""
        return torch.split(v, self.step, dim)

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
        return self.parted(self.weight.T)

    def columns(self, index: Tensor) -> Tensor:
        """Columns of W, as rows: (s, h)."""
        return self.weight.T if len(index) == self.weight.shape[1] else self.weight.T[index]

    def norms(self, p: Tensor) -> Tensor:
        """The norm of each column of P·W: (d,)."""
        triangle = torch.linalg.qr(p, mode="r").R
        return torch.cat([(triangle @ part.T).square_().sum(0) for part in self.parts]).sqrt_()


class Columns:
    """Columns of an (m, d) array, the others 0: index (s,) ascending, values (s, m).

    origin:   the token of the columns from which these are a step; it tells where they came from without holding it
    products: ‖U‖², ⟨U, S⟩ and ‖S‖², U these columns and S that step, where they are known
    """

    def __init__(self, layer: Layer, index: Tensor, values: Tensor, *, origin: object = None) -> None:
        self.layer, self.index, self.values = layer, index, values
        self.token, self.origin = object(), origin
        self.products: Tensor | None = None

    @property
    def all(self) -> bool:
        """Whether no column is left out."""
        return len(self.index) == self.layer.weight.shape[1]

    def form(self) -> Sequence[Tensor]:
        """The values, to be kept: (b, m) each."""
        return self.layer.parted(self.values)

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
        n, step = len(index), self.layer.step
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
        found = self.w @ self.p.T
        if self.c is not None:
            found.add_(self.c, alpha=self.a)  # faster than addmm, which copies C first
        return found if self.f is None else found.mul_(self.f[:, None])


class Whole(Columns):
    """All columns, in parts of which some are not formed yet.

    Those are formed anew each time they are looked at. `form` forms them for good, and lets what they are made of go
    one by one: where a trial has taken the place of the iterate from which it was made, nothing else holds that.
    through: their product with Wᵀ, (m, h), where it is known
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
        factors = layer.parted(factor)
        pieces = [Piece(None, w, p, 0.0, f) for w, f in zip(layer.parts, factors, strict=True)]
        square = p.new_zeros(p.shape[1], p.shape[1])
        for w, f in zip(layer.parts, factors, strict=True):
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

    def given_up(self) -> Iterator[Tensor]:
        """As `blocks`, for the last time: each is let go as soon as it has been looked at."""
        while self._formed:
            yield self._formed.pop(0)
        while self._rest:
            yield self._rest.pop(0).form()

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
    """V = a·C + P·W for columns C that are all there, on the way to a trial V·diag(factor)."""

    def __init__(self, base: Columns, a: float, p: Tensor) -> None:
        self.base = base
        self.pieces = [Piece(c, w, p, a) for c, w in zip(base.form(), base.layer.parts, strict=True)]
        self.most = int(FORMED * len(self.pieces))
        self.formed: list[Tensor] = []  # the first parts of V, up to `most`

    @cached_property
    def norms(self) -> Tensor:
        """The norm of each column of V: (d,). Most parts of V are kept."""
        norms = []
        for place, piece in enumerate(self.pieces):
            part = piece.form()
            norms.append(norm(part, dim=1))
            self.formed += [part] if place < self.most else []
        return torch.cat(norms)

    def few(self, factor: Tensor, index: Tensor) -> Columns:
        """V·diag(factor), of which no other columns than `index` differ from 0."""
        parts = (self._part(place) for place in range(len(self.pieces)))
        values = self._picked(parts, index).mul_(factor[index][:, None])
        return Columns(self.base.layer, index, values, origin=self.base.token)

    def all(self, factor: Tensor) -> Whole:
        """V·diag(factor), and what a solver asks of it; what was formed of V is overwritten."""
        factors = self.base.layer.parted(factor)
        return self._scaled(lambda place, _: factors[place])

    def by_norm(self, factor: Callable[[Tensor], Tensor], few: float) -> Columns | None:
        """V with each column times what `factor` makes of its norm, so that V is gone through once.

        Where no more than the share `few` of the columns differs from 0, these alone; None where squares may have left
        the range of the dtype.
        """
        norms, factors = [], []

        def scale(place: int, part: Tensor) -> Tensor:
            norms.append(norm(part, dim=1))
            factors.append(factor(norms[-1]).to(part.dtype))
            return factors[-1]

        whole = self._scaled(scale)
        if not in_range(float(norm(torch.cat(norms)))):
            return None
        index = torch.cat(factors).nonzero().squeeze(1)
        if len(index) > few * len(self.base.index):
            return whole
        found = Columns(self.base.layer, index, self._picked(whole.given_up(), index), origin=whole.origin)
        found.through, found.products = whole.through, whole.products
        return found

    def _scaled(self, factor: Callable[[int, Tensor], Tensor]) -> Whole:
        """The parts of V times their factors, and what a solver asks of them, in one pass."""
        layer, formed, rest = self.base.layer, [], []
        through, products = layer.weight.new_zeros(len(layer.weight), len(self.pieces[0].p)), []
        for place, (c, piece) in enumerate(zip(self.base.form(), self.pieces, strict=True)):
            part = self._part(place)
            f = factor(place, part)
            part.mul_(f[:, None])
            products += along(part, c)
            through.addmm_(piece.w.T, part)
            if place < self.most:
                formed.append(part)
            else:
                rest.append(piece._replace(f=f))
            del part  # before the next one is formed
        sums = summed(products)
        return Whole(layer, formed, rest, through=through.T, origin=self.base.token, products=sums)

    def _part(self, place: int) -> Tensor:
        """A part of V, which is let go."""
        return self.formed.pop(0) if self.formed else self.pieces[place].form()

    def _picked(self, parts: Iterator[Tensor], index: Tensor) -> Tensor:
        """The columns `index` of all, which come in parts: (s, m)."""
        chosen = self.base.layer.parted(torch.isin(self.base.index, index))
        return torch.cat([part[here] for part, here in zip(parts, chosen, strict=True)])


def along(part: Tensor, c: Tensor) -> list[Tensor]:
    """‖U‖², ⟨U, S⟩ and ‖S‖² for some columns U and the step S = U − C to them."""
    at, step = part.reshape(-1), (part - c).reshape(-1)
    return [torch.dot(at, at), torch.dot(at, step), torch.dot(step, step)]


def summed(products: list[Tensor]) -> Tensor:
    """The sums of what `along` gave for parts of the columns: (3,), float64."""
    return torch.stack(products).view(-1, 3).sum(0, dtype=torch.float64)
