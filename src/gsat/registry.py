"""The one table of names: structures with their cost and their attack, and the defences and attacks without one.

A new structure is one row of `STRUCTURES`. Everything that takes a name looks it up here: `named`, `structure_cost` and
`parse_attack` below, and through them the estimators, the command line and the experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from torch import Generator

from gsat import _checks, _defaults, attacks
from gsat.attacks import Attack
from gsat.costs import GroupCost, GroupSparse, LowRank, PerBatch, Universal, Unstructured
from gsat.defences import ERM, FGM, GSAT, PGD, Defence, Structured, UniversalAT
from gsat.losses import SampleLoss
from gsat.metric import Metric
from gsat.solvers import Solver

BY_ATTACK = "structured-"  # before a structure's name: adversarial training with its attack, without a price


@dataclass(frozen=True)
class Structure:
    """A structure of perturbations: one row of the table.

    Parameters
    ----------
    cost
        Makes the cost; called with the keywords alpha, k, feature_groups and group_size.
    attack
        Makes the attack; called with the keywords eps, k, feature_groups, steps and loss. None where there is none.
    alpha
        The recommended weight of the structure in the cost (docs/choose.md).
    k
        Columns or rank of the attack where none is given; None where it has no such number.
    axis
        What the strength of the attack is called on the axis of a figure.
    """

    cost: Callable[..., GroupCost | PerBatch]
    attack: Callable[..., Attack] | None = None
    alpha: float = _defaults.ALPHA
    k: int | None = None
    axis: str = "eps / E‖X‖"


def universal_cost(alpha: float, group_size: int) -> PerBatch:
    """The cost of structure="universal": a shift for every two samples of the group, drawn at random.

    With one shift for the whole group (structure="universal-one") the model chases one shift a step and forgets the
    others; more shifts were better all the way (docs/choose.md). Given batches have one shift each.
    """
    return PerBatch(Universal(alpha), n_random=max(1, group_size // 2))


def _universal_attack(*, eps: float, steps: int, loss: SampleLoss | None, **_: Any) -> Attack:
    return attacks.Universal(eps, steps=steps, loss=loss)


STRUCTURES: dict[str, Structure] = {
    "universal": Structure(
        cost=lambda alpha, group_size, **_: universal_cost(alpha, group_size), attack=_universal_attack
    ),
    "universal-one": Structure(cost=lambda alpha, **_: Universal(alpha), attack=_universal_attack),
    "group-sparse": Structure(
        cost=lambda alpha, k, feature_groups, **_: GroupSparse(alpha, k=k, feature_groups=feature_groups),
        attack=lambda eps, **options: attacks.GroupSparse(eps, **options),
        alpha=_defaults.ALPHA_GROUP_SPARSE,
        k=50,
        axis="columns that move",
    ),
    "low-rank": Structure(
        cost=lambda alpha, k, **_: LowRank(alpha, k=k),
        attack=lambda eps, k, steps, loss, **_: attacks.LowRank(eps, rank=k, steps=steps, loss=loss),
        k=5,
        axis="rank",
    ),
    "unstructured": Structure(cost=lambda **_: Unstructured()),
}
BASELINES: dict[str, Callable[..., Defence]] = {  # called with the keywords eps, steps and loss
    "erm": lambda **_: ERM(),
    "fgm": lambda eps, loss, **_: FGM(eps, loss=loss),
    "fgsm": lambda eps, loss, **_: FGM(eps, direction="sign", loss=loss),
    "pgd": lambda eps, steps, loss: PGD(eps, steps=steps, loss=loss),
    "universal-at": lambda eps, loss, **_: UniversalAT(eps, loss=loss),
}
SAMPLE_ATTACKS: dict[str, Callable[..., Attack]] = {  # every sample moves on its own; called as the attack of a row
    "pgd": lambda eps, steps, loss, **_: attacks.PGD(eps, steps=steps, loss=loss),
    "fgm": lambda eps, loss, **_: attacks.FGM(eps, loss=loss),
}


def attacked_structures() -> tuple[str, ...]:
    """The structures that have an attack."""
    return tuple(name for name, row in STRUCTURES.items() if row.attack is not None)


def defence_names() -> tuple[str, ...]:
    """The names that `named` knows."""
    return (*BASELINES, *STRUCTURES, *(f"{BY_ATTACK}{name}" for name in attacked_structures()))


def attack_names() -> tuple[str, ...]:
    """The names that `parse_attack` knows."""
    return (*attacked_structures(), *SAMPLE_ATTACKS)


def structure(name: str) -> Structure:
    """The row of a structure.

    Parameters
    ----------
    name
        One of `STRUCTURES`.

    Returns
    -------
    Structure
        Its cost, its attack, and the numbers and words that go with it.
    """
    if name not in STRUCTURES:
        raise _unknown("structure", STRUCTURES, name)
    return STRUCTURES[name]


def structure_cost(
    name: str,
    *,
    alpha: float | None = None,
    k: int | None = None,
    feature_groups: Any = None,
    group_size: int = _defaults.GROUP_SIZE,
) -> GroupCost | PerBatch:
    """The cost of a structure by its name.

    Parameters
    ----------
    name
        One of `STRUCTURES`.
    alpha
        The weight of the structure in the cost; None for the recommended one.
    k
        At most k columns, or rank at most k; None for the penalised form.
    feature_groups
        One block number for each feature, for "group-sparse".
    group_size
        Samples in a group: "universal" has a shift for every two of them, "universal-one" one for all.

    Returns
    -------
    GroupCost or PerBatch
        The cost c(Δ).
    """
    row = structure(name)
    weight = row.alpha if alpha is None else alpha
    return row.cost(alpha=weight, k=k, feature_groups=feature_groups, group_size=group_size)


def check_defence(name: str) -> str:
    """The name, where it is that of a defence; a ValueError with the names that are, otherwise."""
    if name not in defence_names():
        raise _unknown("defence", defence_names(), name)
    return name


def default_n_inner(name: str) -> int:
    """The gradients for a group of the defence of that name, where nobody asks for another number."""
    return _defaults.N_INNER_GSAT if name in STRUCTURES else _defaults.N_INNER


def named_attack(
    name: str,
    eps: float,
    *,
    k: int | None = None,
    feature_groups: Any = None,
    steps: int,
    loss: SampleLoss | None = None,
) -> Attack:
    """The attack of that name with ‖δ_i‖₂ ≤ eps.

    Parameters
    ----------
    name
        A structure that has an attack, or one of `SAMPLE_ATTACKS`.
    eps
        The norm bound, in the units of the samples.
    k
        Columns or rank; None for the default of the structure.
    feature_groups, steps, loss
        As in `gsat.attacks`.

    Returns
    -------
    Attack
        The attack.
    """
    row = STRUCTURES.get(name)
    make = SAMPLE_ATTACKS.get(name) if row is None else row.attack
    if make is None:
        raise _unknown("attack", attack_names(), name)
    count = row.k if row is not None and k is None else k
    return make(eps=eps, k=count, feature_groups=feature_groups, steps=steps, loss=loss)


def named(
    name: str,
    *,
    eps: float,
    alpha: float | None = None,
    k: int | None = None,
    feature_groups: Any = None,
    feature_mask: Any = None,
    solver: str | Solver = _defaults.SOLVER,
    n_inner: int | None = None,
    group_size: int = _defaults.GROUP_SIZE,
    loss: SampleLoss | None = None,
    seed: int = 0,
    metric: Metric | None = None,
) -> Defence:
    """The defence of that name.

    Parameters
    ----------
    name
        A baseline, a structure (GSAT), or "structured-" and a structure that has an attack.
    eps
        The size of all but GSAT, in the units of the samples.
    alpha, k, feature_groups, group_size
        As in `structure_cost`; for "structured-" k is the number of columns or the rank of the attack.
    feature_mask, solver, metric
        Of GSAT.
    n_inner
        Gradients for a group: steps of PGD and of the attacks, at most as many of GSAT; None for `default_n_inner`.
    loss
        (outputs, y) -> (m,), which the adversary maximises; by default the cross-entropy.
    seed
        Of the random batches of GSAT.

    Returns
    -------
    Defence
        What perturbs the groups.
    """
    check_defence(name)
    n_inner = default_n_inner(name) if n_inner is None else n_inner
    if name in BASELINES:
        return BASELINES[name](eps=eps, steps=n_inner, loss=loss)
    if name in STRUCTURES:
        return GSAT(
            structure_cost(name, alpha=alpha, k=k, feature_groups=feature_groups, group_size=group_size),
            solver=solver,
            n_inner=n_inner,
            loss=loss,
            feature_mask=feature_mask,
            generator=Generator().manual_seed(seed),
            metric=metric,
        )
    kind = name.removeprefix(BY_ATTACK)
    return Structured(named_attack(kind, eps, k=k, feature_groups=feature_groups, steps=n_inner, loss=loss))


def parse_attack(
    text: str,
    unit: float,
    *,
    eps: float = _defaults.EPS,
    steps: int = _defaults.STEPS,
    feature_groups: Any = None,
    strength: str = "fast",
) -> Attack:
    """An attack from "name[:count][@eps]"; "low-rank:5@0.2" has rank 5.

    Parameters
    ----------
    text
        The name, the number of columns or the rank, and eps as a fraction of `unit`.
    unit
        E‖X‖₂.
    eps
        The fraction where the text has none.
    steps, feature_groups, strength
        As in `gsat.attacks`.

    Returns
    -------
    Attack
        The attack, with eps in the units of the samples.
    """
    name, count, size = _checks.attack_text(text, attack_names())
    bound = (eps if size is None else size) * unit
    return replace(named_attack(name, bound, k=count, feature_groups=feature_groups, steps=steps), strength=strength)


def _unknown(what: str, known: Iterable[str], name: str) -> ValueError:
    return ValueError(f"{what} must be one of {', '.join(known)}, got {name!r}")
