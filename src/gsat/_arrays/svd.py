"""Singular values of long, thin matrices, through the Gram matrix of the short side: never a full SVD.

Squaring loses half the digits. That is harmless where every σ that is kept is well above the rounding of σ₁²: a float32
Gram matrix serves where the threshold is at least `SQUARED`·σ₁, else the Gram matrix is summed in float64, and float64
matrices go through the triangle of their QR decomposition.

Where the rows of a group lie on several ranks, no rank can form v·vᵀ; vᵀv = Σ_r v_rᵀ·v_r is a sum over ranks, (d, d).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from gsat._arrays.norms import largest, norm
from gsat._arrays.ranks import sharing

SQUARED = 0.02  # of σ₁: singular values above this survive squaring
MARGIN = 0.9  # of the threshold: vectors above this are looked at more closely
WIDEST = 4096  # columns of a group on several ranks, whose Gram matrix vᵀv is sent
SAFE = 1e10  # a matrix whose norm is outside [1/SAFE, SAFE] is scaled first: its squares may leave float32
BLOCK = 2048  # columns turned to float64 at a time: the whole matrix is never copied


def shrink_singular_values(v: Tensor, tau: float) -> Tensor:
    """U·diag(max(σ_k − tau, 0))·Wᵀ for v = U·diag(σ)·Wᵀ; v: (m, d), any real dtype."""
    if not sharing().alone:
        vectors, sigma = _right(v)
        return _kept(v, vectors, 1 - tau / torch.where(sigma > 0, sigma, 1))
    return _rescaled(v, lambda short, unit: _left(short, tau / unit), lambda sigma, unit: 1 - tau / unit / sigma)


def truncate_singular_values(v: Tensor, k: int) -> Tensor:
    """U·diag(σ_1, ..., σ_k, 0, ...)·Wᵀ: the matrix of rank k that is nearest to v (m, d)."""
    if not sharing().alone:
        vectors, sigma = _right(v)
        return _kept(v, vectors[:, :k], torch.ones_like(sigma[:k]))
    if k >= min(v.shape):
        return v.clone()
    return _rescaled(v, lambda short, unit: _left(short)[:, :k], lambda sigma, unit: torch.ones_like(sigma))


def singular_values(v: Tensor) -> Tensor:
    """The singular values of v (m, d) in descending order, as float64, exact to 1e-8 of the largest or better."""
    if not sharing().alone:
        return _right(v)[1]
    short = v if v.shape[0] <= v.shape[1] else v.T
    if short.dtype == torch.float64:
        size = largest(short).clamp(min=torch.finfo(torch.float64).tiny)
        return cast(Tensor, torch.linalg.svdvals(torch.linalg.qr(short.T / size, mode="r").R)) * size
    squares = torch.linalg.eigvalsh(gram64(short))  # of float32 numbers they are well inside float64
    return cast(Tensor, squares).flip(0).clamp(min=0).sqrt()


def right_singular_vectors(v: Tensor, rank: int) -> Tensor:
    """The first `rank` right singular vectors of v (m, d), as the rows of an orthonormal basis (rank, d)."""
    if not sharing().alone:
        return _right(v)[0][:, :rank].T.to(v.dtype).contiguous()
    size = largest(v)
    v = v / torch.where(size > 0, size, 1)
    if v.shape[0] > v.shape[1]:
        return _eigen(gram64(v.T))[0][:, :rank].T.to(v.dtype).contiguous()
    left = _eigen(gram64(v))[0][:, :rank].to(v.dtype)
    return cast(Tensor, torch.linalg.qr((left.T @ v).T).Q).T.contiguous()


def gram64(v: Tensor) -> Tensor:
    """v·vᵀ summed in float64 by blocks of columns."""
    gram = v.new_zeros(len(v), len(v), dtype=torch.float64)
    for block in torch.split(v, BLOCK, dim=1):
        part = block.double()
        gram.addmm_(part, part.T)
    return gram


def _right(v: Tensor) -> tuple[Tensor, Tensor]:
    """The right singular vectors W (d, d) and singular values (d,) of a group on several ranks, in float64.

    The values are the norms of the columns of v·W, more precise than roots of the eigenvalues of vᵀv.
    """
    if v.shape[1] > WIDEST:
        raise ValueError(
            f"a low-rank structure of a group on several ranks needs at most {WIDEST:,} features, or a model that sees "
            f"its input through a linear first layer, got {v.shape[1]:,} features: their Gram matrix would be sent in "
            'every step; group="own" has no such limit'
        )
    unit = float(largest(v))
    if not math.isfinite(unit):
        raise ValueError(f"the matrix must be finite, its largest entry is {unit}")
    unit = unit or 1.0
    vectors, _ = _eigen(sharing().summed(gram64((v / unit).T)))
    sigma, order = norm((v / unit).double() @ vectors, dim=0).sort(descending=True)
    return vectors[:, order], sigma * unit


def _kept(v: Tensor, vectors: Tensor, share: Tensor) -> Tensor:
    """v·W·diag(max(share, 0))·Wᵀ, with W (d, k) in float64; without the vectors of which nothing is kept."""
    keep = share > 0
    vectors, share = vectors[:, keep], share[keep]
    return ((v.double() @ vectors) * share @ vectors.T).to(v.dtype).contiguous()


def _rescaled(
    v: Tensor, vectors: Callable[[Tensor, float], Tensor], share: Callable[[Tensor, float], Tensor]
) -> Tensor:
    """U·diag(share_k·σ_k)·Wᵀ, with 0 for a share below 0 and for all vectors that are not asked for.

    vectors: (matrix with its short side first, unit) -> left singular vectors of v/unit; share: (σ/unit, unit) -> what
    is kept of it. The singular values are the norms of Uᵀ·v, more precise than roots of eigenvalues.
    """
    work, unit = (v if v.dtype in (torch.float32, torch.float64) else v.float()), 1.0
    size = float(norm(work))
    if not 1 / SAFE < size < SAFE:
        unit = float(largest(work))
        if not math.isfinite(unit):
            raise ValueError(f"the matrix must be finite, its largest entry is {unit}")
        if unit == 0:
            return v.clone()
        work = work / unit
    tall = v.shape[0] > v.shape[1]
    short = work.T if tall else work
    basis = vectors(short, unit).to(work.dtype)
    seen = basis.T @ short
    sigma = norm(seen, dim=1)
    kept = (basis * share(torch.where(sigma > 0, sigma, 1), unit).clamp(min=0)) @ seen
    kept = kept if unit == 1 else kept * unit
    return (kept.T if tall else kept).to(v.dtype).contiguous()


def _left(v: Tensor, tau: float = 0.0) -> Tensor:
    """The left singular vectors of a wide float32 or float64 matrix with σ > tau, and perhaps a few more."""
    if tau > 0:
        vectors, sigma = _eigen(v @ v.T)
        if tau >= SQUARED * float(sigma[0]):
            return vectors[:, sigma > MARGIN * tau]
    if v.dtype == torch.float32:
        vectors, sigma = _eigen(gram64(v))
    else:
        vectors, sigma, _ = torch.linalg.svd(torch.linalg.qr(v.T, mode="r").R.T)
    return vectors[:, sigma > MARGIN * tau]


def _eigen(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvectors and the roots of the eigenvalues of a Gram matrix, in descending order."""
    try:
        values, vectors = torch.linalg.eigh(gram)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        # eigh does not always converge where many rows are zero; the SVD is slower but has a fall-back of its own
        vectors, values, _ = torch.linalg.svd(gram)
        return vectors, values.sqrt()
    return vectors.flip(1), values.flip(0).clamp(min=0).sqrt()
