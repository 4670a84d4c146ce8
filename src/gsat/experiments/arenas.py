"""The data sets and networks on which defences are compared, and the attacks that judge them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gsat import attacks
from gsat.attacks import Attack
from gsat.data import Table, load
from gsat.estimators.from_table import Plan
from gsat.experiments.comparing import hold_out, some_rows
from gsat.experiments.scales import Scale, Size, evenly

GRID = (0.05, 0.1, 0.2)  # sizes as fractions of E‖X‖
FINE = (0.025, 0.05, 0.1, 0.15, 0.2)
EPS = (0.025, 0.0375, 0.05, 0.0625, 0.075, 0.1, 0.15, 0.2)
COLUMNS = (10, 25, 50, 65, 80, 100, 150, 200)
RANKS = (1, 2, 5, 10, 15, 20, 50, 100)
BUDGET = 0.05  # the norm of the paper's attacks, and of GSAT where baselines are matched to it
SHRUNK = {"cifar10": 0.25}


@dataclass(frozen=True)
class Arena:
    """A data set, a network, how it is trained and attacked.

    options:    of gsat.data.load
    test_share: of a new random split for each seed; None keeps the split of the data set
    grid:       sizes that are tried for every defence where baselines are tuned
    structures: of GSAT, whose mean norm the matched baselines have
    shrunk:     by how much sizes, eps and the budget of GSAT are smaller than the usual ones
    counts:     eps of the attacks whose strength is a count
    blocks:     what a block of features is called, where features belong together
    gradient:   seconds of one for 200 samples on one core, roughly
    """

    name: str
    data: str
    plan: Plan
    n_test: int
    n_validation: int
    steps: int
    n_train: int | None = None
    grid: tuple[float, ...] = GRID
    options: dict[str, Any] = field(default_factory=dict)
    test_share: float | None = None
    structures: tuple[str, ...] = ("universal", "group-sparse", "low-rank")
    shrunk: float = 1.0
    counts: tuple[float, ...] = (0.05, 0.2)
    blocks: str | None = None
    gradient: float = 0.004

    @property
    def budget(self) -> float:
        """That of GSAT where baselines are matched to it."""
        return BUDGET * self.shrunk

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def rows(self, data_dir: Path | None, seed: int) -> Rows:
        """The samples of that seed."""
        return _rows(
            self.data,
            tuple(self.options.items()),
            data_dir,
            self.test_share,
            (self.n_train, self.n_validation, self.n_test),
            seed,
        )


class Rows(NamedTuple):
    """Disjoint rows to train on, to choose sizes on and to test on, and the block of each feature."""

    train: Table
    validation: Table
    test: Table
    blocks: Any


@lru_cache(maxsize=1)
def _loaded(data: str, options: tuple[tuple[str, Any], ...], data_dir: Path | None) -> Table:
    return load(data, data_dir=data_dir, **dict(options))


@lru_cache(maxsize=1)  # the pieces of one arena and seed follow each other, and the images are large
def _rows(
    data: str,
    options: tuple[tuple[str, Any], ...],
    data_dir: Path | None,
    test_share: float | None,
    sizes: tuple[int | None, int, int],
    seed: int,
) -> Rows:
    n_train, n_validation, n_test = sizes
    table = _loaded(data, options, data_dir)
    if test_share is not None:
        table = table.split_at_random(test_share, seed)
    train, validation = hold_out(table.train, n_validation, seed)
    train = train if n_train is None else some_rows(train, n_train, seed)
    return Rows(train, validation, some_rows(table.test, n_test, seed), _blocks(table))


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
        eps = unit * (strength if self.eps is None else self.eps)
        if self.attack == "universal":
            return attacks.Universal(eps, steps=steps)
        if self.attack == "pgd":
            return attacks.PGD(eps, steps=steps)
        if self.attack == "low-rank":
            return attacks.LowRank(eps, rank=int(strength), steps=steps)
        groups = blocks if self.blocks else None
        return attacks.GroupSparse(eps, k=int(strength), feature_groups=groups, steps=steps)


def shrunk(data: str, scale: Scale) -> float:
    """Of the usual sizes: networks that two cores can train on CIFAR-10 are at chance under attacks of those."""
    return 1.0 if scale.name == "paper" else SHRUNK.get(data, 1.0)


def all_images(scale: Scale) -> list[Arena]:
    """Both networks on MNIST and on CIFAR-10."""
    return [arena for data in ("mnist", "cifar10") for arena in image_arenas(scale, data)]


def image_arenas(scale: Scale, data: str) -> list[Arena]:
    """Both networks on MNIST or CIFAR-10."""
    is_cifar = data == "cifar10"
    about: dict[str, Any] = {"counts": (0.0125, 0.05), "blocks": "pixels"} if is_cifar else {}
    costs = {"alexnet": 0.042 if is_cifar else 0.028, "elu": 0.006 if is_cifar else 0.003}
    return [
        arena(scale, size, f"{data}-{kind}", data, gradient=costs[kind], shrunk=shrunk(data, scale), **about)
        for kind, size in (("alexnet", scale.alexnet), ("elu", scale.elu))
    ]


def arena(
    scale: Scale, size: Size, name: str, data: str, *, plan: Mapping[str, Any] | None = None, **about: Any
) -> Arena:
    """The arena at that scale, with the sizes of the grid shrunk as the attacks are, or as short training asks."""
    grid = evenly(GRID if scale.grid <= len(GRID) else FINE, scale.grid)
    return Arena(
        name,
        data,
        replace(size.plan, **(plan or {})),
        n_test=size.n_test,
        n_validation=size.n_validation,
        steps=size.steps,
        n_train=size.n_train,
        grid=tuple(min(about.get("shrunk", 1.0), size.short) * value for value in grid),
        **about,
    )


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


def _blocks(table: Table) -> Any:
    """The block of each feature: those of the table, or the pixels of a colour image."""
    if table.feature_groups is not None or table.X.ndim != 4:
        return table.feature_groups
    channels, height, width = table.X.shape[1:]
    return np.tile(np.arange(height * width), channels)


def _middle(strengths: tuple[float, ...]) -> float:
    return strengths[(len(strengths) - 1) // 2]
