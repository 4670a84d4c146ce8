"""Attacks that move every sample on its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

from torch import Generator, Tensor

from gsat.attacks.ascent import ascend
from gsat.attacks.base import Attack
from gsat.attacks.flat import Candidate, Flat
from gsat.attacks.sets import unit_rows, walk


@dataclass(frozen=True)
class PGD(Attack):
    """Projected gradient ascent with normalised gradients, every sample on its own.

    Parameters
    ----------
    eps, steps, restarts, random_start, seed, loss, strength, feature_mask, bounds, metric
        As in `Attack`.
    step_size
        None for steps that begin at 2·eps and halve themselves, with momentum (`gsat.attacks.ascent`); or a number, the
        length of every step.
    keep
        "best", each sample's strongest perturbation on the way, or "last", which saves the evaluation of the last one
        and makes steps of one length, by default 2·eps/steps.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> table = gsat.data.make_batches(60, 10)
    >>> x, y = torch.as_tensor(table.X).float(), torch.as_tensor(table.codes)
    >>> delta = gsat.attacks.PGD(0.5, steps=10)(gsat.models.ELUNet(10, 3).eval(), x, y)
    >>> bool((delta.norm(dim=1) <= 0.5 + 1e-6).all())
    True
    """

    name: ClassVar[str] = "pgd"

    keep: Literal["best", "last"] = field(default="best", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep not in ("best", "last"):
            raise ValueError(f'keep must be "best" or "last", got {self.keep!r}')

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None, first: Tensor | None) -> Candidate:
        feasible = partial(self._inside, oracle)
        delta = feasible(self._first(oracle, generator) if first is None else first)
        if self.step_size is None and self.keep == "best":
            start = oracle(delta)
            return ascend(oracle, start, oracle.left + 1, 2 * self.eps, feasible, each=True)
        best, step = None, 2 * self.eps / self.steps if self.step_size is None else self.step_size
        for _ in range(self.steps):
            here = oracle(delta)
            if self.keep == "best":
                best = here if best is None else best.joined(here)
            delta = delta.clone() if self.keep == "best" else delta
            walk(delta, here.slope, step, self.eps)
            delta = delta if oracle.box is None else feasible(delta)
            del here  # its slope, before the next, which is as large
        if self.keep == "last" and self.restarts == 1 and self.strength == "fast":
            nothing = delta.new_empty(0)
            return Candidate(delta, nothing, nothing.bool())
        last = oracle.seen(delta)
        return last if best is None else best.joined(last)


@dataclass(frozen=True)
class FGM(Attack):
    """One gradient: δ_i = eps·g_i/‖g_i‖, or with direction="sign" eps·sign(g_i)/‖sign(g_i)‖ (FGSM with an L2 norm).

    Parameters
    ----------
    eps, restarts, random_start, seed, loss, strength, feature_mask, bounds, metric
        As in `Attack`; steps and step_size do not count.
    direction
        "gradient" or "sign".

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(2, 2).eval(), torch.zeros(3, 2), torch.tensor([0, 1, 0])
    >>> delta = gsat.attacks.FGM(0.5)(model, x, y)
    >>> torch.allclose(delta.norm(dim=1), torch.tensor(0.5))
    True
    """

    name: ClassVar[str] = "fgm"

    direction: Literal["gradient", "sign"] = field(default="gradient", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction not in ("gradient", "sign"):
            raise ValueError(f'direction must be "gradient" or "sign", got {self.direction!r}')

    @property
    def _rotates(self) -> bool:
        return super()._rotates and self.direction == "gradient"

    def _search(self, oracle: Flat, generator: Generator, part: Tensor | None, first: Tensor | None) -> Candidate:
        slope = oracle(self._first(oracle, generator) if first is None else first).slope
        delta = self.eps * unit_rows(slope.sign() if self.direction == "sign" else slope)
        if self.restarts > 1 or self.strength != "fast":
            return oracle.seen(delta)
        nothing = delta.new_empty(0)
        return Candidate(delta, nothing, nothing.bool())
