"""What `GSATClassifierCV` chooses from: which preparations and metrics can be tried, and candidates in words."""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from gsat import _defaults
from gsat.estimators.baselines import ERMClassifier
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.gsat import GSATClassifier
from gsat.estimators.lda import LARGEST_SIDE, LDAClassifier
from gsat.estimators.leaving_out import Fold
from gsat.estimators.linear import LinearClassifier
from gsat.metric import Metric

LINEAR, LDA = _defaults.SOLVED  # names among the candidates: of logistic regression, and of shrinkage LDA
NEEDS_BATCH = "centre"  # the preparation that needs the samples of the batch that is predicted


def preparations(asked: str, batch: NDArray[Any] | None, folds: list[Fold]) -> list[str]:
    """Those to choose from: without batches there is nothing to centre, and a single sample cannot be centred."""
    if asked != "choose":
        return [asked]
    names = list(_defaults.PREPARATIONS)
    sides = [] if batch is None else [batch, *(batch[rows] for fold in folds for rows in fold)]
    alone = next((one for side in sides if (one := single_batch(side)) is not None), None)
    if alone is not None:
        warnings.warn(
            f'prepare="centre" is no candidate: batch {alone!r} has a single sample, of itself or in a fold',
            stacklevel=4,
        )
    if batch is None or alone is not None:
        names.remove(NEEDS_BATCH)
    return names


def usable(gammas: Any, metric: Any, batch: NDArray[Any] | None, folds: list[Fold]) -> list[float]:
    """Those to choose from, 0 the first; 0 alone where the metric is given, or cannot be learnt in every fold."""
    every = list(dict.fromkeys([0.0, *gammas]))
    if metric == "within" or len(every) == 1:
        return every
    if metric is None or isinstance(metric, Metric) or batch is None:
        return every[:1]
    if any(len(np.unique(batch[train])) < 2 for train, _ in folds):
        warnings.warn(
            "the metric of the batches is no candidate: a fold keeps one batch, from which it cannot be learnt",
            stacklevel=4,
        )
        return every[:1]
    return every


def without_adversary(
    template: GSATClassifier, prepares: list[str], hidden: Any, gammas: list[float], cs: Any, shrinkages: Any
) -> tuple[list[TorchClassifier], list[TorchClassifier]]:
    """ERM networks, and linear models unless the template has a module of its own, with every preparation."""
    plain = alike(ERMClassifier, template)
    networks = [clone(plain).set_params(prepare=prepare, hidden=units) for prepare, units in product(prepares, hidden)]
    if template.module is not None:
        return networks, []
    logistic = [
        alike(LinearClassifier, template, C=C, gamma=gamma, prepare=prepare, hidden=0)
        for prepare, gamma, C in product(prepares, gammas, cs)
    ]
    discriminant = [
        alike(LDAClassifier, template, shrinkage=shrinkage, prepare=prepare, hidden=0)
        for prepare, shrinkage in product(prepares, shrinkages)
    ]
    return networks, [*logistic, *discriminant]


def solvable(shrinkages: Any, shape: tuple[int, int]) -> Any:
    """Those to choose from: none where LDA would solve with too large a matrix."""
    if len(shrinkages) and min(shape) > LARGEST_SIDE:
        warnings.warn(
            f"LDA is no candidate: it solves with a square matrix of samples or features, of which there are "
            f"{shape[0]} and {shape[1]}, and {LARGEST_SIDE} is the most; shrinkages=() leaves it out without a warning",
            stacklevel=4,
        )
        return ()
    return shrinkages


def adversaries(
    template: GSATClassifier, base: TorchClassifier, structures: Any, budgets: Any, gammas: list[float]
) -> list[TorchClassifier]:
    """GSAT with the preparation and width of the base."""
    return [
        clone(template).set_params(
            structure=structure, budget=budget, gamma=gamma, prepare=base.prepare, hidden=base.hidden
        )
        for structure, budget, gamma in product(structures, budgets, gammas)
    ]


def chosen(estimator: Any) -> dict[str, Any]:
    """What the choice is about, of one candidate; a gamma of 0 is the isotropic adversary."""
    params = {"defence": "erm", "prepare": estimator.prepare, "hidden": estimator.hidden}
    if isinstance(estimator, LinearClassifier):
        params |= {"defence": LINEAR, "C": estimator.C, "gamma": estimator.gamma}
    if isinstance(estimator, LDAClassifier):
        params |= {"defence": LDA, "shrinkage": estimator.shrinkage}
    if isinstance(estimator, GSATClassifier):
        params |= {"defence": estimator.structure, "budget": estimator.budget, "gamma": estimator.gamma}
    return params


def beside(folder: str | Path) -> Path:
    """Where the model for single samples is kept, beside one that needs whole batches."""
    return Path(folder).with_name(f"{Path(folder).name}-single")


def alike(kind: type[TorchClassifier], template: GSATClassifier, **changes: Any) -> TorchClassifier:
    """A classifier of another kind with the parameters that both have."""
    shared = set(kind._get_param_names())
    given = {name: value for name, value in template.get_params(deep=False).items() if name in shared}
    return kind(**{**given, **changes})


def needs_batch(classifier: Any) -> bool:
    """Whether it predicts whole batches alone."""
    return bool(classifier.prepare == NEEDS_BATCH)


def single_batch(batch: NDArray[Any]) -> Any:
    """The first batch with a single sample; None where there is none."""
    names, counts = np.unique(batch, return_counts=True)
    alone = names[counts == 1]
    return alone[0].item() if len(alone) else None
