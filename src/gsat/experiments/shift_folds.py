"""One fold of the real shifts: every candidate tried on left-out training batches, then on the batch held out."""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gsat import _defaults
from gsat._files import replace_file
from gsat.data import Table
from gsat.estimators.leaving_out import Fold, best_of, folds_of, judged, order_of, quarter
from gsat.experiments.plan import Piece, Place
from gsat.experiments.shift_candidates import (
    CENTRE,
    LINEAR,
    Candidate,
    Setting,
    linear,
    plain_networks,
    robust_networks,
)
from gsat.experiments.shift_choice import CANDIDATE, Methods, chosen, over_seeds
from gsat.experiments.shift_tasks import COLUMNS, Task, loaded
from gsat.experiments.shift_training import Split, predicted

CHOOSING = 0  # the seed whose trainings on inner folds choose


def first_seed(place: Place, task: Task, held_out: str, setting: Setting) -> pd.DataFrame:
    """`fold` of the data of a task; what the candidates predict of the test batch is kept beside the pieces."""
    rows, shares = fold(loaded(task, place.data_dir), task, held_out, setting)
    path = _shares(place, task, held_out)
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    np.savez_compressed(packed, shares=shares.astype(np.float16))
    replace_file(path, packed.getvalue())
    return rows


def other_seed(
    place: Place, task: Task, held_out: str, setting: Setting, seed: int, methods: Methods, first: Piece
) -> pd.DataFrame:
    """What the methods take by the inner folds of the first seed, trained with another seed and tested."""
    rows = first.run(place)
    return again(loaded(task, place.data_dir), rows, task, held_out, setting, seed, methods)


def averages(place: Place, task: Task, held_out: str, methods: Methods, first: Piece) -> pd.DataFrame:
    """What the methods predict that average instead of taking one: see `averaged`."""
    rows = first.run(place)
    with np.load(_shares(place, task, held_out)) as kept:
        shares = kept["shares"].astype(np.float64)
    outer, _ = _sides(loaded(task, place.data_dir), task, held_out)
    return averaged(rows, shares, np.unique(np.asarray(outer.train.y)), outer.y, methods)


def averaged(
    rows: pd.DataFrame, shares: NDArray[np.float64], classes: NDArray[Any], y: NDArray[Any], methods: Methods
) -> pd.DataFrame:
    """The mean of the probabilities of the best quarter of a method's candidates, three at least; a row a method.

    rows, shares: of `fold`; classes, y: the trained classes, sorted, and the labels of the tested rows
    defence, averaged, sees_batch: the method, how many candidates, and whether one of them is centred
    """
    found = []
    for method in methods.all:
        mine = method.among(rows.reset_index(drop=True))
        if mine.empty:
            continue
        best = mine.iloc[order_of(mine["inner"].to_numpy(), mine["inner_loss"].to_numpy())[: quarter(len(mine))]]
        accuracy, balanced, _ = judged(shares[best.index].mean(0), classes, y)
        found.append(
            {
                "data": rows["data"].iloc[0], "fold": rows["fold"].iloc[0], "seed": CHOOSING, "defence": method.name,
                "accuracy": accuracy, "balanced_accuracy": balanced, "averaged": len(best),
                "sees_batch": bool((best["prepare"] == CENTRE).any()),
            }
        )  # fmt: skip
    return pd.DataFrame(found)


def fold(table: Table, task: Task, held_out: str, setting: Setting) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """All candidates trained without the batch `held_out` and tested on it.

    Returns a row for each candidate, and the probabilities (candidates, n_test, classes) that they predict.

    data, fold, seed:  the task, the place of the batch among those held out (from 1), the seed of the networks
    those of `Candidate`
    inner, inner_loss: mean balanced accuracy and cross-entropy over the inner folds; nan but for the first seed
    accuracy, balanced_accuracy: on the rows of the test batch whose class was trained on
    n_train, n_test, seconds: rows, and the time of all trainings of the candidate

    The other networks have the preparation and width with which ERM is best on the inner folds, and besides, without
    preparation, the width that is best so.
    """
    outer, train = _sides(table, task, held_out)
    inner = inner_splits(train, setting.folds)
    prepares = [one for one in _defaults.PREPARATIONS if one != CENTRE or outer.batch is not None]
    plain = plain_networks(setting, prepares)
    known = {one: inner_score(one, inner, setting) for one in plain}
    candidates = list(plain)
    for base in bases(plain, np.array([known[one][:2] for one in plain])):
        candidates += robust_networks(setting, base, several=outer.batch is not None)
    candidates += linear(setting, prepares)
    rows, shares = [], []
    for one in dict.fromkeys(candidates):
        score, loss, seconds = known.get(one) or inner_score(one, inner, setting)
        row, share = _tested(one, outer, task, held_out, setting, CHOOSING)
        rows.append({**row, "inner": score, "inner_loss": loss, "seconds": row["seconds"] + seconds})
        shares.append(share)
    return pd.DataFrame(rows), np.stack(shares)


def again(
    table: Table, rows: pd.DataFrame, task: Task, held_out: str, setting: Setting, seed: int, methods: Methods
) -> pd.DataFrame:
    """The networks among what the methods take of the rows of `fold`, with another seed; a row each, without inner."""
    taken = chosen(over_seeds(rows), methods.all).drop_duplicates(CANDIDATE)
    outer, _ = _sides(table, task, held_out)
    found = [
        {**_tested(Candidate(**row), outer, task, held_out, setting, seed)[0], "inner": np.nan, "inner_loss": np.nan}
        for row in taken[CANDIDATE].to_dict("records")
        if row["family"] not in LINEAR  # which have no seed
    ]
    return pd.DataFrame(found, columns=rows.columns)


def _shares(place: Place, task: Task, held_out: str) -> Path:
    return place.work / "shares" / f"{task.name}-{task.held_out.index(held_out) + 1}.npz"


def _sides(table: Table, task: Task, held_out: str) -> tuple[Split, Table]:
    """The split by the batch that is held out, and the training rows as a table."""
    away = np.asarray(table.batch) == held_out
    if not away.any():
        raise ValueError(f"held_out must be a batch of {task.name}, got {held_out!r}")
    return Split.of(table, np.flatnonzero(~away)), table.subset(~away)


def _tested(
    one: Candidate, outer: Split, task: Task, held_out: str, setting: Setting, seed: int
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """A row of `fold` but for the inner folds, and the predicted probabilities."""
    row, share = tested(one, outer, setting, seed)
    return {"data": task.name, "fold": task.held_out.index(held_out) + 1, **row}, share


def tested(one: Candidate, outer: Split, setting: Setting, seed: int) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """A candidate trained, and tested on the rows that are left out: what was measured, and its probabilities."""
    before = time.process_time()
    share, classes = predicted(one, outer, setting, seed)
    accuracy, balanced, _ = judged(share, classes, outer.y)
    row = {
        "seed": seed, **asdict(one),
        "accuracy": accuracy, "balanced_accuracy": balanced, "n_train": len(outer.train), "n_test": len(outer.y),
        "seconds": time.process_time() - before,
    }  # fmt: skip
    return row, share


def inner_folds(y: NDArray[Any], batch: NDArray[Any], group: NDArray[Any] | None, n_folds: int) -> list[Fold]:
    """Training batches that are left out in turn, or random folds where none can be, people and places whole."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is one batch is said of the task
        return folds_of(y, batch, cv="batches", n_folds=n_folds, seed=CHOOSING, group=group)


def inner_splits(train: Table, n_folds: int, *, most: int = COLUMNS) -> list[Split]:
    """The splits of `inner_folds`."""
    found = inner_folds(np.asarray(train.y), np.asarray(train.batch), train.group, n_folds)
    return [Split.of(train, rows, most=most) for rows, _ in found]


def bases(plain: Sequence[Candidate], scores: NDArray[np.float64]) -> list[Candidate]:
    """The best of the networks without preparation, and the best of all; scores: balanced accuracy and loss of each."""
    bare = [place for place, one in enumerate(plain) if one.prepare == "none"]
    first = bare[best_of(scores[bare, 0], scores[bare, 1])]
    return [plain[place] for place in dict.fromkeys((first, best_of(scores[:, 0], scores[:, 1])))]


def inner_score(one: Candidate, splits: Sequence[Split], setting: Setting) -> tuple[float, float, float]:
    """Mean balanced accuracy and cross-entropy over the inner folds, and the seconds it took."""
    before = time.process_time()
    found = np.array([judged(*predicted(one, split, setting, CHOOSING), split.y)[1:] for split in splits])
    return float(found[:, 0].mean()), float(found[:, 1].mean()), time.process_time() - before
