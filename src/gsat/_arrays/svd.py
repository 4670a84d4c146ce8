"""Singular values and shrinkage of long, thin matrices, through the Gram matrix of the short side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from gsat._arrays.norms import gram64, norm
from gsat._arrays.subspace import SAFE, SQUARED, Found, Subspace


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
        if tau >= SQUARED * size / 4:  # σ₁ is seldom below a quarter of ‖v‖_F; then the test was not worth its time
            found = _roots((v @ v.T).double())  # eigh in float32 would add errors of its own
            if tau >= SQUARED * found[1][0]:
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
