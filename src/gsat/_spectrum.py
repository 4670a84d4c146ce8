"""Singular values and shrinkage of long, thin matrices, through the Gram matrix of the short side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor

from gsat._numeric import norm

_BLOCK = 2048  # columns turned to float64 at a time: the whole matrix is never copied
SAFE = 1e10  # a matrix whose norm is outside [1/SAFE, SAFE] is scaled first: squares may leave float32
_LEAST = 64  # rows on the short side: below, a decomposition costs no more than the search from what is remembered
_FEW = 0.25  # of the short side: a rank below this is small, and its subspace is worth remembering
_SPARE = 4  # vectors remembered beyond the rank
_TRIES = 3  # matrices in turn for which the subspace was of no use, before it is given up
_POWERS = 4  # of the Gram matrix in one turn, which cost less than making the vectors orthogonal
_SMALL = 256  # rows up to which the square of the Gram matrix costs less than it saves
_SQUARES = 3  # powers of that square in one turn
_SQUARED = 1e-2  # of σ₁: singular values above this survive squaring
ROUNDED = 1e-13  # of a sum of squares in float64
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
        squared = tau >= _SQUARED * self.largest
        if not squared and v.dtype == torch.float64:
            return None
        eps = torch.finfo(v.dtype).eps
        gram, own = (v @ v.T, eps) if squared else (gram64(v), torch.finfo(torch.float64).eps)
        own = own if gram.dtype == torch.float32 else 64 * own
        return Problem(gram.double(), self.basis, tau, eps, own, _SQUARED if squared else 0.0)

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


@dataclass(frozen=True)
class Soft:
    """1 − tau/σ is kept of a singular value σ above tau, and nothing of the others."""

    tau: float

    def kept(self, sigma: list[float]) -> list[float]:
        """What is kept of the first ones; of the rest nothing is."""
        return [1 - self.tau / value for value in sigma if value > self.tau]

    def shares(self, sigma: Tensor) -> Tensor:
        """What is kept of each."""
        return 1 - self.tau / sigma.clamp(min=self.tau)

    def over(self, size: float) -> Soft:
        """The same for a matrix in units of `size`."""
        return Soft(self.tau / size)


@dataclass(frozen=True)
class First:
    """The first k singular values are kept, and nothing of the others."""

    k: int
    tau: ClassVar[float] = 0.0

    def kept(self, sigma: list[float]) -> list[float]:
        """What is kept of the first ones; of the rest nothing is."""
        return [1.0] * min(self.k, len(sigma))

    def shares(self, sigma: Tensor) -> Tensor:
        """What is kept of each."""
        return torch.arange(len(sigma), device=sigma.device).lt(self.k).to(sigma.dtype)

    def over(self, size: float) -> First:
        """The same for a matrix in units of `size`."""
        return self


def rescale_singular_values(v: Tensor, share: Soft | First, memory: Subspace | None = None) -> Tensor:
    """U·diag(share_k·σ_k)·Wᵀ for v = U·diag(σ)·Wᵀ: `share` says what is kept of σ_k, in [0, 1].

    Singular values below share.tau are not kept, so that they need not be precise. `memory` gives the iteration its
    start and gets the subspace; the result is the same to rounding.
    v: (m, d), any real dtype; σ is in descending order.
    """
    work = v if v.dtype in (torch.float32, torch.float64) else v.float()
    tall = v.shape[0] > v.shape[1]
    short = work.T if tall else work
    found = None if memory is None else memory.find(short, share.tau)
    if found is None:
        size = float(norm(v))
        if not 1 / SAFE < size < SAFE:
            largest = float(norm(v, order=math.inf))
            if largest == 0:
                return v.clone()
            if not math.isfinite(largest):
                raise ValueError(f"the matrix must be finite, its largest entry is {largest}")
            return rescale_singular_values(v / largest, share.over(largest)) * largest
        found = _left(short, share.tau, size)
    shares = share.kept(found[1])
    rank = len(shares)
    if memory is not None:
        memory.keep(found[0], found[1][0], rank)
    if rank == 0:
        return torch.zeros_like(v)
    basis = found[0][:, :rank].to(work.dtype)
    return rescaled(work, basis, basis.new_tensor(shares)).to(v.dtype)


def rescaled(v: Tensor, basis: Tensor, shares: Tensor) -> Tensor:
    """basis·diag(shares)·basisᵀ·v for a basis of the short side of v."""
    tall, scaled = v.shape[0] > v.shape[1], basis * shares
    if 2 * basis.shape[1] < len(basis):
        return (v @ scaled) @ basis.T if tall else scaled @ (basis.T @ v)
    whole = scaled @ basis.T
    return v @ whole if tall else whole @ v


def singular_values(v: Tensor) -> Tensor:
    """The singular values of v (m, d) in descending order, as float64, exact to 1e-8 of the largest or better."""
    short = v if v.shape[0] <= v.shape[1] else v.T
    if short.dtype == torch.float64:
        size = norm(short, order=math.inf).clamp(min=torch.finfo(torch.float64).tiny)
        triangle = torch.linalg.qr(short.T / size, mode="r").R
        return cast(Tensor, torch.linalg.svdvals(triangle)) * size
    squares = cast(Tensor, torch.linalg.eigvalsh(gram64(short)))  # of float32 numbers they are well inside float64
    return squares.flip(0).clamp(min=0).sqrt()


def right_singular_vectors(v: Tensor, rank: int) -> Tensor:
    """The first `rank` right singular vectors of v (m, d), as the rows of an orthonormal basis (rank, d)."""
    largest = norm(v, order=math.inf)
    v = v / torch.where(largest > 0, largest, 1)
    if v.shape[0] > v.shape[1]:
        return _roots(gram64(v.T))[0][:, :rank].T.to(v.dtype).contiguous()
    left = _roots(gram64(v))[0][:, :rank].to(v.dtype)
    return cast(Tensor, torch.linalg.qr((left.T @ v).T).Q).T.contiguous()


def _left(v: Tensor, tau: float, size: float) -> Found:
    """Left singular vectors and singular values of a wide float32 or float64 matrix, without a full SVD of it.

    Squaring loses half the digits: that is harmless where every σ that matters is above 1e-2·σ₁, else the Gram matrix
    is one precision up. size = ‖v‖_F bounds σ₁.
    """
    try:
        if tau >= _SQUARED * size / 4:  # σ₁ is seldom below a quarter of ‖v‖_F; then the test was not worth its time
            found = _roots((v @ v.T).double())  # eigh in float32 would add errors of its own
            if tau >= _SQUARED * found[1][0]:
                return found
        if v.dtype == torch.float64:  # there is no precision above, but the triangle of QR keeps all digits
            left, values, _ = torch.linalg.svd(torch.linalg.qr(v.T, mode="r").R.T)
            return left, values.tolist()
        return _roots(gram64(v))
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        # eigh did not converge; the full SVD is slow but has a fall-back of its own
        left, values, _ = torch.linalg.svd(v.double(), full_matrices=False)
        return left, values.tolist()


def _roots(gram: Tensor) -> Found:
    """Eigenvectors and the roots of the eigenvalues of a Gram matrix."""
    values, vectors = torch.linalg.eigh(gram)
    return vectors.flip(1), [max(value, 0.0) ** 0.5 for value in reversed(values.tolist())]


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


def gram64(v: Tensor) -> Tensor:
    """v·vᵀ accumulated in float64 by blocks of columns."""
    first, *others = torch.split(v, _BLOCK, dim=1)
    part = first.double()
    gram = part @ part.T
    for block in others:
        part = block.double()
        gram.addmm_(part, part.T)
    return gram
