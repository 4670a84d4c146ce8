"""The attacks that judge defences, each at several strengths."""

from __future__ import annotations

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


def by_eps(attack: str, scale: Scale, arena: Arena) -> list[Sweep]:
    """An attack over its norm."""
    sizes = scale.pick([arena.shrunk * eps for eps in EPS])
    return [Sweep(attack, attack, sizes, reference=_middle(sizes))]


def by_columns(scale: Scale, arena: Arena) -> list[Sweep]:
    """The group-sparse attack over the number of columns, and of blocks where there are any."""
    counts = scale.pick(COLUMNS)
    kinds = [("group-sparse", False)] + ([(f"group-sparse, {arena.blocks}", True)] if arena.blocks else [])
    return [
        Sweep(name, "group-sparse", counts, reference=_middle(counts), eps=eps, blocks=blocks)
        for name, blocks in kinds
        for eps in _sizes(scale, arena)
    ]


def by_rank(scale: Scale, arena: Arena) -> list[Sweep]:
    """The low-rank attack over the rank."""
    ranks = scale.pick(RANKS)
    return [Sweep("low-rank", "low-rank", ranks, reference=_middle(ranks), eps=eps) for eps in _sizes(scale, arena)]


def _sizes(scale: Scale, arena: Arena) -> tuple[float, ...]:
    """The eps of attacks that are counted; a narrow AlexNet takes long on two cores and gets the first alone."""
    is_long = arena.plan.model == "alexnet" and scale.name in ("quick", "cpu")
    return arena.counts[:1] if is_long else arena.counts


def _middle(strengths: tuple[float, ...]) -> float:
    return strengths[(len(strengths) - 1) // 2]
