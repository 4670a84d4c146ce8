"""The table of predictions of new samples, and what a user should know before believing it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gsat import _checks
from gsat._files import read_json
from gsat.data import Table
from gsat.data.rows import dense_rows
from gsat.data.seen import content, trained_on
from gsat.data.values import LOOKED, looks, of_new
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.from_table import Trained, predictable_rows, samples
from gsat.estimators.matching import Aligned, Alignment, members_of

UNASSIGNED = "unassigned"
FAR = 3.0  # deviations of training
FEW = 10  # samples of which one class is no surprise
ROWS = 256  # samples in order of the model at a time
KNOWN = "trained_on.json"  # in the folder of a run


def predictions(
    table: Table,
    classes: NDArray[Any],
    chances: NDArray[np.float64],
    *,
    label: bool = False,
    least: float | None = None,
) -> pd.DataFrame:
    """A row for each sample: id, label, prediction, and p_ of each class.

    Parameters
    ----------
    table
        The samples.
    classes, chances
        Of the model, and the probabilities (n, classes).
    label
        Whether the labels of the table are a column.
    least
        Samples whose largest probability is below are "unassigned", and that probability is a column; or None.

    Returns
    -------
    DataFrame
        Probabilities rounded to six digits.
    """
    frame = pd.DataFrame({"id": range(len(table)) if table.sample_ids is None else table.sample_ids})
    if label and table.y is not None:
        frame["label"] = table.y
    predicted = classes[chances.argmax(1)]
    if least is not None:
        _checks.number("--unassigned-below", least, least=0, most=1)
        predicted = predicted.astype(object)
        predicted[chances.max(1) < least] = UNASSIGNED
    frame["prediction"] = predicted
    if least is not None:
        frame["probability"] = chances.max(1).round(6)
    columns = [f"p_{name}" for name in classes]
    return pd.concat([frame, pd.DataFrame(chances.round(6), columns=columns)], axis=1)


def unlabelled(trained: Trained, table: Table) -> pd.DataFrame:
    """The predictions of samples that were not trained on since they have no label or no batch.

    Parameters
    ----------
    trained
        The model, with its plan.
    table
        The samples; a centred model predicts those that are not alone in their batch.

    Returns
    -------
    DataFrame
        As `predictions`.
    """
    plan, classes = trained.plan, trained.predictor.classes_
    there = predictable_rows(table, trained.predictor, per_batch=plan.per_batch)
    chances = np.empty((0, len(classes)))
    if len(there):
        chances = trained.predictor.predict_proba(samples(there), there.batch if plan.per_batch else None)
    return predictions(there, classes, chances)


def remembered(table: Table) -> dict[str, Any]:
    """What trained_on.json holds of the rows of a table."""
    return content(table.X, table.sample_ids)


def doubtful(
    run: Path,
    classifier: TorchClassifier,
    table: Table,
    alignment: Alignment,
    chances: NDArray[np.float64],
    *,
    least: float | None,
) -> list[str]:
    """What speaks against the predictions of new samples.

    Parameters
    ----------
    run
        The folder of the run, or of a saved classifier.
    classifier, alignment
        The model, and where its features are among those of the table.
    table
        The samples.
    chances
        The probabilities (n, classes) that the model gives.
    least
        The probability below which samples are unassigned, or None.

    Returns
    -------
    list of str
        A sentence each.
    """
    X = table.flat
    found = []
    trained = getattr(classifier, "values_", None)
    there = np.flatnonzero(alignment.order >= 0)
    if trained is not None and len(there) >= 0.5 * len(alignment.order):
        some = np.unique(np.linspace(0, len(X) - 1, min(LOOKED, len(X))).astype(np.int64))
        seen = dense_rows(X, some)[:, alignment.order[there]]
        found += of_new(looks(seen), trained, classifier.normalise) or _far(classifier, seen, there)
    if len(X) >= FEW and len(one := np.unique(chances.argmax(1))) == 1:
        found.append(
            f"all {len(X)} samples are predicted as {classifier.classes_[one[0]]}: is something wrong with them?"
        )
    if (run / KNOWN).exists():
        rows = _in_order(X, alignment)
        found += filter(None, [trained_on(read_json(run / KNOWN), rows, table.sample_ids)])
    if least is not None and not classifier.calibrate:
        found.append(
            "the probabilities are not calibrated, so that --unassigned-below is no rate; train with --calibrate"
        )
    return found


def _far(classifier: TorchClassifier, rows: NDArray[Any], there: NDArray[np.intp]) -> list[str]:
    """Whether the mean of most features is far from that in training, in deviations of the training samples."""
    own = [one for one in members_of(classifier) if one.prepare == "none" and one.standardize]
    if classifier.normalise != "none" or not own:
        return []
    away = np.abs(rows.mean(0, dtype=np.float64) - own[0].mean_[there]) / own[0].scale_[there]
    if (typical := float(np.median(away))) <= FAR:
        return []
    return [
        f"half of the features are on average {typical:.1f} deviations or more away from their means in training: "
        "another normalisation, or other units?"
    ]


def _in_order(X: Any, alignment: Alignment) -> Iterator[NDArray[np.float32]]:
    """The samples with the features of the model in its order, 0 for those that are missing."""
    rows = Aligned(X, alignment.order, np.zeros(len(alignment.order), np.float32))
    for begin in range(0, len(X), ROWS):
        yield from rows[slice(begin, begin + ROWS)]
