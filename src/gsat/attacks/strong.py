"""The worst of several searches: no loss and no start is always the strongest.

fast
    One search with the attack's loss, and its restarts.
standard
    Besides, two with the bounded margin (where that is the attack's own loss with DLR, or with the cross-entropy where
    there are two classes; with a loss of the user's own with that alone). With columns or a subspace the second of them
    goes on from the strongest perturbation so far, without a structure it starts from a random point.
    One shift for all climbs instead: once from x, once from the best of the shifts towards a class, which take two
    gradients each and at most two fifths of all. And one search from a perturbation that was found on a surrogate,
    where one is given.
strong
    Besides, three searches from random points with each of both losses, and one without gradients around the strongest.

Each search takes as many gradients as a fast attack, those for its start counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from gsat._ranks import sharing
from gsat.attacks.flat import AT_ONCE, Candidate, Flat
from gsat.attacks.sets import Equal, Free, unit_rows
from gsat.losses import BoundedMargin, SampleLoss

if TYPE_CHECKING:
    from gsat.attacks.base import Attack

Oracles = Callable[[SampleLoss | str | None], Flat]
TARGETS = 10  # classes towards which a shift is tried, at the most
LEAPS = 2  # gradients for each of them
RESTARTS = 3  # random starts of a strong search
NARROW = 0.7  # the factor of a random change that did not gain


def searches(
    attack: Attack, oracle: Oracles, y: Tensor, part: Tensor | None, transferred: Tensor | None
) -> list[Candidate]:
    """What the searches of the attack's strength find.

    Parameters
    ----------
    attack
        The attack.
    oracle
        Makes what a search asks, by the loss.
    y
        The labels (m,).
    part
        The shared part, where it is given.
    transferred
        A perturbation of these samples that was found on another model.
    """
    generator = Generator().manual_seed(attack.seed)
    elsewhere = replace(attack, random_start=True)
    found = [  # from x again is the same
        search._search(oracle(attack.loss), generator, part, None)
        for search in [attack] + [elsewhere] * (attack.restarts - 1)
    ]
    if attack.strength == "fast" or attack.eps == 0 or attack.size == 0:
        return found
    climber, shared = oracle(other := _other(attack, oracle)), isinstance(attack.ball, Equal)
    new = elsewhere if callable(attack.loss) else attack  # from x again with the same loss is the same
    found.append(new._search(climber, generator, part, torch.zeros_like(climber.x) if shared else None))
    if transferred is not None:
        found.append(attack._search(oracle(other), generator, part, transferred))
    if shared and _are_classes(y, climber.n_outputs):
        found.append(towards_a_class(attack, oracle, y, generator))
    elif shared or isinstance(attack.ball, Free):
        found.append(elsewhere._search(oracle(other), generator, part, None))
    else:
        found.append(attack._search(oracle(other), generator, part, strongest(attack, oracle, found).delta))
    if attack.strength == "strong":
        found += [elsewhere._search(oracle(loss), generator, part, None) for loss in (other, attack.loss) * RESTARTS]
    return found


def strongest(attack: Attack, oracle: Oracles, found: list[Candidate]) -> Candidate:
    """The strongest of what was found, by errors, then the attack's own loss; row by row where nothing is shared."""
    if len(found) > 1:
        judge = oracle(attack.loss)
        found = [judge.seen(candidate.delta) for candidate in found]
    if isinstance(attack.ball, Free):
        return reduce(Candidate.joined, found)
    return max(found, key=lambda candidate: candidate.score)


def worst(attack: Attack, oracle: Oracles, found: list[Candidate]) -> Candidate:
    """The strongest of what was found; for a strong attack with a structure, what random changes make of it."""
    best = strongest(attack, oracle, found)
    if attack.strength == "strong" and not isinstance(attack.ball, Free):
        return wandered(attack, oracle(attack.loss), best)
    return best


def towards_a_class(attack: Attack, oracle: Oracles, y: Tensor, generator: Generator) -> Candidate:
    """One shift that climbs from the strongest of those that draw all samples towards one of the classes of y."""
    climber = oracle(_other(attack, oracle))
    zero = torch.zeros_like(climber.x)
    starts, few = [climber.seen(zero)], slice(0, AT_ONCE)
    bounded = BoundedMargin.fitting(climber.path.outputs(climber.path.x[few], few), y[few])
    sizes = sharing().summed(y.bincount(minlength=climber.n_outputs))
    tried = min(TARGETS, int((sizes > 0).sum()), 2 * attack.steps // (5 * LEAPS))
    for target in sizes.topk(tried).indices:
        drawn, shift = oracle(_towards(int(target), bounded)), zero
        for _ in range(LEAPS):
            shift = attack.eps * unit_rows(attack.ball.nearest(drawn(shift).slope))
        starts.append(climber.seen(shift))
        climber.steps -= LEAPS
    return attack._search(climber, generator, None, max(starts, key=lambda found: found.score).delta)


def wandered(attack: Attack, judge: Flat, best: Candidate) -> Candidate:
    """Random changes of the perturbation that keep its structure, kept where they gain; no gradient is taken."""
    generator, size = Generator().manual_seed(attack.seed), 0.3
    begin, m = sharing().places(len(best.delta))
    for _ in range(attack.steps):
        common, weights = judge.directions(generator, one=True), torch.ones(1, 1)
        if attack.ball.rows_are_free:
            weights = torch.randn(m, 1, generator=generator)[begin : begin + len(best.delta)]
        moved = attack.ball.nearest(best.delta + size * attack.eps * weights.to(common) * common)
        trial = judge.seen(attack._inside(judge, moved))
        gained = trial.score > best.score
        best = trial if gained else best
        size = min(1.0, size / NARROW**2) if gained else max(1e-2, size * NARROW**0.25)
    return best


def _other(attack: Attack, oracle: Oracles) -> SampleLoss | str:
    """The loss of the further searches."""
    if callable(attack.loss):
        return attack.loss
    if attack.loss != "margin":
        return "margin"
    return "dlr" if oracle(attack.loss).n_outputs > 2 else "cross-entropy"  # DLR needs three classes


def _are_classes(y: Tensor, n_outputs: int) -> bool:
    """Whether the targets y (m, ...) are numbers of outputs, of which there are two at least."""
    whole = y.ndim == 1 and not y.is_floating_point() and n_outputs > 1
    return not sharing().any(not (whole and int(y.min()) >= 0 and int(y.max()) < n_outputs))


def _towards(target: int, bounded: BoundedMargin) -> SampleLoss:
    """Minus the bounded margin with this class as the label."""
    return lambda outputs, y: -bounded(outputs, torch.full_like(y, target))
