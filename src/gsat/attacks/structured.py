"""Attacks whose perturbation is structured across samples, and the search that they share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from gsat import _checks
from gsat._arrays.norms import finite
from gsat.attacks.ascent import ascend
from gsat.attacks.base import Attack
from gsat.attacks.flat import Candidate, Flat
from gsat.attacks.sets import Ball, Columns, Equal, Subspace, inside, unit_rows
from gsat.costs import flat_labels

FILLS = 4  # times that what the box cuts off a leap is given to its other entries
LEAPS = 8  # from one start, at the most
FREE = 0.12  # share of the gradients with which each sample climbs on its own
NARROWER = (8, 4, 2)  # times k: columns or ranks in which the samples climb next
NARROW = 0.05  # share of the gradients for each of these
ASCENT = 0.35  # share that is kept for the ascents at the end
LAST = 0.15  # share of the last of them, where rows are free


@dataclass(frozen=True)
class Structured(Attack):
    """The search that the structured attacks share.

    1. Each sample climbs on its own, for an eighth of the gradients: slopes there are those of a model that errs. Then,
       for as many, in 8, 4 and 2 times the columns or the rank that are allowed.
    2. Leaps, for less than half: a leap goes to the point of the feasible set that is steepest for given slopes, with
       the shared part chosen anew. For a loss that is convex in δ it never loses. Leaps start with the slopes at x,
       with those at the ends of 1, with those at the opposite of the best point, then with those at random points.
    3. A third of the gradients: ascent from the best point, projected on the structure, so that the shared part moves
       too; and, where rows are free inside a given part, a last ascent of each row in the part that was found.

    Where there is a box, columns leap and climb in it, so that no part of eps is spent outside.

    From a perturbation that is given, the samples climb and leap from there, and it counts as a point that was found;
    one shift for all does nothing but 3.

    Parameters
    ----------
    eps, steps, step_size, restarts, random_start, seed, loss, strength, feature_mask, bounds, metric
        As in `Attack`.

    Examples
    --------
    >>> import gsat
    >>> attacks = gsat.attacks.Universal(0.5), gsat.attacks.LowRank(0.5, rank=2), gsat.attacks.PGD(0.5)
    >>> [isinstance(attack, gsat.attacks.Structured) for attack in attacks]
    [True, True, False]
    """

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None, first: Tensor | None) -> Candidate:
        zero = torch.zeros_like(oracle.x)
        if self.eps == 0 or self.size == 0:
            return oracle.seen(zero)
        here = oracle(self._first(oracle, generator) if first is None else first)
        if not finite(here.losses, here.slope):
            raise FloatingPointError("loss or gradient is not finite before anything moved; look at x, y, model")
        if first is not None and not self.ball.rows_are_free:
            return self._ascent(oracle, here, oracle.left + 1, None)
        if oracle.left < 2:
            return oracle.seen(self._leap(oracle, unit_rows(here.slope), part)[0])
        kept = int(ASCENT * self.steps)
        best = oracle.seen(zero) if first is None else here
        for slope in self._slopes(oracle, here):
            best = max(best, self._leaps(oracle, slope, kept, part), key=lambda found: found.score)
        far = -best.delta
        while oracle.left > kept + 1:
            best = max(best, self._leaps(oracle, oracle(far).slope, kept, part), key=lambda found: found.score)
            far = 3 * self.eps * oracle.directions(generator)
        if oracle.left > 1 and part is None:
            reserved = int(LAST * self.steps) if self.ball.rows_are_free else -1
            best = self._ascent(oracle, best, max(2, oracle.left - reserved), None)
        if oracle.left > 1 and self.ball.rows_are_free:
            best = self._ascent(oracle, best, oracle.left, self.ball.shared(best.delta) if part is None else part)
        return best

    def _slopes(self, oracle: Flat, here: Candidate) -> Iterator[Tensor]:
        """Slopes to leap along: at x with all samples counting the same, where each climbed on its own, at x plainly.

        The way that a sample climbed counts as a slope too.
        """
        yield unit_rows(here.slope)
        moves = min(int(FREE * self.steps), oracle.left - 1)
        if moves > 1:
            free = ascend(oracle, here, moves, self.eps, lambda v: inside(oracle.boxed(v), self.eps), each=True)
            yield free.delta
            yield self._narrowed(oracle, free.delta)
            if oracle.left > 1:
                yield oracle(free.delta).slope
        if oracle.left > 1:
            yield here.slope

    def _narrowed(self, oracle: Flat, delta: Tensor) -> Tensor:
        """From a perturbation without structure: samples climb in fewer and fewer columns, or ranks."""
        for times in NARROWER if self.ball.rows_are_free else ():
            moves = min(int(NARROW * self.steps), oracle.left - 1)
            if moves > 1:
                wider = self._wider(times)
                part = wider.part(delta)
                start = oracle(inside(wider.restrict(delta, part), self.eps))
                delta = self._ascent(oracle, start, moves, part, wider).delta
        return delta

    def _wider(self, times: int) -> Ball:
        """The structure with so many times the columns or the rank."""
        return self.ball

    def _leap(self, oracle: Flat, slope: Tensor, part: Tensor | None) -> tuple[Tensor, Tensor]:
        """The steepest point of the feasible set for these slopes (m, d), and its shared part."""
        cut = oracle.box is not None and self._clips
        if cut:  # no column is worth its slopes that lead out of the box
            slope = torch.where(oracle.boxed(self.eps * unit_rows(slope)) == 0, 0, slope)
        chosen = self.ball.part(slope) if part is None else part
        delta = self.eps * unit_rows(self.ball.restrict(slope, chosen))
        for _ in range(FILLS if cut else 0):
            delta = self.eps * unit_rows(oracle.boxed(delta))
        return self._inside(oracle, delta), chosen

    def _leaps(self, oracle: Flat, slope: Tensor, kept: int, part: Tensor | None) -> Candidate:
        """From the steepest point for `slope`: leaps for as long as they gain, and then to the other side and back."""
        delta, chosen = self._leap(oracle, slope, part)
        best = here = oracle(delta)
        for _ in range(LEAPS):
            if oracle.left <= kept:
                break
            delta, last = self._leap(oracle, here.slope, part)
            trial = oracle(delta)
            if trial.loss > here.loss + 1e-4 * abs(here.loss):
                here, chosen = trial, last
                best = max(best, here, key=lambda found: found.score)
                continue
            if not self.ball.rows_are_free or oracle.left - kept < 2:
                break
            opposite = oracle(-here.delta)  # each row may have its highest point on the other side
            back = oracle(self._leap(oracle, opposite.slope, chosen)[0])
            turned = here.joined(opposite).joined(back)
            best = max(best, turned, key=lambda found: found.score)
            if turned.loss <= here.loss + 1e-4 * abs(here.loss):
                break
            here = turned
        return best

    def _ascent(
        self, oracle: Flat, start: Candidate, moves: int, part: Tensor | None, ball: Ball | None = None
    ) -> Candidate:
        """Ascent of the group with the structure, or of each row inside the given part."""
        ball = self.ball if ball is None else ball
        start = start if start.slope.numel() else oracle(start.delta)
        moves = min(moves, oracle.left + 1)
        if part is not None:
            return ascend(
                oracle,
                start,
                moves,
                self.step_size or self.eps / 4,
                lambda v: self._inside(oracle, ball.restrict(v, part)),
                lambda slope: unit_rows(ball.restrict(slope, part)),
                each=True,
            )
        return ascend(
            oracle,
            start,
            moves,
            self.step_size or self.eps,
            lambda v: self._inside(oracle, ball.nearest(v)),
            unit_rows if ball.rows_are_free else lambda slope: unit_rows(ball.nearest(slope)),
            each=False,
        )


@dataclass(frozen=True)
class Universal(Structured):
    """One shift for all samples of the group: δ_i = u, ‖u‖₂ ≤ eps.

    Parameters
    ----------
    eps, steps, step_size, restarts, random_start, seed, loss, strength, feature_mask, bounds, metric
        As in `Attack`.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(2, 2).eval(), torch.randn(6, 2), torch.tensor([0, 1, 0, 1, 1, 1])
    >>> fitted = gsat.attacks.Universal(0.5, steps=10).fit(model, x, y)
    >>> fitted.apply(model, x, y)[0].equal(fitted.shift)  # one shift, also for other samples
    True
    """

    name: ClassVar[str] = "universal"

    @property
    def ball(self) -> Ball:
        """All rows are equal."""
        return Equal()


@dataclass(frozen=True)
class GroupSparse(Structured):
    """At most k features (or blocks of `feature_groups`) move, the same in all samples.

    Parameters
    ----------
    eps, steps, step_size, restarts, random_start, seed, loss, strength, feature_mask, bounds, metric
        As in `Attack`.
    k
        Features, or blocks, at the most.
    feature_groups
        The block of each feature (features,); None for blocks of one feature.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 2).eval(), torch.randn(8, 6), torch.arange(8) % 2
    >>> fitted = gsat.attacks.GroupSparse(0.5, k=2, steps=10).fit(model, x, y)
    >>> len(fitted.columns)  # which features move
    2
    """

    name: ClassVar[str] = "group-sparse"

    k: int = field(kw_only=True)
    feature_groups: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.count("k", self.k)
        if self.feature_groups is not None:
            object.__setattr__(self, "feature_groups", flat_labels(self.feature_groups))

    @property
    def size(self) -> float:
        """The number of features."""
        return self.k

    @property
    def ball(self) -> Ball:
        """At most k columns."""
        return self._wider(1)

    def _wider(self, times: int) -> Ball:
        return Columns(times * self.k, self.feature_groups)


@dataclass(frozen=True)
class LowRank(Structured):
    """The perturbations span at most `rank` directions.

    Parameters
    ----------
    eps, steps, step_size, restarts, random_start, seed, loss, strength, feature_mask, bounds, metric
        As in `Attack`.
    rank
        Directions at the most.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 3).eval(), torch.randn(8, 6), torch.arange(8) % 3
    >>> delta = gsat.attacks.LowRank(0.5, rank=1, steps=10)(model, x, y)
    >>> int(torch.linalg.matrix_rank(delta, rtol=1e-4)) <= 1
    True
    """

    name: ClassVar[str] = "low-rank"

    rank: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.count("rank", self.rank)

    @property
    def size(self) -> float:
        """The rank."""
        return self.rank

    @property
    def ball(self) -> Ball:
        """A subspace of that many dimensions."""
        return self._wider(1)

    def _wider(self, times: int) -> Ball:
        return Subspace(times * self.rank)
