"""Attacks that move every sample on its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from gsat.attacks.base import Attack, Candidate
from gsat.attacks.flat import Flat
from gsat.attacks.sets import ascend, unit_rows


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

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Candidate:
        step = self._step
        delta = self._first(oracle, generator)
        nothing = delta.new_empty(0)
        best = Candidate(torch.zeros_like(delta[:1]).expand_as(delta), nothing, torch.full_like(delta[:, 0], -math.inf))
        for _ in range(self.steps):
            losses, gradient = oracle(delta)
            if self.keep == "best":
                best = best.joined(Candidate(delta, nothing, losses))
            ascend(delta, gradient, step, self.eps)
            del gradient  # before the next, which is as large
        if self.keep == "last" and self.restarts == 1:
            return Candidate(delta, nothing, nothing)
        return best.joined(Candidate(delta, nothing, oracle.losses(delta)))  # with "last", this one alone


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

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None) -> Candidate:
        _, gradient = oracle(self._first(oracle, generator))
        delta = self.eps * unit_rows(gradient.sign() if self.direction == "sign" else gradient)
        nothing = delta.new_empty(0)
        return Candidate(delta, nothing, oracle.losses(delta) if self.restarts > 1 else nothing)
