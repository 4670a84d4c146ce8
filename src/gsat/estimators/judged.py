"""How good predictions are: accuracies with intervals, by class and by batch, confusion and calibration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.95  # of all intervals
BINS = 10  # of the largest probability
INTERVALS = (
    "95 %: Wilson's for accuracies, recalls and precisions; for balanced accuracies Wilson's limits of the recalls, "
    "combined (the root of the sum of their squared distances); they hold for more samples of the same batches"
)

Interval = dict[str, float]


def wilson(right: float, n: float) -> Interval | None:
    """The share right/n with Wilson's limits; None for n = 0."""
    if n == 0:
        return None
    z = float(stats.norm.ppf((1 + LEVEL) / 2))
    p = right / n
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return {"value": p, "low": max(min(middle - half, p), 0.0), "high": min(max(middle + half, p), 1.0)}


def mean_of(recalls: list[Interval]) -> Interval:
    """The mean of independent shares p_c: m − √Σ(p_c − l_c)²/k to m + √Σ(u_c − p_c)²/k, with Wilson's limits l_c, u_c.

    The method of variance estimates recovery: unlike the delta method it has an interval where all shares are 1.
    """
    mean = math.fsum(each["value"] for each in recalls) / len(recalls)
    below = math.sqrt(math.fsum((each["value"] - each["low"]) ** 2 for each in recalls)) / len(recalls)
    above = math.sqrt(math.fsum((each["high"] - each["value"]) ** 2 for each in recalls)) / len(recalls)
    return {"value": mean, "low": max(mean - below, 0.0), "high": min(mean + above, 1.0)}


def judged(truth: NDArray[Any], predicted: NDArray[Any], classes: NDArray[Any], batch: NDArray[Any] | None) -> Any:
    """Accuracy, balanced accuracy, recall and precision of each class, accuracy of each batch, and the confusion.

    Parameters
    ----------
    truth, predicted
        Classes (n,), all of them among `classes`.
    classes
        In order, (k,).
    batch
        (n,), or None.

    Returns
    -------
    dict or None
        As JSON can hold it; None without samples. Balanced accuracies are means over the classes that are there, and
        None where one class is there: naming it always would be right on all samples.
    """
    if len(truth) == 0:
        return None
    table = confusion(truth, predicted, classes)
    names = [str(name) for name in classes.tolist()]
    found = {
        "n": len(truth),
        "accuracy": wilson(int(np.trace(table)), len(truth)),
        "balanced_accuracy": _balanced(table),
        "confusion": table.tolist(),
        "per_class": [
            {
                "class": name,
                "n": int(table[c].sum()),
                "recall": wilson(int(table[c, c]), int(table[c].sum())),
                "precision": wilson(int(table[c, c]), int(table[:, c].sum())),
            }
            for c, name in enumerate(names)
        ],
        "per_batch": [],
    }
    for one in [] if batch is None else np.unique(batch):
        rows = np.asarray(batch == one)
        mine = confusion(truth[rows], predicted[rows], classes)
        balanced = _balanced(mine)
        found["per_batch"].append(
            {
                "batch": str(one),
                "n": int(mine.sum()),
                "accuracy": wilson(int(np.trace(mine)), int(mine.sum())),
                "balanced_accuracy": None if balanced is None else balanced["value"],
            }
        )
    return found


def confusion(truth: NDArray[Any], predicted: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """How many samples of class i are predicted as j, (k, k)."""
    k = len(classes)
    pairs = np.searchsorted(classes, truth) * k + np.searchsorted(classes, predicted)
    return np.bincount(pairs, minlength=k * k).reshape(k, k).astype(np.int64)


def of_one_class(name: str, n: int, what: str) -> str:
    """What to say of an accuracy on n samples that are all of the class of this name; `what`: "test" samples."""
    return (
        f"all {n} {what} samples are of one class, {name}: always saying {name} would be right on all of them, so that "
        "this accuracy does not tell whether the model tells the classes apart"
    )


def calibration(chances: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[list[dict[str, Any]], float | None]:
    """The bins of the largest probability that hold samples, and the mean |accuracy − probability| over the samples.

    Parameters
    ----------
    chances
        The largest probability of each sample, (n,).
    right
        Whether its prediction is right, (n,).

    Returns
    -------
    list of dict, and float or None
        None for the error where there are no samples.
    """
    place = np.minimum((chances * BINS).astype(int), BINS - 1)
    bins, gap = [], 0.0
    for b in np.unique(place).tolist():
        rows = place == b
        one = {"low": b / BINS, "high": (b + 1) / BINS, "n": int(rows.sum())}
        one |= {"probability": float(chances[rows].mean()), "accuracy": float(right[rows].mean())}
        gap += one["n"] * abs(one["accuracy"] - one["probability"])
        bins.append(one)
    return bins, gap / len(chances) if len(chances) else None


def _balanced(table: NDArray[np.int64]) -> Interval | None:
    """The mean recall of the classes that are there; None of fewer than two."""
    recalls = [wilson(int(row[c]), int(row.sum())) for c, row in enumerate(table)]
    there = [each for each in recalls if each is not None]
    return mean_of(there) if len(there) > 1 else None
