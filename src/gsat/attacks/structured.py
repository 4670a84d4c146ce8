"""Attacks whose perturbation is structured across samples, and the search that they share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from gsat import _checks
from gsat.attacks.base import Attack, Candidate
from gsat.attacks.flat import Flat
from gsat.attacks.sets import Ball, Columns, Equal, Subspace, inside, unit_rows
from gsat.costs import flat_labels

LEAPS = 8  # from one start, at the most


@dataclass(frozen=True)
class Structured(Attack):
    """The search that the structured attacks share.

    A leap goes to the point of the feasible set that is steepest for the gradients at hand, with the shared part chosen
    anew: for a loss that is convex in δ a leap never loses, and it does not freeze on the first support as a projection
    after small steps does. Leaps start from x with every sample counting the same, from the unstructured attack, from x
    with the gradients as they are, from the opposite of the best point, then from random points, for as long as
    four fifths of the gradients last. Steps of adaptive length inside the part of the best point take the rest.
    """

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Candidate:
        zero = torch.zeros_like(oracle.x)
        if self.eps == 0 or self.strength == 0:
            return Candidate(zero, zero.new_empty(0), oracle.losses(zero))
        losses, slope = oracle(self._first(oracle, generator))
        if not bool(torch.isfinite(losses).all() & torch.isfinite(slope).all()):
            raise FloatingPointError("loss or gradient is not finite before anything moved; look at x, y, model")
        best = Candidate(zero, zero.new_empty(0), oracle.losses(zero) if self.random_start else losses, slope)
        left = self.steps - 1
        kept = left // 5
        for start in range(self.steps):
            if start > 0 and left - kept < 2:
                break
            gradient = unit_rows(slope) if start == 0 else slope
            if start not in (0, 2):
                far = self.eps * unit_rows(slope) if start == 1 else -best.delta
                if start > 3:
                    far = 3 * self.eps * oracle.directions(generator)
                gradient, left = oracle(far)[1], left - 1
            found, left = self._leaps(oracle, gradient, left, kept, part)
            best = max(best, found, key=lambda candidate: candidate.loss)
        return self._refined(oracle, best, left) if best.part.numel() or isinstance(self.ball, Equal) else best

    def _leaps(
        self, oracle: Flat, gradient: Tensor, left: int, kept: int, part: Tensor | None
    ) -> tuple[Candidate, int]:
        """From the steepest point for `gradient`: leaps for as long as they gain, and the gradients left then."""
        ball = self.ball

        def leap(slope: Tensor, chosen: Tensor | None) -> Candidate:
            chosen = ball.part(slope) if chosen is None else chosen
            return self._at(oracle, self.eps * unit_rows(ball.restrict(slope, chosen)), chosen)

        if left < 1:
            chosen = ball.part(gradient) if part is None else part
            delta = self.eps * unit_rows(ball.restrict(gradient, chosen))
            return Candidate(delta, chosen, oracle.losses(delta)), left
        best, left = leap(gradient, part), left - 1
        for _ in range(LEAPS):
            if left <= kept:
                break
            before = best.loss
            trial, left = leap(best.slope, part), left - 1
            best = max(best, trial, key=lambda found: found.loss)
            if best.loss <= before + 1e-4 * abs(before):
                if not ball.rows_are_free or left - kept < 2:
                    break
                opposite, left = self._at(oracle, -best.delta, best.part), left - 1
                best = best.joined(opposite)
                best, left = best.joined(leap(opposite.slope, best.part)), left - 1
                if best.loss <= before + 1e-4 * abs(before):
                    break
        return best, left

    def _refined(self, oracle: Flat, best: Candidate, left: int) -> Candidate:
        """Steps in the part of `best`, longer after a gain and shorter after a loss; row by row where that is free."""
        ball = self.ball
        step = torch.full_like(best.delta[:, :1], self._step)
        for _ in range(left):
            ascent = unit_rows(ball.restrict(best.slope, best.part))
            trial = self._at(oracle, inside(best.delta + step * ascent, self.eps), best.part)
            gained = trial.losses > best.losses
            if not ball.rows_are_free:
                gained = torch.full_like(gained, trial.loss > best.loss)
            step = torch.where(gained[:, None], (2 * step).clamp(max=self.eps), step / 2)
            best = best.joined(trial, gained)
            if float(step.max()) < 1e-5 * self.eps:
                break
        return best

    def _at(self, oracle: Flat, delta: Tensor, part: Tensor) -> Candidate:
        losses, slope = oracle(delta)
        return Candidate(delta, part, losses, slope)


@dataclass(frozen=True)
class Universal(Structured):
    """One shift for all samples of the group."""

    name: ClassVar[str] = "universal"

    @property
    def ball(self) -> Ball:
        """All rows are equal."""
        return Equal()


@dataclass(frozen=True)
class GroupSparse(Structured):
    """At most k features (or blocks of `feature_groups`) move, the same in all samples."""

    name: ClassVar[str] = "group-sparse"

    k: int = field(kw_only=True)
    feature_groups: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.count("k", self.k)
        if self.feature_groups is not None:
            object.__setattr__(self, "feature_groups", flat_labels(self.feature_groups))

    @property
    def strength(self) -> float:
        """The number of features."""
        return self.k

    @property
    def ball(self) -> Ball:
        """At most k columns."""
        return Columns(self.k, self.feature_groups)


@dataclass(frozen=True)
class LowRank(Structured):
    """The perturbations span at most `rank` directions."""

    name: ClassVar[str] = "low-rank"

    rank: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.count("rank", self.rank)

    @property
    def strength(self) -> float:
        """The rank."""
        return self.rank

    @property
    def ball(self) -> Ball:
        """A subspace of that many dimensions."""
        return Subspace(self.rank)
