"""Singular values and shrinkage of long, thin matrices, through the Gram matrix of the short side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from gsat._numeric import norm

_BLOCK = 2048  # columns turned to float64 at a time: the whole matrix is never copied
_SAFE = 1e10  # a matrix whose norm is outside [1/_SAFE, _SAFE] is scaled first: squares may leave float32
_LEAST = 64  # rows on the short side: below, a decomposition costs no more than the search from what is remembered
_FEW = 0.25  # of the short side: a rank below this is small, and its subspace is worth remembering
_SPARE = 4  # vectors remembered beyond the rank
_TRIES = 3  # matrices in turn for which the subspace was of no use, before it is given up
_POWERS = 4  # of the Gram matrix in one turn, which cost less than making the vectors orthogonal
_SMALL = 256  # rows up to which the square of the Gram matrix costs less than it saves
_SQUARES = 3  # powers of that square in one turn
_SQUARED = 1e-2  # of σ₁: singular values above this survive squaring
_ROUNDED = 1e-13  # of a sum of squares in float64
_TURNS = 3  # of the subspace iteration; where they are not enough, the eigenvalues lie too close


Found = tuple[Tensor, list[float]]  # left singular vectors and singular values, in descending order


@dataclass
class Subspace:
    """The leading left singular vectors of the last of many matrices that change little from one to the next."""

    basis: Tensor | None = None
    largest: float = 0.0  # singular value
    failures: int = 0  # in turn: after some there is no gap to be had, and it is not tried again

    def keep(self, found: Found, rank: int) -> None:
        """Remember the first vectors, if they are few."""
        basis, sigma = found
        few = len(basis) >= _LEAST and rank <= _FEW * len(basis)
        self.basis = basis[:, : rank + _SPARE].double() if few and self.failures < _TRIES else None
        self.largest = sigma[0]

    def find(self, v: Tensor, tau: float) -> Found | None:
        """All above tau and some below, from what is remembered and in one read; None where that is of no use."""
        if self.basis is None or tau <= 0 or len(self.basis) != len(v):
            return None
        squared = tau >= _SQUARED * self.largest
        if not squared and v.dtype == torch.float64:
            return None
        eps = torch.finfo(v.dtype).eps
        gram, own = (v @ v.T, eps) if squared else (gram64(v), torch.finfo(torch.float64).eps)
        try:
            found = _leading(gram.double(), self.basis, tau, eps, own if gram.dtype == torch.float32 else 64 * own)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            found = None
        largest = math.nan if found is None else found[1][0]
        known = 1 / _SAFE < largest < _SAFE and (not squared or tau >= _SQUARED * largest)
        self.failures = 0 if known else self.failures + 1
        return found if known else None


def rescale_singular_values(
    v: Tensor, share: Callable[[int, float], float], tau: float, memory: Subspace | None = None
) -> Tensor:
    """U·diag(share_k·σ_k)·Wᵀ for v = U·diag(σ)·Wᵀ; share(k, σ_k) in [0, 1], 0 from some k on, is what is kept of σ_k.

    `tau` says how precise the small singular values must be: those below it are not kept.
    `memory` gives the iteration its start and gets the subspace; the result is the same to rounding.
    v: (m, d), any real dtype; σ is in descending order.
    """
    work = v if v.dtype in (torch.float32, torch.float64) else v.float()
    tall = v.shape[0] > v.shape[1]
    short = work.T if tall else work
    found = None if memory is None else memory.find(short, tau)
    if found is None:
        size = float(norm(v))
        if not 1 / _SAFE < size < _SAFE:
            largest = float(norm(v, order=math.inf))
            if largest == 0:
                return v.clone()
            if not math.isfinite(largest):
                raise ValueError(f"the matrix must be finite, its largest entry is {largest}")
            return rescale_singular_values(v / largest, lambda k, s: share(k, s * largest), tau / largest) * largest
        found = _left(short, tau, size)
    shares = [kept for k, s in enumerate(found[1]) if (kept := share(k, s)) > 0]
    rank = len(shares)
    if memory is not None:
        memory.keep(found, rank)
    if rank == 0:
        return torch.zeros_like(v)
    basis = found[0][:, :rank].to(work.dtype)
    scaled = basis * basis.new_tensor(shares)
    if 2 * rank < len(basis):
        return ((work @ scaled) @ basis.T if tall else scaled @ (basis.T @ work)).to(v.dtype)
    whole = scaled @ basis.T
    return (work @ whole if tall else whole @ work).to(v.dtype)


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


def _leading(gram: Tensor, basis: Tensor, tau: float, eps: float, own: float) -> Found | None:
    """The leading part of `_roots` by subspace iteration from `basis`; None if it is not surely all above tau.

    gram: (n, n) float64, of a matrix of precision `eps`, itself known to `own`. Two tests: the residual ‖G·u − θ·u‖ of
    each vector that is kept is one that G has from rounding, or changes the shrunk matrix by less than rounding does;
    and no eigenvalue beside those that were found is above tau², by a bound or else by a Cholesky factor.
    """
    small = len(gram) <= _SMALL
    power, times = (gram @ gram, _SQUARES) if small else (gram, _POWERS)
    size = torch.linalg.vector_norm(power).reshape(1)
    image = gram @ basis
    for _ in range(_TURNS):
        for _ in range(times):
            image = power @ image
        frame = torch.linalg.qr(image).Q
        seen = gram @ frame
        values, turn = torch.linalg.eigh(frame.T @ seen)
        vectors, image = frame @ turn, seen @ turn
        errors = torch.linalg.vector_norm(torch.addcmul(image, vectors, values, value=-1), dim=0)
        read = torch.cat([size, values, errors]).tolist()
        squares, apart = read[len(values) : 0 : -1], read[: len(values) : -1]
        rank = sum(square > tau**2 for square in squares)
        rounding = max(eps * tau * squares[0] ** 0.5, own * squares[0])
        if max(apart[:rank], default=0.0) <= rounding:
            break
    else:
        return None
    if rank == len(squares):  # all that were looked for are above tau: there may be more
        return None
    vectors = vectors.flip(1)
    bounded = _tail_bound(read[0], squares[:rank], 4 if small else 2) < tau**2
    if not (bounded or _none_above(gram, vectors[:, :rank], squares[:rank], tau)):
        return None
    return vectors, [max(square, 0.0) ** 0.5 for square in squares]


def _tail_bound(size: float, found: list[float], order: int) -> float:
    """A bound of the eigenvalues of G beside the leading ones, of which `found` are Ritz values.

    The k-th Ritz value is at most λ_k, so that Σ_{k>r} λ_k^p ≤ tr(G^p) − Σ_{k≤r} θ_k^p; size = ‖G^{p/2}‖_F, its square
    is the trace.
    """
    rest = size**2 * (1 + _ROUNDED) - sum(value**order for value in found)
    return float(max(rest, 0.0) ** (1 / order))


def _none_above(gram: Tensor, vectors: Tensor, found: list[float], tau: float) -> bool:
    """Whether tau²·I − G has no negative eigenvalue beside those that were found: its Cholesky factor shows it."""
    rest = torch.addmm(-gram, vectors * vectors.new_tensor(found), vectors.T)
    rest.diagonal().add_(tau**2)
    return int(torch.linalg.cholesky_ex(rest).info) == 0


def gram64(v: Tensor) -> Tensor:
    """v·vᵀ accumulated in float64 by blocks of columns."""
    first, *others = torch.split(v, _BLOCK, dim=1)
    part = first.double()
    gram = part @ part.T
    for block in others:
        part = block.double()
        gram.addmm_(part, part.T)
    return gram
