"""The worst of several searches: no loss and no start is always the strongest.

fast
    One search with the attack's loss, and its restarts.
standard
    Besides, one with the bounded margin (DLR where the margin is the attack's own loss); one more with it from another
    start, which for a single shift is the best shift towards a class, for the others a random point; and one from a
    perturbation that was found on a surrogate, where one is given.
strong
    Besides, three searches from random points with each of both losses, and one without gradients around the strongest.

Each search may take as many gradients as a fast attack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from gsat.attacks.flat import Candidate, Flat
from gsat.attacks.sets import Free, inside, unit_rows
from gsat.losses import SampleLoss, per_sample_cross_entropy

if TYPE_CHECKING:
    from gsat.attacks.base import Attack

Oracles = Callable[[SampleLoss | str | None], Flat]
TARGETS = 10  # classes towards which a shift is tried
RESTARTS = 3  # random starts of a strong search
NARROW = 0.7  # the factor of a random change that did not gain


def searches(
    attack: Attack, oracle: Oracles, y: Tensor, part: Tensor | None, transferred: Tensor | None
) -> Iterator[Candidate]:
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
    for search in [attack] + [elsewhere] * (attack.restarts - 1):  # from x again is the same
        yield search._search(oracle(attack.loss), generator, part, None)
    if attack.strength == "fast" or attack.eps == 0 or attack.size == 0:
        return
    yield attack._search(oracle(other := _other(attack.loss)), generator, part, None)
    if transferred is not None:
        yield attack._search(oracle(other), generator, part, transferred)
    if attack.ball.rows_are_free:
        yield elsewhere._search(oracle(other), generator, part, None)
    elif part is None:
        yield attack._search(oracle(other), generator, part, targeted(attack, oracle, y))
    if attack.strength == "strong":
        for loss in (other, attack.loss) * RESTARTS:
            yield elsewhere._search(oracle(loss), generator, part, None)


def worst(attack: Attack, judge: Flat, tries: list[Candidate]) -> Candidate:
    """The strongest of what was found, by errors, then the attack's own loss; row by row where nothing is shared."""
    if len(tries) > 1:
        tries = [judge.seen(found.delta) for found in tries]
    if isinstance(attack.ball, Free):
        return reduce(Candidate.joined, tries)
    best = max(tries, key=lambda found: found.score)
    return wandered(attack, judge, best) if attack.strength == "strong" else best


def targeted(attack: Attack, oracle: Oracles, y: Tensor) -> Tensor:
    """The strongest of the shifts that draw all samples towards one of the classes of y, (m, d)."""
    judge = oracle("margin")
    zero = torch.zeros_like(judge.x)
    shifts = []
    for target in y.bincount().topk(min(TARGETS, int((y.bincount() > 0).sum()))).indices:
        slope = oracle(_towards(int(target)))(zero).slope
        shifts.append(judge.seen(attack.eps * unit_rows(attack.ball.nearest(slope))))
    return max(shifts, key=lambda found: found.score).delta


def wandered(attack: Attack, judge: Flat, best: Candidate) -> Candidate:
    """Random changes of the perturbation that keep its structure, kept where they gain; no gradient is taken."""
    generator, size = Generator().manual_seed(attack.seed), 0.3
    for _ in range(attack.steps):
        change = judge.directions(generator)
        common = change[torch.randint(len(change), (1,), generator=generator)]  # one direction for all samples
        weights = torch.randn(len(change), 1, generator=generator).to(change) if attack.ball.rows_are_free else 1.0
        moved = attack.ball.nearest(best.delta + size * attack.eps * weights * common)
        trial = judge.seen(inside(moved, attack.eps))
        gained = trial.score > best.score
        best = trial if gained else best
        size = min(1.0, size / NARROW**2) if gained else max(1e-2, size * NARROW**0.25)
    return best


def _other(loss: SampleLoss | str | None) -> str:
    """The loss of the further searches."""
    return "dlr" if loss == "margin" else "margin"


def _towards(target: int) -> SampleLoss:
    """Minus the cross-entropy with this class as the label."""
    return lambda outputs, y: -per_sample_cross_entropy(outputs, torch.full_like(y, target))
