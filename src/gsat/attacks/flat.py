"""The losses of a group as functions of perturbations in matrix form, for the attacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Generator, Tensor

from gsat._arrays.norms import rows, total
from gsat._ranks import sharing
from gsat.attacks.sets import unit_rows
from gsat.losses import SampleLoss, named_loss
from gsat.shortcuts import Path
from gsat.solvers.oracle import Oracle

AT_ONCE = 2000  # samples per pass through the model; a group may be a whole test set


@dataclass(frozen=True)
class Candidate:
    """A perturbation and what was seen there.

    Attributes
    ----------
    delta
        Δ (m, d).
    losses
        Those of the samples, (m,).
    wrong
        Which samples are misclassified (m,); False for all where a loss of the user's own is maximised.
    slope
        The gradient of the losses (m, d), empty where it was not asked for.
    part
        What the rows share: the shift, the columns or the subspace.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> weak, strong = (
    ...     gsat.attacks.Candidate(torch.zeros(3, 2), torch.ones(3), torch.tensor(wrong))
    ...     for wrong in ([False, False, True], [True, True, False])
    ... )
    >>> weak.score, strong.score  # errors first, then the loss
    ((1, 3.0), (2, 3.0))
    """

    delta: Tensor
    losses: Tensor
    wrong: Tensor
    slope: Tensor = field(default_factory=lambda: torch.empty(0))
    part: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def loss(self) -> float:
        """The sum of the losses."""
        return float(total(self.losses))

    @property
    def score(self) -> tuple[int, float]:
        """Errors, then the loss: the larger is the stronger perturbation of the group."""
        wrong, loss = sharing().sums(float(self.wrong.sum()), float(self.losses.sum(dtype=torch.float64)))
        return int(wrong), loss

    def beaten_by(self, other: Candidate) -> Tensor:
        """The samples (m,) for which the other perturbation is stronger: an error, then the loss."""
        return (other.wrong & ~self.wrong) | ((other.wrong == self.wrong) & (other.losses > self.losses))

    def joined(self, other: Candidate, better: Tensor | None = None) -> Candidate:
        """Row by row the stronger perturbation, or the other one where `better`."""
        better = self.beaten_by(other) if better is None else better
        both = self.slope.numel() and other.slope.numel()
        return Candidate(
            torch.where(better[:, None], other.delta, self.delta),
            torch.where(better, other.losses, self.losses),
            torch.where(better, other.wrong, self.wrong),
            torch.where(better[:, None], other.slope, self.slope) if both else self.slope[:0],
            self.part,
        )


@dataclass
class Flat:
    """The losses and gradients of the samples of a path for perturbations (m, d), a few thousand samples at a time.

    The search may ask for `steps` gradients; `left` of them are left.
    """

    path: Path
    group: Tensor  # (m, *features), whose shape random directions have
    mask: Tensor | None
    parts: list[Oracle]
    wrong: Tensor  # of the last evaluation
    steps: int
    box: tuple[Tensor, Tensor] | None

    @classmethod
    def of(
        cls,
        path: Path,
        group: Tensor,
        y: Tensor,
        loss: SampleLoss | str | None,
        mask: Tensor | None,
        bounds: tuple[Tensor, Tensor] | None,
        steps: int,
    ) -> Flat:
        """The samples of the path; y: (m,) labels; mask and bounds as in `gsat.maximise`."""
        few = slice(0, AT_ONCE)
        sample_loss = named_loss(loss, lambda: path.outputs(path.x[few], few), y[few])
        wrong = torch.zeros(len(group), dtype=torch.bool, device=group.device)

        def seen(z: Tensor, part: slice) -> Tensor:
            outputs = path.outputs(z, part)
            if not callable(loss):
                wrong[part] = outputs.detach().argmax(1) != y[part]
            return sample_loss(outputs, y[part])

        slices = [slice(begin, begin + AT_ONCE) for begin in range(0, len(group), AT_ONCE)]
        parts = [
            Oracle(partial(seen, part=part), path.x[part], path.mask, bounds, metric=path.metric) for part in slices
        ]
        return cls(path, group, mask, parts, wrong, steps, bounds)

    @property
    def x(self) -> Tensor:
        """The samples as a matrix (m, d), or (m, h) in the row space."""
        return rows(self.path.x)

    @property
    def left(self) -> int:
        """Gradients that may still be asked for."""
        return self.steps - self.parts[0].n_gradients

    @property
    def n_outputs(self) -> int:
        """The outputs of the model for a sample; 1 where it returns no matrix (m, outputs)."""
        first = slice(0, 1)
        shape = self.path.outputs(self.path.x[first], first).shape
        return int(shape[1]) if len(shape) == 2 else 1

    def __call__(self, delta: Tensor) -> Candidate:
        """Losses, errors and the gradient there."""
        found = [part(piece) for part, piece in self._split(delta)]
        losses, slopes = [losses for losses, _ in found], [rows(gradient) for _, gradient in found]
        one = len(found) == 1
        return Candidate(
            delta,
            losses[0] if one else torch.cat(losses),
            self.wrong.clone(),
            slopes[0] if one else torch.cat(slopes),
        )

    def seen(self, delta: Tensor) -> Candidate:
        """Losses and errors alone."""
        losses = torch.cat([part.losses(piece) for part, piece in self._split(delta)])
        return Candidate(delta, losses, self.wrong.clone())

    def boxed(self, delta: Tensor) -> Tensor:
        """The perturbation cut so that x + δ is in the box, where there is one; what of x is outside may stay there."""
        if self.box is None:
            return delta
        lo, hi = (rows(bound.expand_as(self.group)) for bound in self.box)
        x, metric = rows(self.group), self.path.metric
        moved = x + (delta if metric is None else metric.apply(delta))
        cut = torch.clamp(moved, torch.minimum(lo, x), torch.maximum(hi, x)) - x
        return cut if metric is None else metric.solve(cut)

    def directions(self, generator: Generator, *, one: bool = False) -> Tensor:
        """A random perturbation of length 1 for each sample, as a matrix; what the model cannot see of it is lost.

        one: a single row, for all samples. Ranks that share the group draw for all of it and take their rows.
        """
        (m, d), (begin, whole) = rows(self.group).shape, (0, 1) if one else sharing().places(len(self.group))
        drawn = torch.randn(whole, d, generator=generator)[begin : begin + m].to(self.group)
        units = unit_rows(drawn if self.mask is None else drawn * self.mask.reshape(-1))
        return rows(self.path.project(units.view(len(units), *self.group.shape[1:])))

    def _split(self, delta: Tensor) -> list[tuple[Oracle, Tensor]]:
        pieces = torch.split(delta, [len(part.x) for part in self.parts])
        return [(part, piece.view_as(part.x)) for part, piece in zip(self.parts, pieces, strict=True)]
