"""What all attacks share: how they are called, restarted, shortened by `gsat.shortcuts`, and used on other samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from gsat import _checks, _defaults
from gsat._arrays.norms import finite, rows
from gsat._ranks import sharing
from gsat.attacks.flat import Candidate, Flat
from gsat.attacks.masking import warn_of_bounds, warn_of_masking
from gsat.attacks.precision import HALF, in_float32
from gsat.attacks.sets import Ball, Columns, Equal, Free, Subspace, inside
from gsat.attacks.strong import searches, worst
from gsat.losses import NAMED_LOSSES, SampleLoss
from gsat.metric import Metric, fitting
from gsat.models.modes import frozen, untouched
from gsat.models.unwrapped import unwrapped
from gsat.shortcuts import Path, choose

ROOM = 1e3  # between eps and the largest number whose square is finite
NOT_FINITE = "the outputs of the model must be finite on x and around it; look at x, at eps and at the weights"


@dataclass(frozen=True)
class Attack(ABC):
    """delta = attack(model, x, y): (m, *features), with the structure and ‖δ_i‖₂ ≤ eps.

    Parameters
    ----------
    eps
        The norm bound, in the units of x (the paper's is 0.05·gsat.mean_norm(X)).
    steps, step_size
        Gradients of one search, and the length of an ascent's first steps, by default a share of eps.
    restarts, random_start, seed
        Searches, the best kept, all but the first from random points; whether the first is from one too; of the points.
    loss
        "cross-entropy" (the default), "margin" or "dlr": the strongest perturbation is the one with the most errors,
        then the largest loss; or a function (outputs, y) -> (m,), which is maximised as it is.
    strength
        "fast", one search with that loss; "standard" and "strong", the worst of several (`gsat.attacks.strong`).
    feature_mask
        Boolean (*features), True where samples may move.
    bounds
        A pair (lo, hi) in the units of x: the model sees clamp(x + δ, lo, hi).
    metric
        A `gsat.Metric` A: structure and bound are those of Z, ‖z_i‖₂ ≤ eps, and δ_i = A·z_i.

    Examples
    --------
    >>> import gsat
    >>> attack = gsat.attacks.Universal(0.5, steps=10, strength="standard")
    >>> isinstance(attack, gsat.attacks.Attack), attack.eps, attack.steps
    (True, 0.5, 10)
    """

    name: ClassVar[str]

    eps: float
    steps: int = field(default=_defaults.STEPS, kw_only=True)
    step_size: float | None = field(default=None, kw_only=True)
    restarts: int = field(default=1, kw_only=True)
    random_start: bool = field(default=False, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    loss: SampleLoss | str | None = field(default=None, kw_only=True)
    strength: str = field(default="fast", kw_only=True)
    feature_mask: Any = field(default=None, kw_only=True)
    bounds: Any = field(default=None, kw_only=True)
    metric: Metric | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _checks.number("eps", self.eps, least=0)
        _checks.count("steps", self.steps, least=1)
        _checks.count("restarts", self.restarts, least=1)
        if self.step_size is not None:
            _checks.number("step_size", self.step_size, above=0)
        _checks.one_of("strength", self.strength, _defaults.STRENGTHS)
        if self.loss is not None and not callable(self.loss):
            _checks.one_of("loss", self.loss, NAMED_LOSSES)

    @property
    def size(self) -> float:
        """What a curve of accuracy against the size of an attack has on its axis: columns, rank or eps."""
        return self.eps

    @property
    def ball(self) -> Ball:
        """The structure of the perturbation."""
        return Free()

    def __call__(
        self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None, *, surrogate: nn.Module | None = None
    ) -> Tensor:
        """The perturbation; with `batch`, one structure for each batch. Warns of what makes an attack look weak.

        Parameters
        ----------
        model
            Maps (m, *features) to logits (m, classes); it is attacked in eval mode and left as it is.
        x, y
            Samples (m, *features) and labels (m,).
        batch
            One id for each sample, or None.
        surrogate
            Another model, best one without a defence, on which "standard" and "strong" also search.

        Returns
        -------
        Tensor
            Δ (m, *features), without a gradient.
        """
        model = unwrapped(_checks.module("model", model))
        x = _checks.samples("x", x)
        model = in_float32(model, x)
        warn_of_masking(model, x, _checks.labels(y, len(x)), [(self.loss, self.strength)])
        warn_of_bounds(x, [self.bounds])
        if surrogate is None:
            return self.perturb(model, x, y, batch)
        return self.perturb(model, x, y, batch, surrogate=surrogate)

    def perturb(
        self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None, *, surrogate: nn.Module | None = None
    ) -> Tensor:
        """As a call, without the warnings."""
        x = _checks.group("x", x)
        codes = None if batch is None else _checks.batch_codes(batch, len(x)).to(x.device)
        if codes is None or isinstance(self.ball, Free):  # samples that share nothing share nothing inside a batch
            return self._run(model, x, y, surrogate=surrogate).delta.view_as(x)
        if not sharing().alone:  # a batch may have no samples on a rank
            raise ValueError(f'{self.name} with batch= needs group="own", got a group that lies on several processes')
        model, delta = in_float32(model, x), torch.zeros_like(x)
        for code in range(int(codes.max()) + 1):
            chosen = codes == code
            found = self._run(model, x[chosen], y[chosen], surrogate=surrogate)
            delta[chosen] = found.delta.view_as(x[chosen])
        return delta

    def fit(self, model: nn.Module, x: Tensor, y: Tensor) -> Fitted:
        """The attack with the shared part found on these samples, for use on others."""
        found = self._run(model, x, y)
        return Fitted(self, x.shape[1:], found)

    def _run(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        part: Tensor | None = None,
        surrogate: nn.Module | None = None,
    ) -> Candidate:
        """What was found, in the coordinates and the precision of x."""
        model = unwrapped(_checks.module("model", model))
        x = _checks.samples("x", x)
        if x.dtype in HALF:
            found = self._run(in_float32(model, x), x.float(), y, part, surrogate)
            room = 1 - torch.finfo(x.dtype).eps  # rounding must not lead out of the ball
            return replace(found, delta=(found.delta * room).to(x.dtype))
        path, found = self.solve(model, x, y, part, surrogate)
        shared = rows(path.expand(found.part)) if found.part.ndim == 2 else found.part  # the basis of a subspace
        return replace(found, delta=rows(path.perturbation(found.delta)), part=shared)

    def solve(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        part: Tensor | None = None,
        surrogate: nn.Module | None = None,
    ) -> tuple[Path, Candidate]:
        """What was found, in the coordinates of the path that was taken; `part` is a shared part that is given."""
        model = unwrapped(model)
        _checks.labels(y, len(x))
        _checks.number("eps", self.eps, most=torch.finfo(x.dtype).max ** 0.5 / ROOM)
        mask, bounds = _checks.feature_mask(self.feature_mask, x), _checks.bounds(self.bounds, x)
        with frozen(model), untouched(x):
            metric = fitting(self.metric, x, mask)
            path = choose(model, x.detach(), mask, rotates=self._rotates and part is None, metric=metric)

            def oracle(loss: SampleLoss | str | None) -> Flat:
                return Flat.of(path, x.detach(), y, loss, mask, bounds, self.steps)

            try:
                tries = searches(self, oracle, y, part, self._transferred(surrogate, x, y, path, metric))
            except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
                raise FloatingPointError(f"{NOT_FINITE}: {error}") from None
            if not finite(*(found.losses for found in tries)):
                raise FloatingPointError(NOT_FINITE)
            best = worst(self, oracle, tries)
            if part is not None or sharing().any(bool(best.delta.any())):
                best = replace(best, part=self.ball.shared(best.delta) if part is None else part)
            if path.mask is not None:
                best = replace(best, delta=best.delta * path.mask.reshape(-1))  # rounding reaches past it
            return path, best

    def _transferred(
        self, surrogate: nn.Module | None, x: Tensor, y: Tensor, path: Path, metric: Metric | None
    ) -> Tensor | None:
        """The perturbation that one fast search finds on the surrogate, in the coordinates of the path."""
        if surrogate is None or self.strength == "fast":
            return None
        surrogate = unwrapped(_checks.module("surrogate", surrogate))
        own = x.to(next(surrogate.parameters(), x))  # its precision may be another
        fast = replace(self, strength="fast", restarts=1, random_start=False)
        delta = fast._run(surrogate, own, y.to(own.device)).delta.to(x).view_as(x)
        return rows(path.project(delta if metric is None else metric.solve(delta)))

    @property
    def _rotates(self) -> bool:
        """Whether the search does not depend on the axes of feature space, so that the row space is enough."""
        return self.ball.rotates and self.bounds is None and self.restarts == 1 and not self.random_start

    @abstractmethod
    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None, first: Tensor | None) -> Candidate:
        """One search, inside `part` and from the perturbation `first` where these are given."""

    def _first(self, oracle: Flat, generator: Generator) -> Tensor:
        if not self.random_start:
            return torch.zeros_like(oracle.x)
        return self.eps * oracle.directions(generator)

    def _inside(self, oracle: Flat, delta: Tensor) -> Tensor:
        """Into the box, where that keeps the structure, and from there into the ball: x is in the box, so both hold."""
        return inside(oracle.boxed(delta) if self._clips else delta, self.eps)

    @property
    def _clips(self) -> bool:
        """Whether a cut to the box keeps the structure; in a metric it changes all features of z."""
        return self.ball.clips and (self.metric is None or self.ball.rotates)


@dataclass(frozen=True)
class Fitted:
    """An attack whose shared part was found on one set: `apply` uses it on another.

    PGD and FGM share nothing, so applying them is attacking anew.

    Attributes
    ----------
    attack, shape, found
        The attack, the shape of a sample, and the `Candidate` that was found.
    shift
        Of a universal attack (*features); None for the others.
    columns
        The numbers of the features that move, of a group-sparse attack; None for the others.
    subspace
        Of a low-rank attack (rank, d); None for the others.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 3).eval(), torch.randn(8, 6), torch.arange(8) % 3
    >>> fitted = gsat.attacks.LowRank(0.5, rank=2, steps=10).fit(model, x, y)
    >>> fitted.subspace.shape
    torch.Size([2, 6])
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
