"""The losses of a group as functions of perturbations in matrix form, for the attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from gsat._arrays.norms import rows
from gsat.attacks.sets import unit_rows
from gsat.losses import SampleLoss
from gsat.models import layout
from gsat.shortcuts.row_space import RowSpace
from gsat.solvers.oracle import Oracle

AT_ONCE = 2000  # samples per pass through the model; a group may be a whole test set


@dataclass(frozen=True)
class Flat:
    """The losses and gradients of samples for perturbations (m, d), a few thousand samples at a time."""

    parts: list[Oracle]
    x: Tensor  # (m, d)
    directions: Callable[[Generator], Tensor]  # a random perturbation of length 1 for each sample

    @classmethod
    def plain(
        cls,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        loss: SampleLoss,
        mask: Tensor | None,
        bounds: tuple[Tensor, Tensor] | None,
    ) -> Flat:
        """The samples as the model sees them."""

        def oracle(part: Tensor, labels: Tensor) -> Oracle:
            return Oracle(lambda z: loss(layout.outputs(model, z), labels), part, mask, bounds)

        pieces = zip(torch.split(x, AT_ONCE), torch.split(y, AT_ONCE), strict=True)
        return cls([oracle(*piece) for piece in pieces], rows(x), lambda generator: _directions(x, mask, generator))

    @classmethod
    def reduced(cls, x: Tensor, mask: Tensor | None, seen: RowSpace, y: Tensor, loss: SampleLoss) -> Flat:
        """The samples x as the first layer of the model sees them."""

        def oracle(part: RowSpace, labels: Tensor) -> Oracle:
            return Oracle(lambda z: loss(part.outputs(z), labels), part.x)

        pieces = zip(seen.split(AT_ONCE), torch.split(y, AT_ONCE), strict=True)
        return cls(
            [oracle(*piece) for piece in pieces],
            seen.x,
            lambda generator: seen.basis.project(_directions(x, mask, generator)),
        )

    def __call__(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        """The losses and the gradient, as a matrix."""
        found = [part(piece) for part, piece in self._split(delta)]
        if len(found) == 1:
            return found[0][0], rows(found[0][1])
        return torch.cat([losses for losses, _ in found]), torch.cat([rows(gradient) for _, gradient in found])

    def losses(self, delta: Tensor) -> Tensor:
        """The losses alone."""
        return torch.cat([part.losses(piece) for part, piece in self._split(delta)])

    def _split(self, delta: Tensor) -> list[tuple[Oracle, Tensor]]:
        pieces = torch.split(delta, [len(part.x) for part in self.parts])
        return [(part, piece.view_as(part.x)) for part, piece in zip(self.parts, pieces, strict=True)]


def _directions(x: Tensor, mask: Tensor | None, generator: Generator) -> Tensor:
    drawn = torch.randn(rows(x).shape, generator=generator).to(x)
    return unit_rows(drawn if mask is None else drawn * mask.reshape(-1))
