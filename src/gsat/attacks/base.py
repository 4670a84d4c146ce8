"""What all attacks share: how they are called, restarted, shortened by `gsat.shortcuts`, and used on other samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from gsat import _checks, _defaults
from gsat._arrays.norms import rows, total
from gsat.attacks.flat import Flat
from gsat.attacks.masking import warn_of_masking
from gsat.attacks.sets import Ball, Columns, Equal, Free, Subspace
from gsat.losses import SampleLoss, per_sample_cross_entropy
from gsat.models.modes import frozen, untouched
from gsat.shortcuts import Path, choose

ROOM = 1e3  # between eps and the largest number whose square is finite
NOT_FINITE = "the outputs of the model must be finite on x and around it; look at x, at eps and at the weights"


@dataclass(frozen=True)
class Candidate:
    """A perturbation (m, d), its shared part, the losses (m,) there and, where it is known, their gradient (m, d)."""

    delta: Tensor
    part: Tensor
    losses: Tensor
    slope: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def loss(self) -> float:
        """The sum of the losses."""
        return float(total(self.losses))

    def joined(self, other: Candidate, better: Tensor | None = None) -> Candidate:
        """Row by row, the perturbation with the larger loss, or the other one where `better`; both in one part."""
        better = other.losses > self.losses if better is None else better
        slope = torch.where(better[:, None], other.slope, self.slope) if self.slope.numel() else self.slope
        delta = torch.where(better[:, None], other.delta, self.delta)
        return Candidate(delta, self.part, torch.where(better, other.losses, self.losses), slope)


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
    steps: int = field(default=_defaults.STEPS, kw_only=True)
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
        _checks.module("model", model)
        x = _checks.samples("x", x)
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
        found = self._run(model, x, y)
        return Fitted(self, x.shape[1:], found)

    def _run(self, model: nn.Module, x: Tensor, y: Tensor, part: Tensor | None = None) -> Candidate:
        """What was found, in the coordinates of x."""
        path, found = self.solve(model, x, y, part)
        shared = rows(path.expand(found.part)) if found.part.ndim == 2 else found.part  # the basis of a subspace
        return replace(found, delta=rows(path.expand(found.delta)), part=shared)

    def solve(self, model: nn.Module, x: Tensor, y: Tensor, part: Tensor | None = None) -> tuple[Path, Candidate]:
        """What was found, in the coordinates of the path that was taken; `part` is a shared part that is given."""
        _checks.module("model", model)
        x = _checks.samples("x", x)
        _checks.labels(y, len(x))
        _checks.number("eps", self.eps, most=torch.finfo(x.dtype).max ** 0.5 / ROOM)
        sample_loss = per_sample_cross_entropy if self.loss is None else self.loss
        mask, bounds = _checks.feature_mask(self.feature_mask, x), _checks.bounds(self.bounds, x)
        with frozen(model), untouched(x):
            generator = Generator().manual_seed(self.seed)
            path = choose(model, x.detach(), mask, rotates=self._rotates and part is None)
            oracle = Flat.of(path, x.detach(), y, sample_loss, mask, bounds)
            searches = [self] + [replace(self, random_start=True)] * (self.restarts - 1)  # from x again is the same
            try:
                tries = [search._search(oracle, generator, part) for search in searches]
            except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
                raise FloatingPointError(f"{NOT_FINITE}: {error}") from None
            if not all(bool(torch.isfinite(found.losses).all()) for found in tries):
                raise FloatingPointError(NOT_FINITE)
            if isinstance(self.ball, Free):
                best = reduce(Candidate.joined, tries)
            else:
                best = max(tries, key=lambda found: found.loss)
            if path.mask is not None:
                best = replace(best, delta=best.delta * path.mask.reshape(-1))  # rounding reaches past it
            return path, best

    @property
    def _rotates(self) -> bool:
        """Whether the search does not depend on the axes of feature space, so that the row space is enough."""
        return self.ball.rotates and self.bounds is None and self.restarts == 1 and not self.random_start

    @abstractmethod
    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Candidate:
        """One search, inside `part` where one is given."""

    def _first(self, oracle: Flat, generator: Generator) -> Tensor:
        if not self.random_start:
            return torch.zeros_like(oracle.x)
        return self.eps * oracle.directions(generator)


@dataclass(frozen=True)
class Fitted:
    """An attack whose shared part was found on one set: `apply` uses it on another.

    `shift` (*features) for universal, `columns` (the numbers of the features) for group-sparse, `subspace` (rank, d)
    for low-rank; None for the others. PGD and FGM share nothing, so applying them is attacking anew.
    """

    attack: Attack
    shape: torch.Size
    found: Candidate

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
        x = _checks.samples("x", x)
        if x.shape[1:] != self.shape:
            raise ValueError(f"x must have samples of shape {tuple(self.shape)}, got {tuple(x.shape[1:])}")
        if self.shift is not None:
            return self.shift.expand_as(x).clone()
        part = self.found.part if self.found.part.numel() else None
        if part is None and not isinstance(self.attack.ball, Free):
            return torch.zeros_like(x)  # nothing was found: eps, k or rank is 0, or the loss is flat
        return self.attack._run(model, x, y, part).delta.view_as(x)
