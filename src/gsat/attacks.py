"""Attacks for evaluation: the largest loss under a structure across samples and ‖δ_i‖₂ ≤ eps for each sample."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from gsat import _checks
from gsat._numeric import total
from gsat.adversary import SampleLoss, per_sample_cross_entropy
from gsat.balls import Ball, Columns, Equal, Free, Subspace, ascend, inside, unit_rows
from gsat.costs import flat_labels
from gsat.flat import Flat
from gsat.moved import Moved
from gsat.oracle import frozen, untouched
from gsat.reduce import Reduced, RowSpace, row_space
from gsat.sanity import warn_of_masking

LEAPS = 8  # from one start, at the most


@dataclass(frozen=True)
class Found:
    """A perturbation (m, d), its shared part, the losses (m,) there and, where it is known, their gradient (m, d)."""

    delta: Tensor
    part: Tensor
    losses: Tensor
    slope: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def loss(self) -> float:
        """The sum of the losses."""
        return float(total(self.losses))

    def joined(self, other: Found, better: Tensor | None = None) -> Found:
        """Row by row, the perturbation with the larger loss, or the other one where `better`; both in one part."""
        better = other.losses > self.losses if better is None else better
        slope = torch.where(better[:, None], other.slope, self.slope) if self.slope.numel() else self.slope
        delta = torch.where(better[:, None], other.delta, self.delta)
        return Found(delta, self.part, torch.where(better, other.losses, self.losses), slope)


@dataclass(frozen=True)
class Attack(ABC):
    """delta = attack(model, x, y): (m, *features), with the structure and ‖δ_i‖₂ ≤ eps.

    eps:       the norm bound, in the units of x (the paper's is 0.05·gsat.mean_norm(X))
    steps:     gradients per restart; step_size: of the refinement, None = 2·eps/steps, the paper's eps/50 at 100
    restarts:  searches, the best kept, all but the first from random points; random_start: the first from one too
    loss:      (outputs, y) -> (m,), by default the cross-entropy of logits
    feature_mask, bounds: as in gsat.maximise
    """

    name: ClassVar[str]

    eps: float
    steps: int = field(default=100, kw_only=True)
    step_size: float | None = field(default=None, kw_only=True)
    restarts: int = field(default=1, kw_only=True)
    random_start: bool = field(default=False, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    loss: SampleLoss | None = field(default=None, kw_only=True)
    feature_mask: Any = field(default=None, kw_only=True)
    bounds: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _checks.number("eps", self.eps, least=0)
        _checks.count("steps", self.steps, least=1)
        _checks.count("restarts", self.restarts, least=1)
        if self.step_size is not None:
            _checks.number("step_size", self.step_size, above=0)

    @property
    def strength(self) -> float:
        """What a curve of accuracy against strength has on its axis."""
        return self.eps

    @property
    def _step(self) -> float:
        return 2 * self.eps / self.steps if self.step_size is None else self.step_size

    @property
    def ball(self) -> Ball:
        """The structure of the perturbation."""
        return Free()

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The perturbation; with `batch`, one structure for each batch. Warns of what makes an attack look weak."""
        x = _checks.group("x", x)
        warn_of_masking(model, x, _checks.labels(y, len(x)), self.loss)
        return self.perturb(model, x, y, batch)

    def perturb(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """As a call, without the warnings."""
        x = _checks.group("x", x)
        if batch is None:
            return self._run(model, x, y).delta.view_as(x)
        codes = _checks.batch_codes(batch, len(x)).to(x.device)
        delta = torch.zeros_like(x)
        for code in range(int(codes.max()) + 1):
            chosen = codes == code
            delta[chosen] = self._run(model, x[chosen], y[chosen]).delta.view_as(x[chosen])
        return delta

    def fit(self, model: nn.Module, x: Tensor, y: Tensor) -> Fitted:
        """The attack with the shared part found on these samples, for use on others."""
        found = self._run(model, _checks.group("x", x), y)
        return Fitted(self, x.shape[1:], found)

    def search(self, model: nn.Module, x: Tensor, y: Tensor) -> Moved:
        """As `perturb`, but what is as large as the group is not formed yet; to be used before the weights change."""
        x = _checks.group("x", x).detach()
        found, space = self._found(model, x, y)
        if space is None:
            return Moved(x, found.delta.view_as(x), bounds=_checks.bounds(self.bounds, x))
        return Moved(x, form=Reduced(space, found.delta))

    def _run(self, model: nn.Module, x: Tensor, y: Tensor, part: Tensor | None = None) -> Found:
        """What was found, in the coordinates of x."""
        found, space = self._found(model, x, y, part)
        if space is None:
            return found
        part = space.basis.expand(found.part) if found.part.numel() else found.part
        return replace(found, delta=space.basis.expand(found.delta), part=part)

    def _found(
        self, model: nn.Module, x: Tensor, y: Tensor, part: Tensor | None = None
    ) -> tuple[Found, RowSpace | None]:
        """What was found, in the coordinates of x or of the row space."""
        _checks.labels(y, len(x))
        sample_loss = per_sample_cross_entropy if self.loss is None else self.loss
        mask, bounds = _checks.feature_mask(self.feature_mask, x), _checks.bounds(self.bounds, x)
        with frozen(model), untouched(x):
            generator = Generator().manual_seed(self.seed)
            seen = row_space(model, x, mask) if self._rotates and part is None else None
            if seen is None:
                oracle = Flat.plain(model, x, y, sample_loss, mask, bounds)
            else:
                oracle = Flat.reduced(x, mask, seen, y, sample_loss)
            searches = [self] + [replace(self, random_start=True)] * (self.restarts - 1)  # from x again is the same
            tries = [search._search(oracle, generator, part) for search in searches]
            if isinstance(self.ball, Free):
                best = reduce(Found.joined, tries)
            else:
                best = max(tries, key=lambda found: found.loss)
            if seen is None and mask is not None:
                best = replace(best, delta=best.delta * mask.reshape(-1))  # rounding reaches past it
            return best, seen

    @property
    def _rotates(self) -> bool:
        """Whether the search does not depend on the axes of feature space, so that `gsat.reduce` holds."""
        return self.ball.rotates and self.bounds is None and self.restarts == 1 and not self.random_start

    @abstractmethod
    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Found:
        """One search, inside `part` where one is given."""

    def _first(self, oracle: Flat, generator: Generator) -> Tensor:
        if not self.random_start:
            return torch.zeros_like(oracle.x)
        return self.eps * oracle.directions(generator)


@dataclass(frozen=True)
class PGD(Attack):
    """Projected gradient ascent with normalised gradients, every sample on its own.

    keep: "best", each sample's largest loss on the way, or "last", which saves the evaluation of the last point
    """

    name: ClassVar[str] = "pgd"

    keep: Literal["best", "last"] = field(default="best", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep not in ("best", "last"):
            raise ValueError(f'keep must be "best" or "last", got {self.keep!r}')

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Found:
        step = self._step
        delta = self._first(oracle, generator)
        nothing = delta.new_empty(0)
        best = Found(torch.zeros_like(delta[:1]).expand_as(delta), nothing, torch.full_like(delta[:, 0], -math.inf))
        for _ in range(self.steps):
            losses, gradient = oracle(delta)
            if self.keep == "best":
                best = best.joined(Found(delta, nothing, losses))
            ascend(delta, gradient, step, self.eps)
            del gradient  # before the next, which is as large
        if self.keep == "last" and self.restarts == 1:
            return Found(delta, nothing, nothing)
        return best.joined(Found(delta, nothing, oracle.losses(delta)))  # with "last", this one alone


@dataclass(frozen=True)
class FGM(Attack):
    """One gradient: δ_i = eps·g_i/‖g_i‖, or with direction="sign" eps·sign(g_i)/‖sign(g_i)‖ (FGSM with an L2 norm)."""

    name: ClassVar[str] = "fgm"

    direction: Literal["gradient", "sign"] = field(default="gradient", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction not in ("gradient", "sign"):
            raise ValueError(f'direction must be "gradient" or "sign", got {self.direction!r}')

    @property
    def _rotates(self) -> bool:
        return super()._rotates and self.direction == "gradient"

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Found:
        _, gradient = oracle(self._first(oracle, generator))
        delta = self.eps * unit_rows(gradient.sign() if self.direction == "sign" else gradient)
        nothing = delta.new_empty(0)
        return Found(delta, nothing, oracle.losses(delta) if self.restarts > 1 else nothing)


@dataclass(frozen=True)
class Structured(Attack):
    """The search that the structured attacks share.

    A leap goes to the point of the feasible set that is steepest for the gradients at hand, with the shared part chosen
    anew: for a loss that is convex in δ a leap never loses, and it does not freeze on the first support as a projection
    after small steps does. Leaps start from x with every sample counting the same, from the unstructured attack, from x
    with the gradients as they are, from the opposite of the best point, then from random points, for as long as
    four fifths of the gradients last. Steps of adaptive length inside the part of the best point take the rest.
    """

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Found:
        zero = torch.zeros_like(oracle.x)
        if self.eps == 0 or self.strength == 0:
            return Found(zero, zero.new_empty(0), oracle.losses(zero))
        losses, slope = oracle(self._first(oracle, generator))
        if not bool(torch.isfinite(losses).all() & torch.isfinite(slope).all()):
            raise FloatingPointError("loss or gradient is not finite before anything moved; look at x, y, model")
        best = Found(zero, zero.new_empty(0), oracle.losses(zero) if self.random_start else losses, slope)
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

    def _leaps(self, oracle: Flat, gradient: Tensor, left: int, kept: int, part: Tensor | None) -> tuple[Found, int]:
        """From the steepest point for `gradient`: leaps for as long as they gain, and the gradients left then."""
        ball = self.ball

        def leap(slope: Tensor, chosen: Tensor | None) -> Found:
            chosen = ball.part(slope) if chosen is None else chosen
            return self._at(oracle, self.eps * unit_rows(ball.restrict(slope, chosen)), chosen)

        if left < 1:
            chosen = ball.part(gradient) if part is None else part
            delta = self.eps * unit_rows(ball.restrict(gradient, chosen))
            return Found(delta, chosen, oracle.losses(delta)), left
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

    def _refined(self, oracle: Flat, best: Found, left: int) -> Found:
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

    def _at(self, oracle: Flat, delta: Tensor, part: Tensor) -> Found:
        losses, slope = oracle(delta)
        return Found(delta, part, losses, slope)


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


@dataclass(frozen=True)
class Fitted:
    """An attack whose shared part was found on one set: `apply` uses it on another.

    `shift` (*features) for universal, `columns` (the numbers of the features) for group-sparse, `subspace` (rank, d)
    for low-rank; None for the others. PGD and FGM share nothing, so applying them is attacking anew.
    """

    attack: Attack
    shape: torch.Size
    found: Found

    @property
    def shift(self) -> Tensor | None:
        """The one shift, of the shape of a sample."""
        return self.found.delta[0].view(self.shape) if isinstance(self.attack.ball, Equal) else None

    @property
    def columns(self) -> Tensor | None:
        """The features that move."""
        return self.found.part.nonzero().flatten() if isinstance(self.attack.ball, Columns) else None

    @property
    def subspace(self) -> Tensor | None:
        """An orthonormal basis of the directions."""
        return self.found.part if isinstance(self.attack.ball, Subspace) else None

    def apply(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """The perturbation of new samples with the shared part found before; (m, *features)."""
        x = _checks.group("x", x)
        if x.shape[1:] != self.shape:
            raise ValueError(f"x must have samples of shape {tuple(self.shape)}, got {tuple(x.shape[1:])}")
        if self.shift is not None:
            return self.shift.expand_as(x).clone()
        part = self.found.part if self.found.part.numel() else None
        if part is None and isinstance(self.attack, Structured):
            return torch.zeros_like(x)  # nothing was found: eps, k or rank is 0, or the loss is flat
        return self.attack._run(model, x, y, part).delta.view_as(x)
