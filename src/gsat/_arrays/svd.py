"""Singular values of long, thin matrices, through the Gram matrix of the short side: never a full SVD.

Squaring loses half the digits. That is harmless where every σ that is kept is well above the rounding of σ₁²: a float32
Gram matrix serves where the threshold is at least `SQUARED`·σ₁, else the Gram matrix is summed in float64, and float64
matrices go through the triangle of their QR decomposition.

Where the rows of a group lie on several ranks, no rank can form v·vᵀ; vᵀv = Σ_r v_rᵀ·v_r is a sum over ranks, (d, d).
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor

from gsat._arrays.norms import largest, norm
from gsat._ranks import sharing

SQUARED = 0.02  # of σ₁: singular values above this survive squaring
MARGIN = 0.9  # of the threshold: vectors above this are looked at more closely
WIDEST = 4096  # columns of a group on several ranks, whose Gram matrix vᵀv is sent
SAFE = 1e10  # a matrix whose norm is outside [1/SAFE, SAFE] is scaled first: its squares may leave float32
BLOCK = 2048  # columns turned to float64 at a time: the whole matrix is never copied


def shrink_singular_values(v: Tensor, tau: float) -> Tensor:
    """U·diag(max(σ_k − tau, 0))·Wᵀ for v = U·diag(σ)·Wᵀ; v: (m, d), any real dtype, tau > 0."""
    found = _factors(v, tau)
    return found.times(1 - tau / torch.where(found.sigma > 0, found.sigma, tau)).to(v.dtype)


def truncate_singular_values(v: Tensor, k: int) -> Tensor:
    """U·diag(σ_1, ..., σ_k, 0, ...)·Wᵀ: the matrix of rank k that is nearest to v (m, d)."""
    if k >= v.shape[1] or (k >= len(v) and sharing().alone):
        return v.clone()
    found = _factors(v, most=k)
    return found.times(torch.ones_like(found.sigma)).to(v.dtype)


def singular_values(v: Tensor) -> Tensor:
    """The singular values of v (m, d) in descending order, as float64, exact to 1e-8 of the largest or better."""
    if not sharing().alone:
        return _factors(v).sigma.sort(descending=True).values
    short = v if v.shape[0] <= v.shape[1] else v.T
    if short.dtype == torch.float64:
        size = largest(short).clamp(min=torch.finfo(torch.float64).tiny)
        return cast(Tensor, torch.linalg.svdvals(torch.linalg.qr(short.T / size, mode="r").R)) * size
    squares = torch.linalg.eigvalsh(gram64(short))  # of float32 numbers they are well inside float64
    return cast(Tensor, squares).flip(0).clamp(min=0).sqrt()


def right_singular_vectors(v: Tensor, rank: int) -> Tensor:
    """The first `rank` right singular vectors of v (m, d), as the rows of an orthonormal basis (rank, d)."""
    if not sharing().alone:
        return _factors(v, most=rank).basis.T.to(v.dtype).contiguous()
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


class _Factors(NamedTuple):
    """v as unit·basis·seen; for vᵀ (`turned`) where v has more rows than columns or its rows lie on several ranks.

    basis: (short, r), left singular vectors; seen: (r, long); sigma: (r,), float64, the singular values of v. They are
    the norms of the rows of unit·seen, more precise than roots of eigenvalues.
    """

    basis: Tensor
    seen: Tensor
    sigma: Tensor
    unit: float
    turned: bool

    def times(self, share: Tensor) -> Tensor:
        """U·diag(max(share_k, 0)·σ_k)·Wᵀ, of the shape of v."""
        kept = (self.basis * share.clamp(min=0).to(self.basis.dtype)) @ self.seen
        kept = kept if self.unit == 1 else kept * self.unit
        return (kept.T if self.turned else kept).contiguous()


def _factors(v: Tensor, tau: float = 0.0, most: int | None = None) -> _Factors:
    """The singular vectors of v (m, d) with σ >= tau, perhaps a few more, or those of the largest `most`."""
    work, unit = (v if v.dtype in (torch.float32, torch.float64) else v.float()), 1.0
    if not 1 / SAFE < float(norm(work)) < SAFE:
        unit = float(largest(work)) or 1.0
        if not math.isfinite(unit):
            raise ValueError(f"the matrix must be finite, its largest entry is {unit}")
        work = work / unit
    turned = v.shape[0] > v.shape[1] or not sharing().alone
    short = work.T if turned else work
    basis = _left(short, tau / unit)[:, :most].to(work.dtype)
    seen = basis.T @ short
    return _Factors(basis, seen, norm(seen.T, dim=0).double() * unit, unit, turned)


def _left(v: Tensor, tau: float) -> Tensor:
    """The left singular vectors with σ >= tau, and perhaps a few more, of a wide float32 or float64 matrix.

    Of columns that lie on several ranks the Gram matrix is the sum of theirs.
    """
    if (ranks := sharing()).alone and tau > 0:
        vectors, sigma = _eigen(v @ v.T)
        if tau >= SQUARED * float(sigma[0]):
            return vectors[:, sigma >= MARGIN * tau]
    if not ranks.alone and len(v) > WIDEST:
        raise ValueError(
            f"a low-rank structure of a group on several ranks needs at most {WIDEST:,} features, or a model that sees "
            f"its input through a linear first layer, got {len(v):,} features: their Gram matrix would be sent in "
            'every step; group="own" has no such limit'
        )
    if v.dtype == torch.float32 or not ranks.alone:
        vectors, sigma = _eigen(ranks.summed(gram64(v)))
    else:
        vectors, sigma, _ = torch.linalg.svd(torch.linalg.qr(v.T, mode="r").R.T)
    return vectors[:, sigma >= MARGIN * tau]


def _eigen(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvectors and the roots of the eigenvalues of a Gram matrix, in descending order."""
    try:
        values, vectors = torch.linalg.eigh(gram)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        # eigh does not always converge where many rows are zero; the SVD is slower but has a fall-back of its own
        vectors, values, _ = torch.linalg.svd(gram)
        return vectors, values.sqrt()
    return vectors.flip(1), values.flip(0).clamp(min=0).sqrt()
