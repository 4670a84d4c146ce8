"""One candidate of the real shifts trained on some rows and tried on others, which see nothing of each other."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from gsat import _defaults
from gsat._arrays.standardise import Standardised, mean_and_scale
from gsat.data import Table
from gsat.estimators import ERMClassifier, GSATClassifier, PGDClassifier
from gsat.estimators.preparing import prepared
from gsat.estimators.rivals import CORALClassifier, GroupDROClassifier, RandomDrawsClassifier
from gsat.experiments.shift_candidates import AUTO, LINEAR, NONE, Candidate, Setting
from gsat.experiments.shift_tasks import COLUMNS, Rows, most_variable, with_columns
from gsat.metric import Metric
from gsat.metric.spread import Spread, spread

Pair = tuple[NDArray[np.float32], NDArray[np.float32]]
ITERATIONS = {"max_iter": 200, "tol": 1e-3}  # of logistic regression


@dataclass
class Split:
    """Rows to train on, and the rows that are left out, of which `tested` are tested: those of known classes.

    The most variable columns (all of genotypes, whose SNPs stay whole), standardisation and metrics come from the rows
    to train on. A centred row loses the mean of all rows that are left out with it, since their classes are not known.
    """

    train: Table
    away: Table
    tested: NDArray[np.bool_]
    _seen: dict[str, Pair] = field(default_factory=dict, repr=False)
    _spreads: dict[tuple[str, str], Spread] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, table: Table, train: Rows, *, most: int = COLUMNS) -> Split:
        """The split of a table by the places of the rows to train on; all others are left out.

        Of the rows to train on, those whose group has rows that are left out take no part. `most`: columns.
        """
        away = np.setdiff1d(np.arange(len(table)), train)
        if table.group is not None:
            train = train[~np.isin(table.group[train], table.group[away])]
        rows = table.subset(train)
        columns = most_variable(rows.X, most if rows.feature_groups is None else rows.X.shape[1])
        rest = table.subset(away)
        known = np.isin(np.asarray(rest.y), np.asarray(rows.y))
        return cls(with_columns(rows, columns), with_columns(rest, columns), known)

    @property
    def batch(self) -> NDArray[Any] | None:
        """The batches of the rows to train on; None where they are of one."""
        return self.train.batch if len(np.unique(np.asarray(self.train.batch))) > 1 else None

    @property
    def y(self) -> NDArray[Any]:
        """The labels of the tested rows."""
        return np.asarray(self.away.y)[self.tested]

    def seen(self, prepare: str) -> Pair:
        """Rows to train on and tested rows, prepared and standardised, (n, d) each."""
        if prepare not in self._seen:
            own, other = (prepared(side.X, prepare, side.batch) for side in (self.train, self.away))
            mean, scale = mean_and_scale(own)
            self._seen[prepare] = Standardised(own, mean, scale)[:], Standardised(other, mean, scale)[:][self.tested]
        return self._seen[prepare]

    def metric(self, one: Candidate) -> Metric | None:
        """The metric of a candidate, from the rows to train on."""
        if one.metric == NONE:
            return None
        key = one.prepare, one.metric
        if key not in self._spreads:
            kind = None if one.metric == AUTO else one.metric
            X = self.seen(one.prepare)[0]
            self._spreads[key] = spread(X, self.train.y, self.batch, kind=kind, rank=_defaults.METRIC_RANK)
        return Metric.of_spread(self._spreads[key], one.gamma)


def predicted(one: Candidate, split: Split, setting: Setting, seed: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Probabilities (n, classes) of the tested rows after training on the others, and the classes."""
    train, test = split.seen(one.prepare)
    metric = split.metric(one)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short trainings have not always converged
        if one.family in LINEAR:
            if metric is not None:  # ‖A·w‖² is the penalty on w of a model of z = A⁻¹·x with the penalty ‖v‖², v = A·w
                train, test = (metric.solve(torch.from_numpy(side)).numpy() for side in (train, test))
            model = linear_model(one, len(split.train.classes))
            try:
                model.fit(train, split.train.y)
            except np.linalg.LinAlgError:  # LAPACK's least squares, of LDA with many alike columns
                model.set_params(solver="eigen").fit(train, split.train.y)
        else:
            model = network(one, setting, metric, split.train.feature_groups, seed)
            model.fit(train, split.train.y, batch=split.batch)
    return model.predict_proba(test), model.classes_


def linear_model(one: Candidate, n_classes: int) -> Any:
    """The model of scikit-learn; classes count alike in all of them."""
    if one.family == "majority":
        return DummyClassifier(strategy="most_frequent")
    if one.family == "lda":
        priors = np.full(n_classes, 1 / n_classes)
        return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=one.strength, priors=priors)
    return LogisticRegression(C=one.strength, class_weight="balanced", **ITERATIONS)


def network(one: Candidate, setting: Setting, metric: Metric | None, blocks: Any, seed: int) -> Any:
    """The classifier of a network; rows come prepared and standardised."""
    common: dict[str, Any] = {
        "n_outer": setting.n_outer, "group_size": setting.group_size, "eta0": setting.eta0,
        "schedule": setting.schedule, "hidden": one.hidden, "standardize": False, "class_weight": "balanced",
        "random_state": seed,
    }  # fmt: skip
    if one.family == "erm":
        return ERMClassifier(**{**common, "n_outer": max(1, round(one.strength * setting.n_outer))})
    if one.family == "pgd":
        return PGDClassifier(one.strength, n_inner=setting.n_inner, **common)
    if one.family == "group-dro":
        return GroupDROClassifier(one.strength, **common)
    if one.family == "coral":
        return CORALClassifier(one.strength, **common)
    if one.family == "random":
        return RandomDrawsClassifier(one.strength, metric=metric, **common)
    return GSATClassifier(
        one.family, budget=one.strength, n_inner=setting.n_inner, metric=metric, feature_groups=blocks, **common
    )
