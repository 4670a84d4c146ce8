"""Where and how large experiments are: the scales, and the data sets and networks on which defences are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from gsat import _defaults
from gsat.data import Table, load
from gsat.estimators.from_table import Plan

Name = Literal["quick", "cpu", "overnight", "paper"]
STRUCTURES = ("group-sparse", "low-rank")
GRID = (0.05, 0.1, 0.2)  # sizes as fractions of E‖X‖
FINE = (0.025, 0.05, 0.1, 0.15, 0.2)
BUDGET = 0.05  # the norm of the paper's attacks, and of GSAT where baselines are matched to it
SHRUNK = {"cifar10": 0.25}
PRINTED, ADAPTIVE = "admm-paper", "admm"  # Algorithm 2 with the paper's step, and with one that follows the curvature
SHORTER = {"cpu": 3, "overnight": 3}  # a sweep trains many models: each on so many times fewer groups than elsewhere


@dataclass(frozen=True)
class Size:
    """What is done with one network: how it is trained, on how many seeds, and how hard it is attacked."""

    plan: Plan
    seeds: int
    n_test: int
    n_validation: int
    steps: int  # gradients of an attack
    n_train: int | None = None  # rows to train on; None: all
    short: float = 1.0  # by how much the sizes tried are smaller: a short training from scratch cannot bear large ones


@dataclass(frozen=True)
class Scale:
    """The two networks of the paper and how finely curves are drawn.

    strengths: points of a curve besides strength 0
    grid:      sizes that are tried for every defence where baselines are tuned
    trials:    recipes that are tried for every defence on the ELU net
    tasks:     the only ones that are run, in an experiment that has some; None for all
    solver:    of the inner problem of GSAT where it was asked for; None for that of the plans
    own:       the paper's data sets that the user has, with the sum of their files; see `own_data`
    """

    name: Name
    alexnet: Size
    elu: Size
    strengths: int
    grid: int
    trials: int = 4
    tasks: tuple[str, ...] | None = None
    solver: str | None = None
    own: Mapping[str, str] = field(default_factory=dict)

    def solved_by(self, solver: str) -> Scale:
        """The scale whose GSAT is trained with that solver of the inner problem."""
        alexnet, elu = (replace(size, plan=replace(size.plan, solver=solver)) for size in (self.alexnet, self.elu))
        return replace(self, alexnet=alexnet, elu=elu, solver=solver)

    def pick(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """At most `strengths` of the values, evenly, the first and the last among them."""
        return evenly(values, self.strengths)


def any_price(solver: str) -> str:
    """The solver where λ is not the paper's: a fixed step of ADMM goes with one λ only."""
    return ADAPTIVE if solver == PRINTED else solver


def evenly(values: Sequence[Any], n: int) -> tuple[Any, ...]:
    """At most n of the values, as evenly as can be, the first and the last among them; of one, the first."""
    if n >= len(values):
        return tuple(values)
    return tuple(values[round(i * (len(values) - 1) / max(n - 1, 1))] for i in range(n))


T1 = _defaults.N_INNER  # inner gradients of all defences alike


def _narrow(**changes: Any) -> Plan:
    """The AlexNet on two cores: one sixteenth of the width."""
    layout = {"width": 1 / 16, "channels_last": True}
    usual: dict[str, Any] = {"n_outer": 150, "n_inner": T1, "eta0": 5e-3, "schedule": "cosine"}
    return Plan("erm", **{"model": "alexnet", "options": layout, **usual, **changes})


def _elu(**changes: Any) -> Plan:
    return Plan("erm", schedule="cosine", eta0=2e-3, n_inner=T1, **changes)


PAPER: dict[str, Any] = {
    "n_outer": 10_000, "n_inner": T1, "eta0": 1e-4, "alpha": 0.5, "lam": "paper", "solver": PRINTED, "device": "auto",
}  # fmt: skip
SCALES: dict[str, Scale] = {
    "quick": Scale(
        "quick",
        alexnet=Size(
            _narrow(options={"width": 1 / 24, "channels_last": True}, n_outer=3, n_inner=3, group_size=20),
            seeds=1, n_test=40, n_validation=20, steps=3, n_train=300,
        ),
        elu=Size(
            Plan("erm", n_outer=6, n_inner=4, group_size=50), seeds=2, n_test=60, n_validation=40, steps=4, n_train=600
        ),
        strengths=2, grid=2, trials=2,
    ),
    "cpu": Scale(
        "cpu",
        alexnet=Size(_narrow(n_outer=300, n_inner=5), seeds=3, n_test=200, n_validation=200, steps=25, short=0.25),
        elu=Size(_elu(n_outer=600), seeds=5, n_test=500, n_validation=400, steps=50),
        strengths=4, grid=3,
    ),
    "overnight": Scale(
        "overnight",
        alexnet=Size(_narrow(n_outer=300), seeds=2, n_test=400, n_validation=200, steps=50, short=0.25),
        elu=Size(_elu(n_outer=1200), seeds=5, n_test=1000, n_validation=400, steps=100),
        strengths=6, grid=3,
    ),
    "paper": Scale(
        "paper",
        alexnet=Size(Plan("erm", model="alexnet", **PAPER), seeds=3, n_test=10_000, n_validation=2_000, steps=100),
        elu=Size(Plan("erm", **PAPER), seeds=5, n_test=10_000, n_validation=2_000, steps=100),
        strengths=20, grid=5,
    ),
}  # fmt: skip


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
    checksum:   of the user's own files, whose content may change
    trials:     recipes that are tried for every defence where baselines are tuned; see `recipes`
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
    structures: tuple[str, ...] = ("universal", *STRUCTURES)
    shrunk: float = 1.0
    counts: tuple[float, ...] = (0.05, 0.2)
    blocks: str | None = None
    gradient: float = 0.004
    checksum: str = ""
    trials: int = 1

    @property
    def budget(self) -> float:
        """That of GSAT where baselines are matched to it."""
        return BUDGET * self.shrunk

    def describe(self) -> dict[str, Any]:
        """As JSON, with a checksum where there is one."""
        return {name: value for name, value in asdict(self).items() if name != "checksum" or value}

    def rows(self, data_dir: Path | None, seed: int) -> Rows:
        """The samples of that seed."""
        sizes = self.n_train, self.n_validation, self.n_test
        return _rows(self.data, tuple(self.options.items()), data_dir, self.test_share, sizes, seed)


class Rows(NamedTuple):
    """Disjoint rows to train on, to choose sizes on and to test on, and the block of each feature."""

    train: Table
    validation: Table
    test: Table
    blocks: Any


@lru_cache(maxsize=1)
def loaded(data: str, options: tuple[tuple[str, Any], ...], data_dir: Path | None) -> Table:
    """The data set, read once for all pieces that follow each other on it."""
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
    table = loaded(data, options, data_dir)
    if test_share is not None:
        table = table.split_at_random(test_share, seed)
    number = np.arange(len(table))[:, None]  # in place of the samples, which are copied once they are chosen
    numbered = replace(table, X=number, feature_names=None, feature_groups=None, shift=None)
    train, validation = hold_out(numbered.train, n_validation, seed)
    train = train if n_train is None else some_rows(train, n_train, seed)
    parts = train, validation, some_rows(numbered.test, n_test, seed)
    train, validation, test = (replace(table.subset(part.X[:, 0]), split=part.split) for part in parts)
    return Rows(train, validation, test, _blocks(table))


def hold_out(rows: Table, n: int, seed: int) -> tuple[Table, Table]:
    """Rows to train on, and n others, at most a quarter, to choose sizes on."""
    n = min(n, len(rows) // 4)
    split = rows.split_at_random(n / len(rows), seed)
    return split.train, split.test


def some_rows(rows: Table, n: int, seed: int) -> Table:
    """At most n of the rows, every class with its share."""
    if n >= len(rows):
        return rows
    return rows.split_at_random(n / len(rows), seed).test


def shrunk(data: str, scale: Scale) -> float:
    """Of the usual sizes: networks that two cores can train on CIFAR-10 are at chance under attacks of those."""
    return 1.0 if scale.name == "paper" else SHRUNK.get(data, 1.0)


def all_images(scale: Scale) -> list[Arena]:
    """Both networks on MNIST and CIFAR-10; at scale cpu no AlexNet on CIFAR-10, where it learns too little."""
    found = [arena for data in ("mnist", "cifar10") for arena in image_arenas(scale, data)]
    return [arena for arena in found if (scale.name, arena.name) != ("cpu", "cifar10-alexnet")]


def universal(scale: Scale) -> str:
    """The paper's universal adversary, one shift for a group, at its scale; else a shift for every two samples."""
    return "universal-one" if scale.name == "paper" else "universal"


def image_arenas(scale: Scale, data: str) -> list[Arena]:
    """Both networks on MNIST or CIFAR-10."""
    is_cifar = data == "cifar10"
    about: dict[str, Any] = {"counts": (0.0125, 0.05), "blocks": "pixels"} if is_cifar else {}
    about["structures"] = (universal(scale), *STRUCTURES)
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
        trials=scale.trials if size.plan.model == "elu" else 1,
        grid=tuple(min(about.get("shrunk", 1.0), size.short) * value for value in grid),
        **about,
    )


def elu_on(scale: Scale, data: str = "mnist", *, full: bool = False, **changes: Any) -> Arena:
    """The ELU net on a data set, trained on fewer groups than elsewhere unless `full`."""
    plan = scale.elu.plan
    n_outer = plan.n_outer if full else plan.n_outer // SHORTER.get(scale.name, 1)
    return arena(scale, scale.elu, f"{data}-elu", data, plan={"n_outer": n_outer, **changes})


def number_of_seeds(scale: Scale, seeds: int | None) -> int:
    """Those that were asked for, or those of the scale."""
    return scale.elu.seeds if seeds is None else seeds


def _blocks(table: Table) -> Any:
    """The block of each feature: those of the table, or the pixels of a colour image."""
    if table.feature_groups is not None or table.X.ndim != 4:
        return table.feature_groups
    channels, height, width = table.X.shape[1:]
    return np.tile(np.arange(height * width), channels)
