"""Projected gradient ascent with momentum and a step that halves itself, for one sample or for a group at a time.

The step rule is that of Auto-PGD (Croce and Hein, 2020). At checkpoints, whose distance shrinks, a step is halved where
fewer than three quarters of the moves since the last one gained, or where neither the step nor the best loss has
changed; the ascent then goes on from its best point.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gsat._arrays.norms import total
from gsat.attacks.flat import Candidate, Flat
from gsat.attacks.sets import unit_rows

MOMENTUM = 0.75  # share of the gradient step in a move; the rest repeats the last move
GAINING = 0.75  # of the moves between two checkpoints must gain
FIRST, SHORTER, LEAST = (
    0.22,
    0.03,
    0.06,
)  # of all moves: the first checkpoint, by how much distances shrink, their least


def ascend(
    oracle: Flat,
    start: Candidate,
    moves: int,
    step: float,
    feasible: Callable[[Tensor], Tensor],
    direct: Callable[[Tensor], Tensor] = unit_rows,
    *,
    each: bool,
) -> Candidate:
    """The strongest perturbation on the way from `start`, whose slope is known; it takes moves − 1 gradients.

    Parameters
    ----------
    oracle
        Losses, errors and gradients.
    start
        Where the ascent begins.
    moves
        Their number; the point after the last is evaluated without a gradient.
    step
        The length of the first steps.
    feasible
        (m, d) -> (m, d), the nearest perturbation that is allowed, or nearly so.
    direct
        The slope (m, d) -> directions of unit length.
    each
        Whether samples climb on their own, each with a step and a best point of its own; else the group does.
    """

    def height(point: Candidate) -> Tensor:
        return point.losses if each else total(point.losses).expand(len(point.losses))

    best = top = here = start
    before = start.delta
    steps = torch.full_like(start.delta[:, :1], step)
    gains, since, halved = torch.zeros_like(here.losses), 0, torch.zeros_like(here.wrong)
    top_before = height(top)
    marks = _checkpoints(moves)
    for t in range(1, moves + 1):
        ahead = feasible(here.delta + steps * direct(here.slope))
        if t > 1:
            ahead = feasible(here.delta + MOMENTUM * (ahead - here.delta) + (1 - MOMENTUM) * (here.delta - before))
        trial = oracle(ahead) if t < moves else oracle.seen(ahead)
        gains += height(trial) > height(here)
        before, here = here.delta, trial
        best = _stronger(best, trial, each)
        if t == moves:
            break
        top = top.joined(trial, height(trial) > height(top))
        if t in marks:
            idle = ~halved & (height(top) <= top_before)
            halved = (gains < GAINING * (t - since)) | idle
            steps = torch.where(halved[:, None], steps / 2, steps)
            here = here.joined(top, halved)
            before = torch.where(halved[:, None], top.delta, before)
            gains, since, top_before = torch.zeros_like(gains), t, height(top)
    return best


def _stronger(best: Candidate, trial: Candidate, each: bool) -> Candidate:
    """The stronger of both, row by row or as a whole."""
    return best.joined(trial) if each else max(best, trial, key=lambda point: point.score)


def _checkpoints(moves: int) -> set[int]:
    """After which moves the steps are looked at."""
    marks, last, mark = set(), 0.0, FIRST
    while mark <= 1:
        marks.add(math.ceil(mark * moves))
        last, mark = mark, mark + max(mark - last - SHORTER, LEAST)
    return marks
