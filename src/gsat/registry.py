"""Every name that the command line, the estimators, the experiments and the report know: costs, attacks, defences."""

from __future__ import annotations

from typing import Any

from torch import Generator

from gsat import attacks
from gsat.attacks import Attack
from gsat.costs import GroupCost, GroupSparse, LowRank, PerBatch, Universal, Unstructured
from gsat.defences import ERM, FGM, GSAT, PGD, Defence, Structured, UniversalAT
from gsat.solvers import Solver


def universal_cost(alpha: float = 0.5, group_size: int = 200) -> PerBatch:
    """The cost of structure="universal": a shift for every two samples of the group, drawn at random.

    With a single shift for the whole group the model chases one shift a step and forgets the others; more shifts, each
    shared by fewer samples, were better all the way (docs/choose.md). Given batches have one shift each.
    """
    return PerBatch(Universal(alpha), n_random=max(1, group_size // 2))


STRUCTURES = ("universal", "group-sparse", "low-rank", "unstructured")
NAMES = (
    "erm", "fgm", "fgsm", "pgd", "universal-at", *STRUCTURES,
    "structured-universal", "structured-group-sparse", "structured-low-rank",
)  # fmt: skip


def structure_cost(
    name: str, *, alpha: float = 0.5, k: int | None = None, feature_groups: Any = None, group_size: int = 200
) -> GroupCost | PerBatch:
    """The cost of a structure by its name."""
    if name == "universal":
        return universal_cost(alpha, group_size)
    if name == "group-sparse":
        return GroupSparse(alpha, k=k, feature_groups=feature_groups)
    if name == "low-rank":
        return LowRank(alpha, k=k)
    if name == "unstructured":
        return Unstructured()
    raise ValueError(f"structure must be one of {', '.join(STRUCTURES)}, got {name!r}")


def named(
    name: str,
    *,
    eps: float,
    alpha: float = 0.5,
    k: int | None = None,
    feature_groups: Any = None,
    solver: str | Solver[Any] = "proximal",
    n_inner: int = 20,
    group_size: int = 200,
    seed: int = 0,
) -> Defence:
    """The defence of that name; `eps` (absolute) is the size of the baselines, n_inner the gradients of any of them."""
    if name == "erm":
        return ERM()
    if name == "fgm":
        return FGM(eps)
    if name == "fgsm":
        return FGM(eps, direction="sign")
    if name == "pgd":
        return PGD(eps, steps=n_inner)
    if name == "universal-at":
        return UniversalAT(eps)
    if name in STRUCTURES:
        cost = structure_cost(name, alpha=alpha, k=k, feature_groups=feature_groups, group_size=group_size)
        return GSAT(cost, solver=solver, n_inner=n_inner, generator=Generator().manual_seed(seed))
    attack: attacks.Attack
    if name == "structured-universal":
        attack = attacks.Universal(eps, steps=n_inner)
    elif name == "structured-group-sparse":
        attack = attacks.GroupSparse(eps, k=50 if k is None else k, feature_groups=feature_groups, steps=n_inner)
    elif name == "structured-low-rank":
        attack = attacks.LowRank(eps, rank=5 if k is None else k, steps=n_inner)
    else:
        raise ValueError(f"defence must be one of {', '.join(NAMES)}, got {name!r}")
    return Structured(attack)


def parse_attack(text: str, unit: float, *, eps: float = 0.05, steps: int = 100, feature_groups: Any = None) -> Attack:
    """An attack from "name[:strength][@eps]", eps a fraction of `unit` = E‖X‖₂; "low-rank:5@0.2" has rank 5."""
    name, _, size = text.partition("@")
    name, _, strength = name.partition(":")
    try:
        bound = (float(size) if size else eps) * unit
        count = int(strength) if strength else None
    except ValueError:
        raise ValueError(f'an attack must read "name", "name:count" or "name:count@eps", got {text!r}') from None
    if name == "universal":
        return attacks.Universal(bound, steps=steps)
    if name == "group-sparse":
        return attacks.GroupSparse(bound, k=50 if count is None else count, feature_groups=feature_groups, steps=steps)
    if name == "low-rank":
        return attacks.LowRank(bound, rank=5 if count is None else count, steps=steps)
    if name == "pgd":
        return attacks.PGD(bound, steps=steps)
    if name == "fgm":
        return attacks.FGM(bound)
    raise ValueError(f"attack must be one of {', '.join(ATTACKS)}, got {name!r}")


ATTACKS = ("universal", "group-sparse", "low-rank", "pgd", "fgm")
