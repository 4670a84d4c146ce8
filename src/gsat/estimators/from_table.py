"""One trained model from a table, a defence by its name and a size: the path that every experiment shares."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from gsat import _defaults, registry
from gsat.data import Table
from gsat.data.rows import StoredRows
from gsat.data.values import looks
from gsat.estimators.average import AverageClassifier
from gsat.estimators.baselines import (
    EpsClassifier,
    ERMClassifier,
    FGMClassifier,
    FGSMClassifier,
    PGDClassifier,
    StructuredATClassifier,
    UniversalATClassifier,
)
from gsat.estimators.candidates import LDA, LINEAR
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.gsat import GSATClassifier
from gsat.estimators.lda import LDAClassifier
from gsat.estimators.linear import LinearClassifier
from gsat.training import History

ONE_GRADIENT: dict[str, type[EpsClassifier]] = {  # for a group
    kind.defence: kind for kind in (FGMClassifier, FGSMClassifier, UniversalATClassifier)
}


@dataclass(frozen=True)
class Plan:
    """How a model is trained.

    Parameters
    ----------
    defence
        Its name in `gsat.registry`, "linear" for a `LinearClassifier`, or "lda" for an `LDAClassifier`.
    size
        A fraction of E‖X‖₂: the budget of GSAT, the eps of the others; C of a linear model, the shrinkage of LDA.
    lam, alpha, k, n_outer, group_size, eta0, schedule, ema, solver, seed, standardize, prepare, normalise
        As in `GSATClassifier`; seed is its random_state.
    n_inner
        Gradients for a group; None for the default of the classifier.
    early_stopping, validation_fraction, calibrate
        As in `GSATClassifier`.
    metric, gamma
        Of GSAT and of linear models, as in `GSATClassifier`.
    class_weight
        As in `GSATClassifier`.
    model, options
        The name of the network and its options.
    per_batch
        Whether the classifier is given the batches of the table.
    device
        As in `GSATClassifier`; linear models and LDA are solved on the CPU.
    """

    defence: str
    size: float = _defaults.BUDGET
    lam: float | str = _defaults.LAM
    alpha: float | None = None
    k: int | None = None
    model: str | None = "elu"
    options: dict[str, Any] = field(default_factory=dict)
    n_outer: int = _defaults.N_OUTER
    n_inner: int | None = None
    group_size: int = _defaults.GROUP_SIZE
    eta0: float = _defaults.ETA0
    schedule: str = _defaults.SCHEDULE
    ema: float | None = None
    solver: str = _defaults.SOLVER
    seed: int = 0
    standardize: bool = False
    prepare: str = _defaults.PREPARE
    normalise: str = _defaults.NORMALISE
    per_batch: bool = False
    device: str | None = None
    early_stopping: bool = False
    validation_fraction: float = _defaults.VALIDATION_FRACTION
    calibrate: bool = False
    metric: str | None = _defaults.METRIC
    gamma: float = _defaults.GAMMA
    class_weight: str | None = None

    @property
    def inner(self) -> int:
        """Gradients for a group, n_inner or the default of the defence."""
        if self.defence in (LINEAR, LDA):
            return 0
        if self.n_inner is not None:
            return self.n_inner
        return _defaults.N_INNER if self.solver.startswith("admm") else registry.default_n_inner(self.defence)

    def describe(self) -> dict[str, Any]:
        """The plan as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Trained:
    """A fitted classifier and the plan it comes from; `predictor` is what predicts: itself, or an average with it."""

    classifier: TorchClassifier
    plan: Plan
    predictor: TorchClassifier | AverageClassifier

    @property
    def module(self) -> nn.Module:
        """The network."""
        return self.classifier.module_

    @property
    def history(self) -> History:
        """How the training went."""
        return self.classifier.history_


def train(
    table: Table,
    plan: Plan,
    *,
    out: Path | None = None,
    resume: bool = False,
    progress: bool = False,
    group: str = "own",
    shuffle: str = "rows",
) -> Trained:
    """Train on the rows of a table.

    Parameters
    ----------
    table
        The samples, their labels and, for plan.per_batch, their batches.
    plan
        What is trained, and how.
    out, resume
        A folder for log.jsonl and checkpoints; resume=True goes on with a run that is there.
    progress
        Whether to show a bar.
    group, shuffle
        As in `gsat.gdadmm`.

    Returns
    -------
    Trained
        The fitted classifier, with the plan.
    """
    classifier = classifier_for(plan, table).set_params(verbose=int(progress))
    batch = table.batch if plan.per_batch else None
    run: dict[str, Any] = {"seed": plan.seed, "out": out, "resume": resume, "group": group, "shuffle": shuffle}
    classifier.fit_run(samples(table), table.y, batch=batch, groups=table.group, **run)
    classifier.values_ = looks(table.X)
    return Trained(classifier, plan, classifier)


def classifier_for(plan: Plan, table: Table) -> TorchClassifier:
    """The classifier of a plan.

    Parameters
    ----------
    plan
        What is trained, and how.
    table
        Samples, by whose shape and feature groups the classifier is set.

    Returns
    -------
    TorchClassifier
        Not fitted.
    """
    if plan.defence in (LINEAR, LDA):
        solved: dict[str, Any] = {
            "standardize": plan.standardize,
            "prepare": plan.prepare,
            "normalise": plan.normalise,
            "class_weight": plan.class_weight,
            "calibrate": plan.calibrate,
            "validation_fraction": plan.validation_fraction,
            "random_state": plan.seed,
        }
        if plan.defence == LDA:
            return LDAClassifier(plan.size, **solved)
        return LinearClassifier(plan.size, metric=plan.metric, gamma=plan.gamma, **solved)
    name = registry.check_defence(plan.defence)
    shared: dict[str, Any] = {
        "n_outer": plan.n_outer,
        "group_size": plan.group_size,
        "module": plan.model,
        "module_options": plan.options or None,
        "in_shape": table.X.shape[1:] if table.X.ndim > 2 else None,
        "eta0": plan.eta0,
        "schedule": plan.schedule,
        "ema": plan.ema,
        "standardize": plan.standardize,
        "prepare": plan.prepare,
        "class_weight": plan.class_weight,
        "normalise": plan.normalise,
        "random_state": plan.seed,
        "early_stopping": plan.early_stopping,
        "validation_fraction": plan.validation_fraction,
        "calibrate": plan.calibrate,
        "device": plan.device,
    }
    if name == "erm":
        return ERMClassifier(**shared)
    if name in ONE_GRADIENT:
        return ONE_GRADIENT[name](plan.size, **shared)
    shared["n_inner"] = plan.inner
    if name == PGDClassifier.defence:
        return PGDClassifier(plan.size, **shared)
    shared |= {"k": plan.k, "feature_groups": table.feature_groups}
    if name in registry.STRUCTURES:
        shared |= {"metric": plan.metric, "gamma": plan.gamma}
        return GSATClassifier(name, lam=plan.lam, budget=plan.size, alpha=plan.alpha, solver=plan.solver, **shared)
    return StructuredATClassifier(name.removeprefix(registry.BY_ATTACK), eps=plan.size, **shared)


def samples(table: Table) -> Any:
    """X as the classifiers take it.

    Parameters
    ----------
    table
        Samples (n, *features).

    Returns
    -------
    array, DataFrame or StoredRows
        With the names of the features, where they have some, which are then kept with the model.
    """
    if table.feature_names is None or table.X.ndim > 2:
        return table.X
    if isinstance(table.X, StoredRows):
        return table.X.named(table.feature_names)
    return pd.DataFrame(table.X, columns=list(table.feature_names), copy=False)


def known_rows(table: Table, classifier: Any) -> Table:
    """The rows whose class the classifier has seen in training.

    Parameters
    ----------
    table, classifier
        Labelled samples, and a fitted classifier.

    Returns
    -------
    Table
        The table itself where all classes are known.
    """
    seen = np.isin(table.y, classifier.classes_)  # type: ignore[arg-type]
    return table if seen.all() else table.subset(seen)


def predictable_rows(table: Table, classifier: Any, *, per_batch: bool) -> Table:
    """The rows that the classifier can predict: all, or of a centred one those that are not alone in their batch.

    Parameters
    ----------
    table, classifier
        Samples, and a fitted classifier.
    per_batch
        Whether the classifier is given the batches of the table; else the table is one batch.

    Returns
    -------
    Table
        The table itself where all rows can be predicted.
    """
    if classifier.prepare != "centre" or len(table) == 0:
        return table
    batch = table.batch if per_batch else np.zeros(len(table))
    _, code, count = np.unique(np.asarray(batch), return_inverse=True, return_counts=True)
    together = count[code] > 1
    return table if together.all() else table.subset(together)
