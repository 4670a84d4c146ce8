"""Starts of the ascent that see through flat losses: the structure is given up first, then brought in again.

A sample that the model is sure of has almost no gradient at Δ = 0, and an average of such gradients says nothing about
where the loss could go. So the first trial moves every sample on its own, as far as the one with the longest gradient
would go; there the gradients are those of a model that errs. A schedule then leads to a structured perturbation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gsat._arrays.norms import norm, rows, total
from gsat.costs import GroupCost, Penalised, PerBatch, is_universal
from gsat.solvers.base import linearised_maximum, ridge_of
from gsat.solvers.oracle import Oracle

Schedule = tuple[float, ...]  # shares up to 1, or numbers of shifts, the first of them above 1

TOURNAMENT = (20, 20, 20, 5, 5, 5, 1)  # shifts in the field, gradient by gradient
LEAST_HEAT = 10  # samples on which a shift of the first round is judged, at the least
FINAL_STRIDE = 0.5  # of the way to the linearised maximum; whole strides overshoot where λ is small


def schedule(cost: GroupCost, m: int, n_inner: int, relax: int) -> Schedule:
    """What happens after each relaxed gradient: the share of the structure, or the number of shifts left.

    A universal shift has many local maxima, about one per class it can push to, and the mean of the samples' gradients
    leads to a poor one: there a tournament of shifts is held. Any other structure is phased in by blending.
    """
    if is_universal(cost) and relax > 0 and n_inner >= 20 and m >= 2 * LEAST_HEAT:
        field = min(TOURNAMENT[0], m // LEAST_HEAT)
        return tuple(max(1, size * field // TOURNAMENT[0]) for size in TOURNAMENT)
    n = min(relax, n_inner // 4)
    return tuple((phase + 1) / n for phase in range(n))


def first_trial(cost: GroupCost, gradient: Tensor, lam: float) -> Tensor:
    """V/(2λ·ridge), V the gradient with every sample's row as long as the longest."""
    matrix = rows(gradient)
    lengths = norm(matrix, dim=1, keepdim=True).to(gradient.dtype)
    longest = lengths.amax()
    even = matrix * (longest / torch.maximum(lengths, 1e-6 * longest))
    return even.view_as(gradient) / (2 * lam * ridge_of(cost))


def next_trial(
    oracle: Oracle,
    cost: GroupCost,
    plan: Schedule,
    phase: int,
    trial: Tensor,
    losses: Tensor,
    gradient: Tensor,
    lam: float,
) -> Tensor:
    """The trial after the gradient of `phase`; the last of the plan is structured."""
    if isinstance(cost, Penalised) and plan[0] > 1:
        return _tournament(oracle, cost, plan, phase, trial, losses, gradient, lam)
    structured = linearised_maximum(cost, gradient, lam)
    if plan[phase] == 1:
        return structured
    free = gradient / (2 * lam * ridge_of(cost))
    return torch.lerp(free, structured, plan[phase], out=free)


def _tournament(
    oracle: Oracle,
    cost: Penalised,
    plan: Schedule,
    phase: int,
    trial: Tensor,
    losses: Tensor,
    gradient: Tensor,
    lam: float,
) -> Tensor:
    """Shifts that each climb on their own share of the samples; those with the largest S there stay in the field.

    The last of them is chosen on the whole group: on a share of it the order of the best is left to chance.
    """
    left, field = int(plan[phase]), int(plan[phase - 1]) if phase > 0 else 0
    turn = torch.arange(len(trial), device=trial.device)
    if phase == 0:
        return _climb(cost, left, gradient, lam)
    if left == field or left == 1:
        climbed = _climb(cost, field, gradient, lam)
        if field < plan[0]:
            climbed = torch.lerp(trial, climbed, FINAL_STRIDE)
        return climbed if left > 1 else _winner(oracle, cost, climbed[:field], lam)
    scores = losses - lam * cost.ridge * norm(rows(trial), dim=1).square().to(losses.dtype)
    sizes = scores.new_tensor([len(range(heat, len(trial), field)) for heat in range(field)])
    mean = scores.new_zeros(field).index_add_(0, turn % field, scores) / sizes
    winners = mean.topk(left).indices  # the first `field` rows hold one shift each
    return trial[winners[turn % left]]


def _climb(cost: Penalised, field: int, gradient: Tensor, lam: float) -> Tensor:
    """The linearised maximum of one shift per heat."""
    return linearised_maximum(PerBatch(cost).in_turn(field, len(gradient)), gradient, lam)


def _winner(oracle: Oracle, cost: Penalised, shifts: Tensor, lam: float) -> Tensor:
    """The shift with the largest S on the whole group; two forward passes are charged as one gradient."""
    price = lam * cost.ridge * len(oracle.x)
    scores = [
        total(oracle.losses(shift.expand_as(oracle.x))) - price * norm(shift).double().square() for shift in shifts
    ]
    oracle.n_gradients += (len(shifts) + 1) // 2
    best = torch.stack(scores).nan_to_num(nan=-math.inf, posinf=-math.inf).argmax()
    return shifts.index_select(0, best.reshape(1)).expand_as(oracle.x).contiguous()
