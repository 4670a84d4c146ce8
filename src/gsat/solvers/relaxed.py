"""Starts of the ascent that see through flat losses: the structure is given up first, then brought in again.

A sample that the model is sure of has almost no gradient at Δ = 0, and an average of such gradients says nothing about
where the loss could go. So the first trial moves every sample on its own, as far as the one with the longest gradient
would go; there the gradients are those of a model that errs. A schedule then leads to a structured perturbation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gsat._numeric import norm, rows
from gsat.costs import GroupCost, Penalised, Universal
from gsat.grouping import PerBatch, Scaled
from gsat.solvers.protocol import linearised_maximum, ridge_of

Schedule = tuple[float, ...]  # shares up to 1, or numbers of shifts, the first of them above 1

TOURNAMENT = (20, 20, 20, 5, 5, 5, 1)  # shifts in the field, gradient by gradient
LEAST_HEAT = 10  # samples on which a shift of the first round is judged, at the least


def schedule(cost: GroupCost, m: int, n_inner: int, relax: int) -> Schedule:
    """What happens after each relaxed gradient: the share of the structure, or the number of shifts left.

    A universal shift has many local maxima, about one per class it can push to, and the mean of the samples' gradients
    leads to a poor one: there a tournament of shifts is held. Any other structure is phased in by blending.
    """
    if _is_universal(cost) and relax > 0 and n_inner >= 20 and m >= 2 * LEAST_HEAT:
        field = min(TOURNAMENT[0], m // LEAST_HEAT)
        return tuple(max(1, size * field // TOURNAMENT[0]) for size in TOURNAMENT)
    n = min(relax, n_inner // 4)
    return tuple((phase + 1) / n for phase in range(n))


def first_trial(cost: GroupCost, gradient: Tensor, lam: float) -> Tensor:
    """V/(2λ·ridge), V the gradient with every sample's row as long as the longest."""
    matrix = rows(gradient)
    lengths = norm(matrix, dim=1, keepdim=True).to(gradient.dtype)
    longest = lengths.amax()
    even = matrix * (longest / lengths.clamp(min=1e-6 * float(longest)))
    return even.view_as(gradient) / (2 * lam * ridge_of(cost))


def next_trial(
    cost: GroupCost, plan: Schedule, phase: int, trial: Tensor, losses: Tensor, gradient: Tensor, lam: float
) -> Tensor:
    """The trial after the gradient of `phase`; the last of the plan is structured."""
    if isinstance(cost, Penalised) and plan[0] > 1:
        return _tournament(cost, plan, phase, trial, losses, gradient, lam)
    structured = linearised_maximum(cost, gradient, lam)
    if plan[phase] == 1:
        return structured
    return torch.lerp(gradient / (2 * lam * ridge_of(cost)), structured, plan[phase])


def _tournament(
    cost: Penalised, plan: Schedule, phase: int, trial: Tensor, losses: Tensor, gradient: Tensor, lam: float
) -> Tensor:
    """Shifts that each climb on their own share of the samples; those with the largest S there stay in the field."""
    m, left = len(trial), int(plan[phase])
    field = int(plan[phase - 1]) if phase > 0 else m
    if left == field or phase == 0:
        heats = PerBatch(cost).bind(torch.arange(m) % left)
        return linearised_maximum(heats, gradient, lam)
    heat = torch.arange(m, device=trial.device) % field
    scores = losses - lam * cost.ridge * norm(rows(trial), dim=1).square().to(losses.dtype)
    mean = scores.new_zeros(field).index_add_(0, heat, scores) / torch.bincount(heat, minlength=field)
    winners = mean.topk(left).indices  # the first `field` rows hold one shift each
    return trial[winners[torch.arange(m, device=trial.device) % left]]


def _is_universal(cost: GroupCost) -> bool:
    return isinstance(cost.cost if isinstance(cost, Scaled) else cost, Universal)
