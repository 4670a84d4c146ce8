"""The attacks that judge defences, each at several strengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gsat.attacks import Attack
from gsat.experiments.setting import Arena, Scale
from gsat.registry import parse_attack

EPS = (0.025, 0.0375, 0.05, 0.0625, 0.075, 0.1, 0.15, 0.2)
COLUMNS = (10, 25, 50, 65, 80, 100, 150, 200)
RANKS = (1, 2, 5, 10, 15, 20, 50, 100)


@dataclass(frozen=True)
class Sweep:
    """One attack at several strengths: eps (fractions of E‖X‖), or counts at one eps.

    reference: the strength at which sizes are chosen
    blocks:    whether blocks of features are counted, not features
    """

    name: str
    attack: str
    strengths: tuple[float, ...]
    reference: float
    eps: float | None = None
    blocks: bool = False

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def at(self, strength: float, unit: float, steps: int, blocks: Any) -> Attack:
        """The attack of that strength; unit is E‖X‖, `blocks` a number for each feature."""
        eps = float(strength if self.eps is None else self.eps)
        count = "" if self.eps is None else f":{int(strength)}"
        groups = blocks if self.blocks else None
        return parse_attack(f"{self.attack}{count}@{eps!r}", unit, steps=steps, feature_groups=groups)


def by_name(attack: str, eps: float, unit: float, steps: int) -> Attack:
    """An attack "name:count" of that eps, a fraction of `unit`."""
    return parse_attack(f"{attack}@{eps!r}", unit, steps=steps)


def by_eps(attack: str, scale: Scale, arena: Arena) -> list[Sweep]:
    """An attack over its norm."""
    sizes = _some([arena.shrunk * eps for eps in EPS], scale, arena)
    return [Sweep(attack, attack, sizes, reference=_middle(sizes))]


def by_columns(scale: Scale, arena: Arena) -> list[Sweep]:
    """The group-sparse attack over the number of columns, and of blocks where there are any."""
    counts = _some(COLUMNS, scale, arena)
    kinds = [("group-sparse", False)] + ([(f"group-sparse, {arena.blocks}", True)] if arena.blocks else [])
    return [
        Sweep(name, "group-sparse", counts, reference=_middle(counts), eps=eps, blocks=blocks)
        for name, blocks in kinds
        for eps in _sizes(scale, arena)
    ]


def by_rank(scale: Scale, arena: Arena) -> list[Sweep]:
    """The low-rank attack over the rank."""
    ranks = _some(RANKS, scale, arena)
    return [Sweep("low-rank", "low-rank", ranks, reference=_middle(ranks), eps=eps) for eps in _sizes(scale, arena)]


def _sizes(scale: Scale, arena: Arena) -> tuple[float, ...]:
    """The eps of attacks that are counted; where attacks take long the first alone."""
    return arena.counts[:1] if _takes_long(scale, arena) else arena.counts


def _some(values: Sequence[float], scale: Scale, arena: Arena) -> tuple[float, ...]:
    """The strengths of the scale; where attacks take long the first, the reference and the last of them."""
    chosen = scale.pick(values)
    few = (chosen[0], _middle(chosen), chosen[-1])
    return tuple(dict.fromkeys(few)) if _takes_long(scale, arena) else chosen


def _takes_long(scale: Scale, arena: Arena) -> bool:
    """Whether this is the AlexNet on two cores."""
    return arena.plan.model == "alexnet" and scale.name in ("quick", "cpu")


def _middle(strengths: tuple[float, ...]) -> float:
    return strengths[(len(strengths) - 1) // 2]
