"""The leading singular vectors of matrices that change little from one to the next, each from those of the last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import torch
from torch import Tensor

from gsat._arrays.norms import gram64

SAFE = 1e10  # a matrix whose norm is outside [1/SAFE, SAFE] is scaled first: squares may leave float32
SQUARED = 1e-2  # of σ₁: singular values above this survive squaring
ROUNDED = 1e-13  # of a sum of squares in float64
_LEAST = 64  # rows on the short side: below, a decomposition costs no more than the search from what is remembered
_FEW = 0.25  # of the short side: a rank below this is small, and its subspace is worth remembering
_SPARE = 4  # vectors remembered beyond the rank
_TRIES = 3  # matrices in turn for which the subspace was of no use, before it is given up
_POWERS = 4  # of the Gram matrix in one turn, which cost less than making the vectors orthogonal
_SMALL = 256  # rows up to which the square of the Gram matrix costs less than it saves
_SQUARES = 3  # powers of that square in one turn
_TURNS = 3  # of the subspace iteration; where they are not enough, the eigenvalues lie too close

Found = tuple[Tensor, list[float]]  # left singular vectors and singular values, in descending order


@dataclass(frozen=True)
class Problem:
    """The eigenvectors of a Gram matrix with eigenvalues above tau², to be found from vectors that are near them.

    gram: (n, n) float64, of a matrix of precision `eps`, itself known to `own`; it serves where tau is at least `least`
    times the largest singular value.
    """

    gram: Tensor
    basis: Tensor
    tau: float
    eps: float
    own: float
    least: float

    @cached_property
    def powers(self) -> tuple[Tensor, int]:
        """A power of G, and its order: to be applied again and again."""
        return (self.gram @ self.gram, 2) if len(self.gram) <= _SMALL else (self.gram, 1)

    def turn(self, image: Tensor) -> Turn:
        """One turn of the subspace iteration from G·basis or the image of the last turn."""
        power, order = self.powers
        for _ in range(_SQUARES if order == 2 else _POWERS):
            image = power @ image
        frame = torch.linalg.qr(image).Q
        seen = self.gram @ frame
        values, turn = torch.linalg.eigh(frame.T @ seen)
        vectors, image = frame @ turn, seen @ turn
        errors = torch.linalg.vector_norm(torch.addcmul(image, vectors, values, value=-1), dim=0)
        return Turn(values, vectors, image, errors)


class Turn(NamedTuple):
    """Ritz values in ascending order, their vectors, the images G·u of those, and residuals ‖G·u − θ·u‖."""

    values: Tensor
    vectors: Tensor
    image: Tensor
    errors: Tensor


@dataclass
class Subspace:
    """The leading left singular vectors of the last of many matrices that change little from one to the next."""

    basis: Tensor | None = None
    largest: float = 0.0  # singular value
    failures: int = 0  # in turn: after some there is no gap to be had, and it is not tried again
    presume: bool = False  # whether the next matrix may be shrunk on trust, where reading costs a wait: `gsat._unread`
    report: Tensor | None = None  # then: whether that holds, the rank, and the largest singular value
    vectors: Tensor | None = None  # that were found with it

    def keep(self, vectors: Tensor, largest: float, rank: int) -> None:
        """Remember the first vectors, if they are few."""
        few = len(vectors) >= _LEAST and rank <= _FEW * len(vectors)
        self.basis = vectors[:, : rank + _SPARE].double() if few and self.failures < _TRIES else None
        self.largest = largest

    def presumed(self, vectors: Tensor, report: Tensor) -> None:
        """What was found on trust."""
        self.presume, self.vectors, self.report = False, vectors, report

    def learn(self, report: list[float]) -> bool:
        """Whether what was found on trust holds, by its report, now read: if so it is remembered, else forgotten."""
        sure, rank, largest = report
        vectors, self.vectors, self.report = cast(Tensor, self.vectors), None, None
        if sure:
            self.failures = 0 if vectors.shape[1] < len(vectors) else self.failures
            self.keep(vectors, largest, int(rank))
        else:
            self.failures, self.basis = self.failures + 1, None
        return bool(sure)

    def problem(self, v: Tensor, tau: float) -> Problem | None:
        """The search for the singular vectors of v that matter, from what is remembered; None where that is no use."""
        if self.basis is None or tau <= 0 or len(self.basis) != len(v):
            return None
        squared = tau >= SQUARED * self.largest
        if not squared and v.dtype == torch.float64:
            return None
        eps = torch.finfo(v.dtype).eps
        gram, own = (v @ v.T, eps) if squared else (gram64(v), torch.finfo(torch.float64).eps)
        own = own if gram.dtype == torch.float32 else 64 * own
        return Problem(gram.double(), self.basis, tau, eps, own, SQUARED if squared else 0.0)

    def find(self, v: Tensor, tau: float) -> Found | None:
        """All above tau and some below, from what is remembered and in one read; None where that is of no use."""
        problem = self.problem(v, tau)
        if problem is None:
            return None
        try:
            found = _leading(problem)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            found = None
        largest = math.nan if found is None else found[1][0]
        known = 1 / SAFE < largest < SAFE and tau >= problem.least * largest
        self.failures = 0 if known else self.failures + 1
        return found if known else None


def _leading(problem: Problem) -> Found | None:
    """The leading part of `_roots` by subspace iteration; None if it is not surely all above tau.

    Two tests: the residual ‖G·u − θ·u‖ of each vector that is kept is one that G has from rounding, or changes the
    shrunk matrix by less than rounding does; and no eigenvalue beside those that were found is above tau², by a bound
    or else by a Cholesky factor.
    """
    power, order = problem.powers
    size, tau = torch.linalg.vector_norm(power).reshape(1), problem.tau
    image = problem.gram @ problem.basis
    for _ in range(_TURNS):
        values, vectors, image, errors = problem.turn(image)
        read = torch.cat([size, values, errors]).tolist()
        squares, apart = read[len(values) : 0 : -1], read[: len(values) : -1]
        rank = sum(square > tau**2 for square in squares)
        rounding = max(problem.eps * tau * squares[0] ** 0.5, problem.own * squares[0])
        if max(apart[:rank], default=0.0) <= rounding:
            break
    else:
        return None
    if rank == len(squares):  # all that were looked for are above tau: there may be more
        return None
    vectors = vectors.flip(1)
    bounded = _tail_bound(read[0], squares[:rank], 2 * order) < tau**2
    if not (bounded or int(tail(problem, vectors[:, :rank], vectors.new_tensor(squares[:rank]))) == 0):
        return None
    return vectors, [max(square, 0.0) ** 0.5 for square in squares]


def _tail_bound(size: float, found: list[float], order: int) -> float:
    """A bound of the eigenvalues of G beside the leading ones, of which `found` are Ritz values.

    The k-th Ritz value is at most λ_k, so that Σ_{k>r} λ_k^p ≤ tr(G^p) − Σ_{k≤r} θ_k^p; size = ‖G^{p/2}‖_F, its square
    is the trace.
    """
    rest = size**2 * (1 + ROUNDED) - sum(value**order for value in found)
    return float(max(rest, 0.0) ** (1 / order))


def tail(problem: Problem, vectors: Tensor, found: Tensor) -> Tensor:
    """0 where tau²·I − G has no negative eigenvalue beside those that were found: its Cholesky factor shows it."""
    rest = torch.addmm(-problem.gram, vectors * found, vectors.T)
    rest.diagonal().add_(problem.tau**2)
    return cast(Tensor, torch.linalg.cholesky_ex(rest).info)
