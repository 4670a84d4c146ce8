"""Attacks for evaluation: the largest loss under a structure across samples and ‖δ_i‖₂ ≤ eps for each sample."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from gsat import _checks
from gsat._numeric import rows, total
from gsat.adversary import SampleLoss, per_sample_cross_entropy
from gsat.balls import Ball, Columns, Equal, Free, Subspace, inside, unit_rows
from gsat.costs import flat_labels
from gsat.oracle import Oracle, frozen, untouched
from gsat.sanity import warn_of_masking

PER_START = 25  # gradients for each start of a structured search
AT_ONCE = 2000  # samples per pass through the model; a group may be a whole test set
LEAPS = 8  # of them, at the most so many re-choose the shared part


@dataclass(frozen=True)
class Found:
    """A perturbation (m, d), its shared part, and the sum of the losses there."""

    delta: Tensor
    part: Tensor
    loss: float


@dataclass(frozen=True)
class Attack(ABC):
    """delta = attack(model, x, y): (m, *features), with the structure and ‖δ_i‖₂ ≤ eps.

    eps:       the norm bound, in the units of x (the paper's is 0.05·gsat.mean_norm(X))
    steps:     gradients per restart; step_size: of the refinement, None = eps/50
    restarts:  independent searches, the best kept; random_start: begin at random points instead of x
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

    def _run(self, model: nn.Module, x: Tensor, y: Tensor, part: Tensor | None = None) -> Found:
        _checks.labels(y, len(x))
        sample_loss = per_sample_cross_entropy if self.loss is None else self.loss
        mask, bounds = _checks.feature_mask(self.feature_mask, x), _checks.bounds(self.bounds, x)
        with frozen(model), untouched(x):
            generator = Generator().manual_seed(self.seed)
            oracle = Flat(
                [
                    Oracle(lambda z, labels=labels: sample_loss(model(z), labels), part, mask, bounds)  # type: ignore[misc]
                    for part, labels in zip(torch.split(x, AT_ONCE), torch.split(y, AT_ONCE), strict=True)
                ]
            )
            tries = [self._search(oracle, generator, part) for _ in range(self.restarts)]
            best = max(tries, key=lambda found: found.loss)
            return (
                best if mask is None else replace(best, delta=best.delta * mask.reshape(-1))
            )  # rounding reaches past it

    @abstractmethod
    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Found:
        """One search, inside `part` where one is given."""

    def _first(self, oracle: Flat, generator: Generator) -> Tensor:
        if not self.random_start:
            return torch.zeros_like(oracle.x)
        far = torch.randn(oracle.x.shape, generator=generator).to(oracle.x)
        mask = oracle.parts[0].mask
        return self.eps * unit_rows(far if mask is None else far * mask.reshape(-1))


class Flat:
    """The losses and gradients of samples (m, *features) for perturbations (m, d), a few thousand samples at a time."""

    def __init__(self, parts: list[Oracle]) -> None:
        self.parts = parts
        self.x = torch.cat([rows(part.x) for part in parts])

    def __call__(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        """The losses and the gradient, as a matrix."""
        found = [part(piece) for part, piece in self._split(delta)]
        return torch.cat([losses for losses, _ in found]), torch.cat([rows(gradient) for _, gradient in found])

    def losses(self, delta: Tensor) -> Tensor:
        """The losses alone."""
        return torch.cat([part.losses(piece) for part, piece in self._split(delta)])

    def _split(self, delta: Tensor) -> list[tuple[Oracle, Tensor]]:
        pieces = torch.split(delta, [len(part.x) for part in self.parts])
        return [(part, piece.view_as(part.x)) for part, piece in zip(self.parts, pieces, strict=True)]


@dataclass(frozen=True)
class PGD(Attack):
    """Projected gradient ascent with normalised gradients, every sample on its own.

    keep: "best", each sample's largest loss on the way, or "last", which saves the evaluation of the last point
    """

    name: ClassVar[str] = "pgd"

    keep: Literal["best", "last"] = field(default="best", kw_only=True)

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Found:
        step = self.eps / 50 if self.step_size is None else self.step_size
        delta = self._first(oracle, generator)
        best, best_losses = delta, torch.full_like(oracle.x[:, 0], -math.inf)
        for _ in range(self.steps):
            losses, gradient = oracle(delta)
            if self.keep == "best":
                best, best_losses = _better(delta, losses, best, best_losses)
            delta = inside(delta + step * unit_rows(gradient), self.eps)
        if self.keep == "last" and self.restarts == 1:
            return Found(delta, delta.new_empty(0), math.nan)
        best, best_losses = _better(delta, oracle.losses(delta), best, best_losses)  # with "last", this one alone
        return Found(best, best.new_empty(0), float(total(best_losses)))


@dataclass(frozen=True)
class FGM(Attack):
    """One gradient: δ_i = eps·g_i/‖g_i‖, or with direction="sign" eps·sign(g_i)/‖sign(g_i)‖ (FGSM with an L2 norm)."""

    name: ClassVar[str] = "fgm"

    direction: Literal["gradient", "sign"] = field(default="gradient", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction not in ("gradient", "sign"):
            raise ValueError(f'direction must be "gradient" or "sign", got {self.direction!r}')

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Found:
        _, gradient = oracle(self._first(oracle, generator))
        delta = self.eps * unit_rows(gradient.sign() if self.direction == "sign" else gradient)
        loss = float(total(oracle.losses(delta))) if self.restarts > 1 else math.nan
        return Found(delta, delta.new_empty(0), loss)


@dataclass(frozen=True)
class Structured(Attack):
    """The search that the structured attacks share.

    A leap goes to the point of the feasible set that is steepest for the gradients at hand, with the shared part chosen
    anew: for a loss that is convex in δ a leap never loses, and it does not freeze on the first support as a projection
    after small steps does. When leaps no longer gain, normalised gradient steps refine inside the part. One start takes
    about 25 gradients; more steps allow more starts: from x with every sample counting the same, from the unstructured
    attack, from x with the gradients as they are, then from random points. The best point of all is kept.
    """

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Found:
        x, ball = oracle.x, self.ball
        zero = torch.zeros_like(x)
        if self.eps == 0 or self.strength == 0:
            return Found(zero, zero.new_empty(0), float(total(oracle.losses(zero))))
        losses, slope = oracle(self._first(oracle, generator))
        best = Found(zero, zero.new_empty(0), float(total(oracle.losses(zero) if self.random_start else losses)))
        left = self.steps - 1
        n_starts = max(1, self.steps // PER_START)
        for start in range(n_starts):
            budget = left // (n_starts - start)
            left -= budget
            gradient = slope
            if start == 0:
                gradient = unit_rows(slope)
            elif start != 2 and budget > 1:
                far = unit_rows(slope) if start == 1 else unit_rows(torch.randn(x.shape, generator=generator).to(x))
                gradient = oracle((1.0 if start == 1 else 3.0) * self.eps * far)[1]
                budget -= 1
            found = self._climb(oracle, ball, gradient, budget, part)
            best = max(best, found, key=lambda candidate: candidate.loss)
        return best

    def _climb(self, oracle: Flat, ball: Ball, gradient: Tensor, budget: int, part: Tensor | None) -> Found:
        """From the steepest point for `gradient`: leaps, then steps whose length adapts, with `budget` gradients."""
        fixed = part

        def leap(slope: Tensor) -> tuple[Tensor, Tensor]:
            chosen = ball.part(slope) if fixed is None else fixed
            return self.eps * unit_rows(ball.restrict(slope, chosen)), chosen

        delta, chosen = leap(gradient)
        if budget < 1:
            return Found(delta, chosen, float(total(oracle.losses(delta))))
        losses, slope = oracle(delta)
        best = Found(delta, chosen, float(total(losses)))
        step = self.eps / 50 if self.step_size is None else self.step_size
        leaping = True
        for turn in range(1, budget):
            if leaping:
                trial, chosen = leap(slope)
            else:
                trial = inside(best.delta + step * unit_rows(ball.restrict(slope, best.part)), self.eps)
                chosen = best.part
            losses, gradient = oracle(trial)
            loss = float(total(losses))
            gained = loss > best.loss
            if leaping:
                leaping = loss > best.loss * (1 + 1e-4) and turn < LEAPS
            else:
                step = min(2 * step, self.eps) if gained else step / 2
                if step < 1e-5 * self.eps:
                    break
            if gained:
                best, slope = Found(trial, chosen, loss), gradient
        return best


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


def _better(delta: Tensor, losses: Tensor, best: Tensor, best_losses: Tensor) -> tuple[Tensor, Tensor]:
    """Row by row, the perturbation with the larger loss."""
    larger = losses > best_losses
    return torch.where(larger[:, None], delta, best), torch.where(larger, losses, best_losses)
