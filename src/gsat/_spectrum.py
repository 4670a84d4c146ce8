"""Singular values and shrinkage of long, thin matrices, through the Gram matrix of the short side."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from gsat._numeric import norm

_BLOCK = 2048  # columns turned to float64 at a time: the whole matrix is never copied
_SAFE = 1e10  # a matrix whose norm is outside [1/_SAFE, _SAFE] is scaled first: squares may leave float32


def rescale_singular_values(v: Tensor, factor: Callable[[Tensor], Tensor], tau: float) -> Tensor:
    """U·diag(factor(σ)·σ)·Wᵀ for v = U·diag(σ)·Wᵀ, where factor(σ) in [0, 1] is the share of each σ that is kept.

    `tau` says how precise the small singular values must be: those below it are not kept, and ‖v‖_F bounds σ₁.
    v: (m, d), any real dtype; σ is in descending order.
    """
    size = float(norm(v))
    if not 1 / _SAFE < size < _SAFE:
        largest = float(norm(v, order=math.inf))
        if largest == 0:
            return v.clone()
        if not math.isfinite(largest):
            raise ValueError(f"the matrix must be finite, its largest entry is {largest}")
        return rescale_singular_values(v / largest, lambda sigma: factor(sigma * largest), tau / largest) * largest
    if v.shape[0] > v.shape[1]:
        return rescale_singular_values(v.T, factor, tau).T
    work = v if v.dtype in (torch.float32, torch.float64) else v.float()
    basis, sigma = _left(work, tau, size)
    keep = factor(sigma)
    rank = int((keep > 0).sum())
    if rank == 0:
        return torch.zeros_like(v)
    basis, keep = basis[:, :rank].to(work.dtype), keep[:rank].to(work.dtype)
    if 2 * rank < len(sigma):
        return ((basis * keep) @ (basis.T @ work)).to(v.dtype)
    return ((basis * keep) @ basis.T @ work).to(v.dtype)


def singular_values(v: Tensor) -> Tensor:
    """The singular values of v (m, d) in descending order, as float64, exact to 1e-8 of the largest or better."""
    short = v if v.shape[0] <= v.shape[1] else v.T
    size = norm(short, order=math.inf).double().clamp(min=torch.finfo(torch.float64).tiny)
    if short.dtype == torch.float64:
        triangle = torch.linalg.qr(short.T / size, mode="r").R
        return cast(Tensor, torch.linalg.svdvals(triangle)) * size
    squares = cast(Tensor, torch.linalg.eigvalsh(gram64(short, float(size))))
    return squares.flip(0).clamp(min=0).sqrt() * size


def right_singular_vectors(v: Tensor, rank: int) -> Tensor:
    """The first `rank` right singular vectors of v (m, d), as the rows of an orthonormal basis (rank, d)."""
    largest = norm(v, order=math.inf)
    v = v / torch.where(largest > 0, largest, 1)
    if v.shape[0] > v.shape[1]:
        return _roots(gram64(v.T))[0][:, :rank].T.to(v.dtype).contiguous()
    left = _roots(gram64(v))[0][:, :rank].to(v.dtype)
    return cast(Tensor, torch.linalg.qr((left.T @ v).T).Q).T.contiguous()


def _left(v: Tensor, tau: float, size: float) -> tuple[Tensor, Tensor]:
    """Left singular vectors and singular values of a wide float32 or float64 matrix, without a full SVD of it.

    Squaring loses half the digits: that is harmless where every σ that matters is above 1e-2·σ₁, else the Gram matrix
    is one precision up. size = ‖v‖_F bounds σ₁.
    """
    try:
        if tau >= 1e-2 * size / 4:  # σ₁ is seldom below a quarter of ‖v‖_F; then the test was not worth its time
            basis, sigma = _roots(v @ v.T)
            if tau >= 1e-2 * float(sigma[0]):
                return basis, sigma
        if v.dtype == torch.float64:  # there is no precision above, but the triangle of QR keeps all digits
            left, sigma, _ = torch.linalg.svd(torch.linalg.qr(v.T, mode="r").R.T)
            return left, sigma
        return _roots(gram64(v))
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        # eigh did not converge; the full SVD is slow but has a fall-back of its own
        left, sigma, _ = torch.linalg.svd(v.double(), full_matrices=False)
        return left, sigma


def _roots(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvectors and the roots of the eigenvalues of a Gram matrix, in descending order."""
    values, vectors = torch.linalg.eigh(gram)
    return vectors.flip(1), values.flip(0).clamp(min=0).sqrt()


def gram64(v: Tensor, size: float = 1.0) -> Tensor:
    """(v/size)·(v/size)ᵀ accumulated in float64 by blocks of columns."""
    gram = torch.zeros(v.shape[0], v.shape[0], dtype=torch.float64, device=v.device)
    for block in torch.split(v, _BLOCK, dim=1):
        part = block.double() / size if size != 1 else block.double()
        gram.addmm_(part, part.T)
    return gram
