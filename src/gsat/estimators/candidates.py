"""What `GSATClassifierCV` chooses from: which preparations and metrics can be tried, and candidates in words."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat import _defaults
from gsat.costs import Metric
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.gsat import GSATClassifier
from gsat.estimators.leaving_out import Fold
from gsat.estimators.linear import LinearClassifier

LINEAR = _defaults.LINEAR  # the name of linear models among the candidates
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


def chosen(estimator: Any) -> dict[str, Any]:
    """What the choice is about, of one candidate; a gamma of 0 is the isotropic adversary."""
    params = {"defence": "erm", "prepare": estimator.prepare, "hidden": estimator.hidden}
    if isinstance(estimator, LinearClassifier):
        params |= {"defence": LINEAR, "C": estimator.C, "gamma": estimator.gamma}
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


def single_batch(batch: NDArray[Any]) -> Any:
    """The first batch with a single sample; None where there is none."""
    names, counts = np.unique(batch, return_counts=True)
    alone = names[counts == 1]
    return alone[0].item() if len(alone) else None
