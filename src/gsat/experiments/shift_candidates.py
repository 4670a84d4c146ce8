"""What is trained in every fold of the real shifts: candidates, each one model with all its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from gsat import _defaults

NONE, AUTO = "none", "auto"  # of `metric`: all directions alike; as batches differ, or samples of the only batch
LINEAR = ("majority", "logistic", "lda")
STRUCTURES = ("universal", "group-sparse", "low-rank")
CENTRE = "centre"  # the preparation that sees the unlabelled samples of the test batch


@dataclass(frozen=True)
class Candidate:
    """One model.

    family:   "majority", "logistic", "lda", "erm", "pgd", "group-dro", "coral", "random", or a structure of GSAT
    strength: C, the shrinkage, the length of ERM's training (1: as long as the others'), eps, step or budget
    metric:   "none", "auto", "within" or "between", and gamma, as in `gsat.Metric`
    prepare:  as in the estimators
    hidden:   units; 0 for a linear model
    """

    family: str
    strength: float = 1.0
    metric: str = NONE
    gamma: float = 0.0
    prepare: str = "none"
    hidden: int = 0


@dataclass(frozen=True)
class Setting:
    """What all candidates share, and the strengths of each family, as many for each.

    budgets:        of isotropic GSAT, and eps of PGD, as fractions of E‖X‖
    metric_budgets: of GSAT in the metric, with each of `gammas`
    draws:          lengths of random draws, likewise
    metric_cs:      C of logistic regression in the metric, likewise
    folds:          training batches that are left out in turn, at the most, or random folds
    """

    budgets: tuple[float, ...] = (0.01, 0.03, 0.06, 0.15)
    metric_budgets: tuple[float, ...] = (0.01, 0.03, 0.06, 0.15)
    gammas: tuple[float, ...] = (10.0,)
    draws: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0)
    lengths: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    dro_steps: tuple[float, ...] = (1e-3, 1e-2, 1e-1, 1.0)
    coral: tuple[float, ...] = (0.3, 3.0, 30.0, 300.0)
    cs: tuple[float, ...] = (1e-3, 1e-2, 1e-1, 1.0)
    metric_cs: tuple[float, ...] = (1e-3, 1e-2, 1e-1, 1.0)
    shrinkages: tuple[float, ...] = (0.03, 0.1, 0.3, 0.6)
    hidden: tuple[int, ...] = (_defaults.HIDDEN,)
    n_outer: int = 200
    n_inner: int = 5
    group_size: int = 64
    eta0: float = 5e-3
    schedule: str = "cosine"
    folds: int = 3

    def describe(self) -> dict[str, Any]:
        """The setting as JSON."""
        return asdict(self)


def linear(setting: Setting, prepares: Iterable[str]) -> Iterator[Candidate]:
    """Majority class, logistic regression, LDA and logistic regression in the metric, with each preparation."""
    yield Candidate("majority")
    for prepare in prepares:
        yield from (Candidate("logistic", c, prepare=prepare) for c in setting.cs)
        yield from (Candidate("lda", shrinkage, prepare=prepare) for shrinkage in setting.shrinkages)
        yield from _in_metric("logistic", AUTO, setting.metric_cs, setting, Candidate("", prepare=prepare))


def plain_networks(setting: Setting, prepares: Iterable[str]) -> list[Candidate]:
    """ERM with each preparation and width: what the base of the other networks is chosen from."""
    return [Candidate("erm", prepare=prepare, hidden=hidden) for prepare, hidden in product(prepares, setting.hidden)]


def common_networks(setting: Setting, base: Candidate) -> Iterator[Candidate]:
    """ERM of all lengths, PGD, and GSAT of all structures, isotropic and in the metric, prepared as the base is."""
    yield from (replace(base, strength=length) for length in setting.lengths)
    for family in ("pgd", *STRUCTURES):
        yield from (replace(base, family=family, strength=budget) for budget in setting.budgets)
    for structure in STRUCTURES:
        yield from _in_metric(structure, AUTO, setting.metric_budgets, setting, base)


def robust_networks(setting: Setting, base: Candidate, *, several: bool) -> Iterator[Candidate]:
    """All networks with the preparation and width of the base; with one batch without those that need several.

    CORAL compares what the hidden layer shows of batches: it has the largest width in any case.
    """
    yield from common_networks(setting, base)
    yield from (replace(base, family="unstructured", strength=budget) for budget in setting.budgets)
    yield from _in_metric("random", AUTO, setting.draws, setting, base)
    if several:
        for metric in ("within", "between"):
            yield from _in_metric("low-rank", metric, setting.metric_budgets, setting, base)
        yield from (replace(base, family="group-dro", strength=step) for step in setting.dro_steps)
        wide = replace(base, family="coral", hidden=max(setting.hidden))
        yield from (replace(wide, strength=strength) for strength in setting.coral)


def _in_metric(
    family: str, metric: str, strengths: tuple[float, ...], setting: Setting, base: Candidate
) -> Iterator[Candidate]:
    for strength, gamma in product(strengths, setting.gammas):
        yield replace(base, family=family, strength=strength, metric=metric, gamma=gamma)
