"""Singular value shrinkage where reading a number of the device means waiting for it: nothing is read.

What `gsat._spectrum` and `gsat._subspace` decide by numbers is computed whatever they are; a remembered subspace is
used where the caller looks at a report afterwards, together with numbers of its own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gsat._arrays.norms import gram64, norm
from gsat._arrays.subspace import ROUNDED, SAFE, Problem, Subspace, tail
from gsat._arrays.svd import First, Soft, rescaled

_TURNS = 2  # of the subspace iteration: one is mostly enough, and more cannot be asked for


class Found(NamedTuple):
    """Left singular vectors, singular values in descending order, and whether these are surely all that matter."""

    vectors: Tensor
    sigma: Tensor
    sure: Tensor


def rescale_singular_values(v: Tensor, share: Soft | First, memory: Subspace | None = None) -> Tensor:
    """As the function of `gsat._spectrum`.

    With memory.presume the remembered subspace may be used, and memory.report tells whether that was right: the numbers
    for `learn`. They must be read before the next matrix comes.
    """
    work = v if v.dtype in (torch.float32, torch.float64) else v.float()
    short = work.T if v.shape[0] > v.shape[1] else work
    trusted = memory if memory is not None and memory.presume else None
    problem = None if trusted is None else trusted.problem(short, share.tau)
    try:
        vectors, sigma, sure = _all(short) if problem is None else _leading(problem)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        vectors, sigma, sure = _whole(short)
    shares = share.shares(sigma)
    if trusted is not None:
        trusted.presumed(vectors, torch.stack([sure.to(sigma), shares.gt(0).sum().to(sigma), sigma[0]]))
    return rescaled(work, vectors.to(work.dtype), shares.to(work.dtype)).to(v.dtype)


def _all(v: Tensor) -> Found:
    """Of a wide float32 or float64 matrix, one precision up; float64 has none above, but the triangle of QR will do."""
    sure = torch.ones((), device=v.device)
    if v.dtype == torch.float64:
        vectors, sigma, _ = torch.linalg.svd(torch.linalg.qr(v.T, mode="r").R.T)
        return Found(vectors, sigma, sure)
    values, vectors = torch.linalg.eigh(gram64(v))
    return Found(vectors.flip(1), values.flip(0).clamp(min=0).sqrt(), sure)


def _whole(v: Tensor) -> Found:
    """As `_all`, where that fails: the full SVD is slow but has a fall-back of its own."""
    if not bool(torch.isfinite(v).all()):
        raise ValueError(f"the matrix must be finite, its largest entry is {float(norm(v, order=math.inf))}")
    vectors, sigma, _ = torch.linalg.svd(v.double(), full_matrices=False)
    return Found(vectors, sigma, torch.ones((), device=v.device))


def _leading(problem: Problem) -> Found:
    """All above tau, with the tests of `gsat._subspace`; both those of the other eigenvalues."""
    power, order = problem.powers
    image, tau, least = problem.gram @ problem.basis, problem.tau, problem.least
    for _ in range(_TURNS):
        values, vectors, image, errors = problem.turn(image)
    above = values > tau**2
    sigma = values.clamp(min=0).sqrt()
    found, largest = torch.where(above, values, 0), sigma[-1]
    rounding = torch.maximum(problem.eps * tau * largest, problem.own * values[-1])
    rest = power.square().sum() * (1 + ROUNDED) - found.pow(2 * order).sum()
    others = (rest.clamp(min=0).pow(1 / (2 * order)) < tau**2) | (tail(problem, vectors, found) == 0)
    inside = (largest > 1 / SAFE) & (largest < SAFE) & (tau >= least * largest)
    sure = (torch.where(above, errors, 0).amax() <= rounding) & ~above[0] & others & inside
    return Found(vectors.flip(1), sigma.flip(0), sure)
