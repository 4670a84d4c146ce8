"""One fold of the real shifts: every candidate tried on left-out training batches, then on the batch held out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gsat import _defaults
from gsat.data import Table
from gsat.estimators.leaving_out import best_of, folds_of
from gsat.experiments.plan import Place
from gsat.experiments.shift_candidates import CENTRE, Candidate, Setting, linear, plain_networks, robust_networks
from gsat.experiments.shift_tasks import Task, loaded
from gsat.experiments.shift_training import Split, scored

CHOOSING = 0  # the seed whose trainings on inner folds choose


def one_fold(place: Place, task: Task, held_out: str, seed: int, setting: Setting) -> pd.DataFrame:
    """`fold` of the data of a task."""
    return fold(loaded(task, place.data_dir), task, held_out, seed, setting)


def fold(table: Table, task: Task, held_out: str, seed: int, setting: Setting) -> pd.DataFrame:
    """All candidates trained without the batch `held_out` and tested on it, a row each.

    data, fold, seed:  the task, the place of the batch among those held out (from 1), the seed of the networks
    those of `Candidate`
    inner, inner_loss: mean balanced accuracy and cross-entropy over the inner folds; nan but for the first seed
    accuracy, balanced_accuracy: on the rows of the test batch whose class was trained on
    n_train, n_test, seconds: rows, and the time of all trainings of the candidate

    Linear models have no seed: they are in the rows of the first. The other networks have the preparation and width
    with which ERM is best on the inner folds, and besides, without preparation, the width that is best so.
    """
    away = np.asarray(table.batch) == held_out
    if not away.any():
        raise ValueError(f"held_out must be a batch of {task.name}, got {held_out!r}")
    outer, inner = Split.of(table, np.flatnonzero(~away)), inner_splits(table.subset(~away), setting.folds)
    prepares = [one for one in _defaults.PREPARATIONS if one != CENTRE or outer.batch is not None]
    plain = plain_networks(setting, prepares)
    known = {one: _inner(one, inner, setting) for one in plain}
    candidates = list(plain)
    for base in bases(plain, np.array([known[one][:2] for one in plain])):
        candidates += robust_networks(setting, base, several=outer.batch is not None)
    if seed == CHOOSING:
        candidates += linear(setting, prepares)
    rows = []
    for one in dict.fromkeys(candidates):
        before = time.process_time()
        accuracy, balanced, _ = scored(one, outer, setting, seed)
        seconds, score, loss = time.process_time() - before, np.nan, np.nan
        if seed == CHOOSING:
            score, loss, more = known.get(one) or _inner(one, inner, setting)
            seconds += more
        rows.append(
            {
                "data": task.name, "fold": task.held_out.index(held_out) + 1, "seed": seed, **asdict(one),
                "inner": score, "inner_loss": loss, "accuracy": accuracy, "balanced_accuracy": balanced,
                "n_train": len(outer.train), "n_test": len(outer.y), "seconds": seconds,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def inner_splits(train: Table, n_folds: int) -> list[Split]:
    """Training batches that are left out in turn, or random folds where none can be, people and places whole."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is one batch is said of the task
        y, batch = np.asarray(train.y), np.asarray(train.batch)
        found = folds_of(y, batch, cv="batches", n_folds=n_folds, seed=CHOOSING, group=train.group)
    return [Split.of(train, rows) for rows, _ in found]


def bases(plain: Sequence[Candidate], scores: NDArray[np.float64]) -> list[Candidate]:
    """The best of the networks without preparation, and the best of all; scores: balanced accuracy and loss of each."""
    bare = [place for place, one in enumerate(plain) if one.prepare == "none"]
    first = bare[best_of(scores[bare, 0], scores[bare, 1])]
    return [plain[place] for place in dict.fromkeys((first, best_of(scores[:, 0], scores[:, 1])))]


def _inner(one: Candidate, splits: Sequence[Split], setting: Setting) -> tuple[float, float, float]:
    """Mean balanced accuracy and cross-entropy over the inner folds, and the seconds it took."""
    before = time.process_time()
    found = np.array([scored(one, split, setting, CHOOSING)[1:] for split in splits])
    return float(found[:, 0].mean()), float(found[:, 1].mean()), time.process_time() - before
