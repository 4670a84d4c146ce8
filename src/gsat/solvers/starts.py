"""Starts of the ascent that see through flat losses: the structure is given up first, then brought in again.

A sample that the model is sure of has almost no gradient at Δ = 0, and an average of such gradients says nothing about
where the loss could go. So the first trial moves every sample on its own, as far as the one with the longest gradient
would go; there the gradients are those of a model that errs. From there `blended` or `tournament` leads to a structured
perturbation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gsat._arrays.norms import finite, first_rows, largest, length, norm, rows, size, total, wide
from gsat._ranks import sharing
from gsat.costs import Penalised
from gsat.costs.per_batch import BoundPerBatch
from gsat.solvers.base import Point
from gsat.solvers.oracle import Oracle

FIELD = 20  # shifts that a tournament begins with, at the most
LEAST_HEAT = 10  # samples on which a shift of the first round is judged, at the least
STRIDE = 0.5  # of the way to the linearised maximum, for the finalists; whole strides overshoot where λ is small
TOURNAMENT = 20  # gradients that n_inner must allow for a tournament, which takes half of them


class _NotFiniteError(Exception):
    """A loss or a gradient on the way is not finite."""


def relaxed(oracle: Oracle, cost: Penalised, gradient: Tensor, *, lam: float, relax: int) -> Point | None:
    """A structured perturbation to begin with, evaluated, or None where there is none to be had.

    gradient: (m, *features), at Δ = 0; relax: gradients that `blended` may take
    """
    n, m = min(relax, oracle.n_inner // 4), size(gradient)
    if n == 0:
        return None
    try:
        if cost.equal_rows and cost.alpha > 0 and oracle.n_inner >= TOURNAMENT and m >= 2 * LEAST_HEAT:
            u = oracle.within_reach(tournament(oracle, cost, free(cost, gradient, lam), lam))
            value = float(cost.value(u))
        else:
            u, value = blended(oracle, cost, free(cost, gradient, lam), lam, n)
    except _NotFiniteError:
        return None
    return Point.at(u, *oracle(u), penalty=lam * value)


def blended(oracle: Oracle, cost: Penalised, trial: Tensor, lam: float, n: int) -> tuple[Tensor, float]:
    """From an unstructured trial in n gradients: the share of the structure in the linearised maximum grows to 1.

    The last one, U, maximises ⟨G, U⟩ − λ·c(U) for the last gradient G: c(U) follows from ⟨G, U⟩ and ‖U‖² without a
    second evaluation of g.
    """
    gradient = trial
    for phase in range(1, n + 1):
        gradient = _seen(oracle, trial)[1]
        structured = cost.linear_maximum(gradient, lam)
        trial = structured if phase == n else (gradient / (2 * lam * cost.ridge)).lerp_(structured, phase / n)
    near = oracle.within_reach(trial)
    if near is not trial:
        return near, float(cost.value(near))
    gap = float(total(rows(gradient).to(wide(trial)) * rows(trial)))
    return trial, cost.value_at_prox(trial, lam, gap=gap, square=float(norm(trial)) ** 2)


def tournament(oracle: Oracle, cost: Penalised, trial: Tensor, lam: float) -> Tensor:
    """From an unstructured trial to one shift of all rows, the winner among many.

    A universal shift has many local maxima, about one per class it can push to, and the mean of the samples' gradients
    leads to a poor one. So each of up to 20 shifts climbs on its own share of the samples; those with the largest S
    there climb on, on more samples each; the last of them is chosen on the whole group.
    """
    begin, m = sharing().places(len(trial))
    field = min(FIELD, m // LEAST_HEAT)
    finalists = min(field, max(2, field // 4))
    turn = begin + torch.arange(len(trial), device=trial.device)
    for _ in range(3):
        trial = _climbed(cost, turn % field, field, _seen(oracle, trial)[1], lam)
    losses = _seen(oracle, trial)[0]
    scores = losses - lam * cost.ridge * norm(rows(trial), dim=1).square().to(losses.dtype)
    sizes = torch.bincount(turn % field, minlength=field).to(scores)
    sums = torch.zeros_like(sizes).index_add_(0, turn % field, scores)
    mean = sharing().summed(sums) / sharing().summed(sizes)
    best = mean.topk(finalists).indices
    trial = first_rows(trial, field)[best[turn % finalists]]  # the first `field` rows hold one shift each
    for _ in range(3):
        trial = torch.lerp(trial, _climbed(cost, turn % finalists, finalists, _seen(oracle, trial)[1], lam), STRIDE)
    return _winner(oracle, cost, first_rows(trial, finalists), lam)


def free(cost: Penalised, gradient: Tensor, lam: float) -> Tensor:
    """The linearised maximum without a structure, G/(2λ·ridge), every row as long as the longest."""
    lengths = norm(rows(gradient), dim=1, keepdim=True).to(gradient.dtype)
    longest = largest(lengths).to(lengths.dtype)
    stretch = longest / torch.maximum(lengths, 1e-6 * longest)  # (m, 1)
    return (rows(gradient) * (stretch / (2 * lam * cost.ridge))).view_as(gradient)


def _seen(oracle: Oracle, trial: Tensor) -> tuple[Tensor, Tensor]:
    """Losses and gradient there, which must be finite."""
    losses, gradient = oracle(trial)
    if not finite(losses, gradient):
        raise _NotFiniteError
    return losses, gradient


def _climbed(cost: Penalised, shift: Tensor, field: int, gradient: Tensor, lam: float) -> Tensor:
    """The linearised maximum of `field` shifts; shift: (m,), the number of the shift that moves a sample."""
    return BoundPerBatch(cost, shift, field).linear_maximum(gradient, lam)


def _winner(oracle: Oracle, cost: Penalised, shifts: Tensor, lam: float) -> Tensor:
    """The shift with the largest S on the whole group; two forward passes are charged as one gradient."""
    price = lam * cost.ridge * size(oracle.x)
    scores = [
        total(oracle.losses(shift.expand_as(oracle.x))) - price * length(shift).double().square() for shift in shifts
    ]
    oracle.n_gradients += (len(shifts) + 1) // 2
    best = torch.stack(scores).nan_to_num(nan=-math.inf, posinf=-math.inf).argmax()
    return shifts[int(best)].expand_as(oracle.x).contiguous()
