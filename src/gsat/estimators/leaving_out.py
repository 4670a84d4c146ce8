"""How candidates do on training batches that are left out: the folds, and the scores of all candidates on them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Integral
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from tqdm.auto import tqdm

from gsat import _checks
from gsat.data.rows import some_rows
from gsat.estimators.kept import Kept, Score

EQUAL = 1e-9  # scores that differ by less are equal
LEAST = 1e-12  # of a probability, in a logarithm
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]  # rows to train on, rows that are left out


def folds_of(
    y: NDArray[Any], batch: NDArray[Any] | None, *, cv: Any, n_folds: int, seed: Any, group: NDArray[Any] | None = None
) -> list[Fold]:
    """Rows to train on and rows to test on, for each batch or random fold that is left out.

    Parameters
    ----------
    y, batch
        Labels and batches (n,); batch may be None.
    cv
        "batches", or a number of random folds.
    n_folds
        Batches at the most, the largest first; the number of random folds where no two batches can be left out.
    seed
        Of random folds.
    group
        Rows that belong together (n,), as those of one person: a random fold has all of them or none. None: each row.

    Returns
    -------
    list of pairs
        A batch is left out where it holds two classes that the others have; its rows of other classes are not tested.
    """
    n_folds = _checks.count("n_folds", n_folds, least=1)
    if isinstance(cv, str):
        _checks.one_of("cv", cv, ("batches",))
    else:
        return _random(y, _checks.count("cv", cv, least=2), seed, group)
    found: list[Fold] = []
    names, counts = np.unique(batch, return_counts=True) if batch is not None else (np.empty(0), np.empty(0))
    for name in names[np.argsort(-counts, kind="stable")] if len(names) > 1 else ():
        away = batch == name
        test = np.flatnonzero(away & np.isin(y, y[~away]))
        if len(np.unique(y[test])) > 1 and len(np.unique(y[~away])) > 1 and len(found) < n_folds:
            found.append((np.flatnonzero(~away), test))
    if found:
        return found
    warnings.warn(
        f"no batch can be left out ({'no batches are given' if batch is None else f'{len(names)} given'}): random "
        "samples are, and nothing is known about a next batch",
        UserWarning,
        stacklevel=3,
    )
    return _random(y, max(2, n_folds), seed, group)


def _random(y: NDArray[Any], n_folds: int, seed: Any, group: NDArray[Any] | None) -> list[Fold]:
    least = int(np.unique(y, return_counts=True)[1].min())
    seed = int(seed) if isinstance(seed, Integral) else 0
    kind = StratifiedKFold if group is None else StratifiedGroupKFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class with fewer samples than folds
        split = kind(min(n_folds, max(2, least)), shuffle=True, random_state=seed)
        return [(train, test[np.isin(y[test], y[train])]) for train, test in split.split(np.zeros(len(y)), y, group)]


def order_of(accuracy: NDArray[np.float64], loss: NDArray[np.float64]) -> NDArray[np.intp]:
    """The places by accuracy (n,), the best first, of equals by the least loss (n,), of equals the first."""
    return np.lexsort((loss, np.round(-accuracy / EQUAL)))


def best_of(accuracy: NDArray[np.float64], loss: NDArray[np.float64]) -> int:
    """The first place of `order_of`."""
    return int(order_of(accuracy, loss)[0])


def quarter(n: int) -> int:
    """How many of n candidates are averaged: a quarter of them, but three where there are as many."""
    return min(n, max(3, round(n / 4)))


@dataclass(frozen=True)
class Scores:
    """Balanced accuracy, mean cross-entropy and seconds of candidates on folds, (candidates, folds) each."""

    accuracy: NDArray[np.float64]
    loss: NDArray[np.float64]
    seconds: NDArray[np.float64]

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean balanced accuracy of each candidate."""
        return np.asarray(self.accuracy.mean(axis=1))

    def best(self, among: Sequence[int] | None = None) -> int:
        """The candidate of the best mean accuracy, of equals that of the least loss, of equals the first."""
        return self.leading("best", among)[0]

    def leading(self, combine: str, among: Sequence[int] | None = None) -> list[int]:
        """Those that predict together, the best first: for "average" the best quarter of them, three at least."""
        places = np.arange(len(self.mean)) if among is None else np.asarray(among)
        order = places[order_of(self.mean[places], self.loss.mean(axis=1)[places])]
        return [int(place) for place in order[: quarter(len(order)) if combine == "average" else 1]]

    def joined(self, other: Scores) -> Scores:
        """Both, one after the other."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("accuracy", "loss", "seconds"))
        return Scores(*(np.concatenate(pair) for pair in pairs))

    def table(self, params: list[dict[str, Any]]) -> dict[str, Any]:
        """The results as scikit-learn's cv_results_."""
        names = dict.fromkeys(name for one in params for name in one)
        ranks = np.unique(np.round(-self.mean / EQUAL), return_inverse=True)[1]
        return {
            **{f"param_{name}": _column(params, name) for name in names},
            "params": params,
            **{f"split{i}_test_score": column for i, column in enumerate(self.accuracy.T)},
            "mean_test_score": self.mean,
            "std_test_score": self.accuracy.std(axis=1),
            "rank_test_score": np.array([1 + (ranks < rank).sum() for rank in ranks], dtype=np.int32),
            "mean_test_loss": self.loss.mean(axis=1),
            "mean_fit_time": self.seconds.mean(axis=1),
            "std_fit_time": self.seconds.std(axis=1),
        }


def _column(params: list[dict[str, Any]], name: str) -> Any:
    """One parameter of all candidates, masked where a candidate has none."""
    missing = [name not in one for one in params]
    return np.ma.MaskedArray([one.get(name) for one in params], mask=missing, dtype=object)


def scored(
    candidates: Sequence[Any],
    X: Any,
    y: NDArray[Any],
    batch: NDArray[Any] | None,
    folds: list[Fold],
    n_jobs: Any = None,
    *,
    groups: Any = None,
    kept: Kept | None = None,
    progress: bool = False,
) -> Scores:
    """Every candidate trained without each fold and tested on it.

    Parameters
    ----------
    candidates
        Unfitted classifiers with fit(X, y, batch=, groups=) and predict_proba(X, batch).
    X, y, batch
        Samples, labels and batches.
    folds
        As `folds_of` gives them.
    n_jobs
        As in joblib.
    groups
        Rows that candidates hold out together, (n,); or None.
    kept
        Scores that are known and are not found again; new ones are added, each when it is there.
    progress
        Whether to show a bar.

    Returns
    -------
    Scores
        In the order of candidates and folds.
    """
    places = list(product(range(len(candidates)), range(len(folds))))
    keys = {
        (i, j): f"{i} {j}" if kept is None else kept.key(candidates[i], y, batch, groups, folds[j]) for i, j in places
    }
    kept = Kept() if kept is None else kept
    calls = [
        joblib.delayed(_one)((i, j), candidates[i], X, y, batch, groups, *folds[j])
        for i, j in places
        if keys[i, j] not in kept.scores
    ]
    done = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls)
    for place, score in tqdm(done, total=len(calls), disable=not progress, desc="candidates", unit="training"):
        kept.add(keys[place], score)
    found = np.array([kept.scores[keys[place]] for place in places], dtype=np.float64)
    return Scores(*found.reshape(len(candidates), len(folds), 3).transpose(2, 0, 1))


def _one(
    place: tuple[int, int],
    candidate: Any,
    X: Any,
    y: NDArray[Any],
    batch: NDArray[Any] | None,
    groups: NDArray[Any] | None,
    train: NDArray[Any],
    test: NDArray[Any],
) -> tuple[tuple[int, int], Score]:
    """The place, and balanced accuracy, cross-entropy as the mean over classes, and seconds."""
    batches, together = (
        {} if ids is None else {name: ids[train]} for name, ids in (("batch", batch), ("groups", groups))
    )
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to say of a training is said of the winner's
        model = clone(candidate).fit(some_rows(X, train), y[train], **batches, **together)
    seconds = time.perf_counter() - begun
    share = model.predict_proba(some_rows(X, test), None if batch is None else batch[test])
    _, accuracy, entropy = judged(share, model.classes_, y[test])
    return place, (accuracy, entropy, seconds)


def judged(share: NDArray[np.float64], classes: NDArray[Any], y: NDArray[Any]) -> tuple[float, float, float]:
    """How good predicted probabilities are.

    Parameters
    ----------
    share, classes
        Probabilities (n, classes) and the classes, sorted.
    y
        The labels (n,), all among the classes.

    Returns
    -------
    accuracy, balanced, loss
        The share of samples whose class is the most probable; its mean over the classes of y; the cross-entropy, as the
        mean over these classes too.
    """
    truth = np.searchsorted(classes, y)
    right = share.argmax(axis=1) == truth
    loss = -np.log(np.maximum(share[np.arange(len(truth)), truth], LEAST))
    sizes = np.bincount(truth)
    there = sizes > 0
    balanced, entropy = (float(np.mean(np.bincount(truth, each)[there] / sizes[there])) for each in (right, loss))
    return float(right.mean()), balanced, entropy
