"""One method on one fold: choose its strength on the training batches, test it on the batch that was held out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gsat.data import Table
from gsat.estimators.from_table import Plan, classifier_for
from gsat.experiments.plan import Place
from gsat.experiments.shift_tasks import Task, centred, inner_splits, known, loaded, most_variable, with_columns

EQUAL = 1e-9  # shares that differ by less are equal
LEAST = 1e-12  # of a probability, in a logarithm


@dataclass(frozen=True)
class Method:
    """A way to train.

    defence:   a name for `Plan`, or None for logistic regression
    per_batch: the defence is told the batches of the training rows
    centred:   rows are taken less the mean of their batch; this uses unlabelled samples of the test batch
    """

    defence: str | None
    per_batch: bool = False
    centred: bool = False


METHODS = {
    "erm": Method("erm"),
    "pgd": Method("pgd"),
    "universal": Method("universal"),
    "universal, per batch": Method("universal", per_batch=True),
    "group-sparse": Method("group-sparse"),
    "low-rank": Method("low-rank"),
    "logistic": Method(None),
    "logistic, centred": Method(None, centred=True),
}


@dataclass(frozen=True)
class Setting:
    """What all methods share; grids begin with the strongest.

    sizes:    budget of GSAT and eps of PGD, as fractions of E‖X‖ of the standardised training rows
    cs:       C of logistic regression
    test_all: the strengths that were not chosen are tested too
    """

    sizes: tuple[float, ...] = (0.2, 0.06, 0.02)
    cs: tuple[float, ...] = (1e-3, 1e-2, 1e-1)
    n_outer: int = 100
    n_inner: int = 5
    group_size: int = 64
    eta0: float = 2e-3
    schedule: str = "cosine"
    validation_batches: int = 2
    test_all: bool = False

    def describe(self) -> dict[str, Any]:
        """The setting as JSON."""
        return asdict(self)

    def strengths(self, method: Method) -> tuple[float, ...]:
        """What there is to choose from; one number where there is no choice."""
        if method.defence is None:
            return self.cs
        return (0.0,) if method.defence == "erm" else self.sizes


def one_fold(place: Place, task: Task, held_out: str, seed: int, method: str, setting: Setting) -> pd.DataFrame:
    """`fold` of the data of a task."""
    return fold(loaded(task, place.data_dir), task, held_out, seed, method, setting)


def fold(table: Table, task: Task, held_out: str, seed: int, method: str, setting: Setting) -> pd.DataFrame:
    """Choose the strength without the batch `held_out`, then test it there; a row per strength.

    size:       of the perturbation, or C of logistic regression; 0 where there is nothing to choose
    validation, validation_loss: mean balanced accuracy and cross-entropy over `inner_splits` of the training batches
    chosen:     whether it is the strength with the best validation, of equals that with the least validation_loss
    accuracy, balanced_accuracy: on the rows of the test batch whose class was trained on; nan if not tested
    """
    how = METHODS[method]
    table = centred(table) if how.centred else table
    away = np.asarray(table.batch) == held_out
    if not away.any():
        raise ValueError(f"held_out must be a batch of {task.name}, got {held_out!r}")
    train = table.subset(~away)
    test = known(train, table.subset(away))
    begun = time.process_time()
    grid = setting.strengths(how)
    validation, loss = _validated(train, task, how, grid, setting, seed)
    best = int(np.lexsort((loss, np.round(-validation / EQUAL)))[0])
    scores = {"accuracy": np.full(len(grid), np.nan), "balanced_accuracy": np.full(len(grid), np.nan)}
    for i in range(len(grid)) if setting.test_all else (best,):
        tested = _tested(train, test, task, how, grid[i], setting, seed)
        scores["accuracy"][i], scores["balanced_accuracy"][i] = tested.accuracy, tested.balanced_accuracy
    return pd.DataFrame(
        {
            "data": task.name, "held_out": held_out, "seed": seed, "defence": method, "size": grid,
            "validation": validation, "validation_loss": loss, "chosen": np.arange(len(grid)) == best, **scores,
            "n_train": len(train), "n_test": len(test), "seconds": time.process_time() - begun,
        }
    )  # fmt: skip


@dataclass(frozen=True)
class Tested:
    """Shares of rows that are right, of all rows and as the mean over the classes, and the cross-entropy likewise."""

    accuracy: float
    balanced_accuracy: float
    loss: float


def _validated(
    train: Table, task: Task, how: Method, grid: Sequence[float], setting: Setting, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean balanced accuracy and loss of each strength over the inner splits; nan where there is no choice."""
    if len(grid) == 1:
        return np.full(1, np.nan), np.full(1, np.nan)
    found = [
        [_tested(rows, away, task, how, strength, setting, seed) for strength in grid]
        for _, rows, away in inner_splits(train, setting.validation_batches, seed)
    ]
    scores = np.array([[(tested.balanced_accuracy, tested.loss) for tested in row] for row in found]).mean(axis=0)
    return scores[:, 0], scores[:, 1]


def _tested(train: Table, test: Table, task: Task, how: Method, strength: float, setting: Setting, seed: int) -> Tested:
    """How the method does on `test` that is trained on `train` alone."""
    columns = most_variable(train, task.most_variable)
    rows = with_columns(train, columns)
    model = _logistic(rows, strength) if how.defence is None else _network(rows, how, strength, setting, seed)
    share = model.predict_proba(test.X[:, columns])
    truth = np.searchsorted(model.classes_, np.asarray(test.y))
    right = share.argmax(axis=1) == truth
    loss = -np.log(np.maximum(share[np.arange(len(truth)), truth], LEAST))
    sizes = np.bincount(truth)
    there = sizes > 0
    return Tested(
        float(right.mean()),
        *(float(np.mean(np.bincount(truth, each)[there] / sizes[there])) for each in (right, loss)),
    )


def _network(rows: Table, how: Method, size: float, setting: Setting, seed: int) -> Any:
    plan = Plan(
        str(how.defence), size=size, n_outer=setting.n_outer, n_inner=setting.n_inner, eta0=setting.eta0,
        group_size=setting.group_size, schedule=setting.schedule, seed=seed, standardize=True,
    )  # fmt: skip
    classifier = classifier_for(plan, rows).set_params(class_weight="balanced")
    return classifier.fit_run(rows.X, rows.y, batch=rows.batch if how.per_batch else None, seed=seed)


def _logistic(rows: Table, c: float) -> Any:
    model = LogisticRegression(C=c, class_weight="balanced", max_iter=2000)
    return make_pipeline(StandardScaler(), model).fit(rows.X, rows.y)
