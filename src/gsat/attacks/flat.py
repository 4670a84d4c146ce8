"""The losses of a group as functions of perturbations in matrix form, for the attacks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from gsat._arrays.norms import rows
from gsat.attacks.sets import unit_rows
from gsat.losses import SampleLoss
from gsat.shortcuts import Path
from gsat.solvers.oracle import Oracle

AT_ONCE = 2000  # samples per pass through the model; a group may be a whole test set


@dataclass(frozen=True)
class Flat:
    """The losses and gradients of the samples of a path for perturbations (m, d), a few thousand samples at a time."""

    path: Path
    group: Tensor  # (m, *features), whose shape random directions have
    mask: Tensor | None
    parts: list[Oracle]

    @classmethod
    def of(
        cls,
        path: Path,
        group: Tensor,
        y: Tensor,
        loss: SampleLoss,
        mask: Tensor | None,
        bounds: tuple[Tensor, Tensor] | None,
    ) -> Flat:
        """The samples of the path; y: (m,) labels; mask and bounds as in `gsat.maximise`."""

        def seen(z: Tensor, part: slice) -> Tensor:
            return loss(path.outputs(z, part), y[part])

        slices = [slice(begin, begin + AT_ONCE) for begin in range(0, len(group), AT_ONCE)]
        parts = [Oracle(partial(seen, part=part), path.x[part], path.mask, bounds) for part in slices]
        return cls(path, group, mask, parts)

    @property
    def x(self) -> Tensor:
        """The samples as a matrix (m, d), or (m, h) in the row space."""
        return rows(self.path.x)

    def __call__(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        """The losses (m,) and the gradient, as a matrix."""
        found = [part(piece) for part, piece in self._split(delta)]
        if len(found) == 1:
            return found[0][0], rows(found[0][1])
        return torch.cat([losses for losses, _ in found]), torch.cat([rows(gradient) for _, gradient in found])

    def losses(self, delta: Tensor) -> Tensor:
        """The losses alone."""
        return torch.cat([part.losses(piece) for part, piece in self._split(delta)])

    def directions(self, generator: Generator) -> Tensor:
        """A random perturbation of length 1 for each sample, as a matrix; what the model cannot see of it is lost."""
        drawn = torch.randn(rows(self.group).shape, generator=generator).to(self.group)
        units = unit_rows(drawn if self.mask is None else drawn * self.mask.reshape(-1))
        return rows(self.path.project(units.view_as(self.group)))

    def _split(self, delta: Tensor) -> list[tuple[Oracle, Tensor]]:
        pieces = torch.split(delta, [len(part.x) for part in self.parts])
        return [(part, piece.view_as(part.x)) for part, piece in zip(self.parts, pieces, strict=True)]
