"""What a run of `gsat train` found out: metrics.json and predictions.csv, and what the user is warned of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from gsat import _defaults
from gsat.data import Table
from gsat.data.holding import HeldOut
from gsat.estimators.average import AverageClassifier
from gsat.estimators.from_table import Trained, predictable_rows, samples
from gsat.estimators.judged import INTERVALS, calibration, judged, of_one_class
from gsat.estimators.judging import NEAR
from gsat.estimators.logistic import Logistic

CHANCE = 0.05  # of a difference as large between two models that are as good
SHOWN = 10  # names in a sentence
STILL = 1e-3  # of the budget: a group that moved less did not move
WORDS = {
    "erm": "plain training, without an adversary",
    "linear": "logistic regression with little weight where samples of a class differ",
    "lda": "linear discriminant analysis with a shrunk covariance",
    "fgm": "adversarial training, one gradient step for each sample",
    "fgsm": "adversarial training, one signed gradient step for each sample",
    "pgd": "adversarial training, each sample moved on its own",
    "universal-at": "adversarial training against one shift, found in one gradient step",
    "universal": "robust training against shifts that many samples share",
    "universal-one": "robust training against one shift of all samples",
    "group-sparse": "robust training against shifts of a few features",
    "low-rank": "robust training against low-rank shifts",
    "unstructured": "robust training, each sample moved on its own",
}


@dataclass(frozen=True)
class Findings:
    """What a run found out.

    Parameters
    ----------
    metrics
        The content of metrics.json.
    predictions
        The table of predictions.csv, a row for each test sample that could be predicted.
    not_tested
        Why some test samples were not, or None.
    """

    metrics: dict[str, Any]
    predictions: pd.DataFrame
    not_tested: str | None


def examine(trained: Trained, table: Table, held_out: HeldOut, source: Any, told: list[str]) -> Findings:
    """Judge a trained model and logistic regression beside it, on the training and on the test rows.

    Parameters
    ----------
    trained
        The model, with its plan.
    table
        The samples with the split that it was trained by.
    held_out
        What is kept for the test.
    source
        The `gsat.data.source.Source` of the table.
    told
        What the user was warned of before, which is kept with what is found here.

    Returns
    -------
    Findings
        The content of metrics.json and predictions.csv.
    """
    classifier, plan = trained.predictor, trained.plan
    if table.sample_ids is None:
        table = replace(table, sample_ids=tuple(range(len(table))))  # the row of the file
    classes, train = classifier.classes_, table.train
    there = predictable_rows(table.test, classifier, per_batch=plan.per_batch)
    known = np.isin(np.asarray(there.y), classes)
    mine = there.batch if plan.per_batch else None
    own = train.batch if plan.per_batch else None
    flat, flat_test = (each.flat for each in (train, there))

    trained_on = classifier.predict(samples(train), own)
    chances = classifier.predict_proba(samples(there), mine) if len(there) else np.empty((0, len(classes)))
    predicted = classes[chances.argmax(1)]
    beside = Logistic(trained.classifier)
    other = beside.fit(flat, np.asarray(train.y), own) if known.any() else None
    alike = predicted[:0] if other is None else other.predict(flat_test, mine)

    truth, batches = np.asarray(there.y)[known], None if there.batch is None else there.batch[known]
    test = judged(truth, predicted[known], classes, batches)
    training = judged(np.asarray(train.y), trained_on, classes, train.batch)
    bins, error = calibration(chances.max(1, initial=0)[known], predicted[known] == truth)
    largest = classes[np.argmax([np.sum(train.y == one) for one in classes])]
    warned = [*told, *_of_training(trained, training, test, trained_on, predicted[known])]
    warned += [beside.note] if beside.note is not None else []
    warned += [] if other is None else behind(predicted[known] == truth, alike[known] == truth)
    if isinstance(classifier, AverageClassifier):
        n = len(classifier.estimators_)
        warned.append(f"{n} models predict together: features, map and training curves are those of the best of them")
    metrics = {
        "held_out": held_out.describe(),
        "data": {
            "name": Path(source.data).name,
            "label": source.label,
            "batch": source.batch,
            "n_train": len(train),
            "n_test": len(table.test),
            "n_features": int(flat.shape[1]),
        },
        "model": _model(trained),
        "counts": _counts(train, table.test, classes),
        "training": training,
        "test": test,
        "logistic": None if other is None else judged(truth, alike[known], classes, batches),
        "majority": float(np.mean(truth == largest)) if len(truth) else None,
        "calibration": bins,
        "calibration_error": error,
        "intervals": INTERVALS,
        "warnings": warned,
    }
    frame = {
        "id": list(there.sample_ids or ()),
        "batch": None if there.batch is None else there.batch,
        "label": there.y,
        "predicted": predicted,
        "probability": chances.max(1, initial=0).round(6),
        "logistic": None if other is None else alike,
    }
    return Findings(metrics, pd.DataFrame(frame), _not_tested(len(table.test), len(there), int(known.sum())))


def _model(trained: Trained) -> dict[str, Any]:
    """The defence, what it is in words, and its size by its name; of an average, those of its best member."""
    plan = trained.plan
    attacked = plan.defence.removeprefix("structured-")
    words = WORDS.get(plan.defence) or f"adversarial training with the attack {attacked}"
    if plan.defence == "linear" and (plan.metric is None or plan.gamma == 0):
        words = "logistic regression"
    if isinstance(trained.predictor, AverageClassifier):
        words = f"the average of {len(trained.predictor.estimators_)} models, the best of them {words}"
    names = {"linear": "C", "lda": "shrinkage", "erm": None, **dict.fromkeys(_defaults.STRUCTURES, "budget")}
    size = names.get(plan.defence, "eps")
    prepare = {} if plan.prepare == "none" else {"prepare": plan.prepare}
    return {"defence": plan.defence, "words": words, **({} if size is None else {size: plan.size}), **prepare}


def _counts(train: Table, test: Table, classes: NDArray[Any]) -> dict[str, Any]:
    """How many samples of each class each batch has on both sides."""
    sides = {"train": train, "test": test}
    batches = np.array(["all"])
    if train.batch is not None and test.batch is not None:
        batches = np.unique(np.concatenate([train.batch, test.batch]))
    found: dict[str, Any] = {
        "classes": [str(name) for name in classes.tolist()],
        "batches": [str(name) for name in batches.tolist()],
    }
    for name, side in sides.items():
        batch = np.full(len(side), "all") if side.batch is None else side.batch
        y = np.asarray(side.y)
        found[name] = [[int(np.sum((batch == one) & (y == label))) for label in classes] for one in batches]
    return found


def _of_training(
    trained: Trained, training: Any, test: Any, on_training: NDArray[Any], on_test: NDArray[Any]
) -> list[str]:
    """What makes the training itself doubtful."""
    found = []
    balanced, chance = training["balanced_accuracy"]["value"], 1 / len(trained.classifier.classes_)
    if balanced < chance + NEAR * (1 - chance):
        found.append(
            f"training accuracy is near chance: balanced {balanced:.1%}, where chance is {chance:.1%}; nothing was "
            "learnt: take a larger --n-outer or --eta0, or a smaller --budget"
        )
    for what, predicted, truth in (("training", on_training, training), ("test", on_test, test)):
        if truth is None:
            continue
        there = [each["class"] for each in truth["per_class"] if each["n"] > 0]
        if len(there) == 1:
            told = of_one_class(there[0], len(predicted), what)
            found.append(f"{told}; hold out samples of several classes (--test-batch, --test-fraction)")
        elif len(np.unique(predicted)) == 1:
            found.append(f"one class is predicted for all {len(predicted)} {what} samples: {predicted[0]}")
        else:
            found += never_recognised(truth["per_class"], what)
    defence, steps = trained.plan.defence, trained.history.steps
    if defence not in ("erm", "linear", "lda") and trained.plan.size > 0 and steps:
        least = STILL * trained.plan.size * trained.classifier.mean_norm_
        still = float(np.mean([step.mean_norm < least for step in steps]))
        if still > 0.5:
            found.append(
                f"the adversary moved nothing in {still:.0%} of the groups: this is mostly ERM (plain training); take "
                "a larger --budget, or another --defence"
            )
    return found


def never_recognised(per_class: list[dict[str, Any]], what: str) -> list[str]:
    """What to say where a model recognises no sample of some class that is there.

    Parameters
    ----------
    per_class
        For each class its name, its number of samples and its recall, as in metrics.json.
    what
        "training" or "test": which samples.

    Returns
    -------
    list of str
        One sentence or none.
    """
    missed = [each for each in per_class if each["n"] > 0 and each["recall"]["value"] == 0]
    if not missed:
        return []
    names = ", ".join(f"{each['class']} (0 of {each['n']})" for each in missed[:SHOWN])
    more = f" and {len(missed) - SHOWN} more" if len(missed) > SHOWN else ""
    classes = "class" if len(missed) == 1 else "classes"
    return [f"the model recognises no sample of {classes} {names}{more} among the {what} samples"]


def behind(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> list[str]:
    """What to say where logistic regression is right on more test samples, by more than chance (sign test, 5 %).

    Parameters
    ----------
    ours, theirs
        On which test samples (n,) the model and logistic regression are right.

    Returns
    -------
    list of str
        One sentence or none.
    """
    ahead, only = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    if only <= ahead or stats.binomtest(only, only + ahead).pvalue >= CHANCE:
        return []
    return [
        f"logistic regression is better on the test samples: it alone is right on {only} of them, this model alone on "
        f"{ahead}; `gsat check` tells which to use, --defence linear --metric none trains it"
    ]


def _not_tested(n_test: int, n_there: int, n_known: int) -> str | None:
    reasons = {
        "alone in their batch, which cannot be centred": n_test - n_there,
        "of classes that are not among the training samples": n_there - n_known,
    }
    return "; ".join(f"{count} samples {why}" for why, count in reasons.items() if count) or None
