"""What `check` works on: samples, what is left out in turn, and what a reader of the result must know of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gsat.data import Table
from gsat.data.doubts import of_samples
from gsat.data.rows import StoredRows, some_rows
from gsat.data.table import content_checksum
from gsat.estimators.leaving_out import folds_of
from gsat.experiments.shift_tasks import fit_to_test

FEW = 5  # samples of a batch that is left out, or of a class, below which an accuracy says nothing
FOLDS = 5  # random folds, where there are no batches
SHOWN = 6  # names in a sentence
NUMBERS, EACH = 20, 10  # distinct numbers, and samples of each on average: more and fewer are measurements
ONLY_ONE = "nothing is known about a next batch"


@dataclass(frozen=True)
class Limits:
    """The most that is looked at, so that an answer does not take days.

    batches:  that are left out in turn, the largest; of one batch, random folds
    samples:  drawn from every batch and class
    features: the most variable ones, by the samples that are trained on
    """

    batches: int = 8
    samples: int = 10_000
    features: int = 1000


@dataclass(frozen=True, eq=False)
class Subject:
    """Samples, and the units that are left out in turn.

    table:    samples (n, d), labels, batches as text (the same for all where there are none), and groups
    units:    what each sample is left out with, (n,): its batch, or a random fold
    tested:   those of the units that are left out, the largest first
    by_batch: whether the units are batches
    features: that are looked at, at the most
    notes:    sentences
    identity: a checksum
    """

    table: Table
    units: NDArray[np.str_]
    tested: tuple[str, ...]
    by_batch: bool
    features: int
    notes: tuple[str, ...]
    identity: str

    def counts(self) -> pd.DataFrame:
        """Samples of each class in each batch, or random fold."""
        found = pd.crosstab(pd.Series(self.units, name="batch"), pd.Series(np.asarray(self.table.y), name="class"))
        return found.rename(columns=str)


def subject_of(table: Table, limits: Limits, seed: int = 0) -> Subject:
    """The samples of a table as they are checked; a ValueError where no answer could be had from them."""
    y = _labels(table)
    n, d = len(table), math.prod(table.X.shape[1:])
    _refuse_gaps(table)
    looked = [f"{one[0].upper()}{one[1:]}." for one in of_samples(table)] if table.X.ndim == 2 else []
    batch = np.zeros(n, "U1") if table.batch is None else _batches(table.batch)
    kept = thinned(y, batch, limits.samples, seed)
    y, batch = y[kept], batch[kept]
    X = some_rows(table.flat, kept)
    X = X if isinstance(X, StoredRows) else np.ascontiguousarray(X, dtype=np.float32)
    table = replace(
        table, X=X, y=y, batch=batch, group=None if table.group is None else table.group[kept],
        split=None, shift=None, feature_names=None, sample_ids=None,
    )  # fmt: skip
    notes = [*looked, *drawn(len(kept), n)]
    if d > limits.features and table.feature_groups is None:
        notes.append(
            f"The {limits.features:,} most variable of {d:,} features are looked at, by the samples that are trained "
            "on; gsat train takes all."
        )
    several = len(np.unique(batch)) > 1
    units = batch if several else _random_folds(table, seed)
    if several:
        tested, more = _tested_batches(table, limits.batches)
    else:
        tested, more = tuple(np.unique(units).tolist()[: limits.batches]), []
        told = "all samples are of one batch" if batch[0] else "no batches are given"
        more.append(f"Random samples are left out, since {told}: {ONLY_ONE}.")
    notes += [*more, *_of_classes(table, units, several)]
    parts = [X, y, batch, units, *(() if table.group is None else (table.group,))]
    identity = content_checksum(*parts, np.array([limits.features]))[:20]
    return Subject(table, units, tested, several, limits.features, tuple(notes), identity)


def thinned(y: NDArray[Any], batch: NDArray[Any], most: int, seed: int) -> NDArray[np.intp]:
    """Rows, in their order: all, or about `most`, of each class in each batch its share but not fewer than 5."""
    n = len(y)
    if n <= most:
        return np.arange(n)
    cells = pd.Series(batch).str.cat(pd.Series(y).astype(str), sep="\0").to_numpy()
    rng = np.random.default_rng(seed)
    kept = []
    for name in np.unique(cells):
        rows = rng.permutation(np.flatnonzero(cells == name))
        kept.append(rows[: max(FEW, round(len(rows) * most / n))])
    return np.sort(np.concatenate(kept))


def drawn(kept: int, n: int) -> list[str]:
    """What is to be said where not all samples are looked at."""
    return [] if kept == n else [f"{kept:,} of {n:,} samples are looked at, of every batch and class."]


def listed(names: Sequence[Any]) -> str:
    """The names, of many the first ones and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(str(name) for name in names[:SHOWN]) + more


def _labels(table: Table) -> NDArray[Any]:
    """The labels, which must be classes."""
    if table.y is None:
        raise ValueError("y must hold the labels that are to be predicted, got none")
    y = np.asarray(table.y)
    if y.ndim != 1:
        raise ValueError(f"y must have one label per sample, got shape {y.shape}")
    missing = pd.isna(y)
    if missing.any():
        raise ValueError(f"y must have a label for every sample, got none for {missing.sum()} of {len(y)}")
    y = y.astype(str) if y.dtype == object else y
    distinct = np.unique(y)
    if len(distinct) < 2:
        raise ValueError(f"y must hold at least two classes, got {listed(distinct.tolist()) or 'no sample'} alone")
    if y.dtype.kind == "f" and (broken := y[y % 1 != 0]).size:
        raise ValueError(f"y must hold classes, got numbers such as {broken[0]:g}; gsat.GSATRegressor takes numbers")
    if y.dtype.kind in "iuf" and len(distinct) > NUMBERS and len(y) < EACH * len(distinct):
        raise ValueError(
            f"y must hold classes, got {len(distinct)} different numbers from {distinct[0]:g} to {distinct[-1]:g} in "
            f"{len(y)} samples, which look continuous; make classes of them, or take gsat.GSATRegressor"
        )
    if 2 * len(distinct) > len(y):
        raise ValueError(
            f"y must hold classes with several samples each, got {len(distinct)} different labels of {len(y)} samples: "
            "it looks like a column of names"
        )
    return y


def _refuse_gaps(table: Table) -> None:
    """Raise unless every sample has a batch, and all features are finite numbers, as stored ones are."""
    if table.batch is not None and (gone := pd.isna(table.batch)).any():
        raise ValueError(f"batch must have an id for every sample, got none for {gone.sum()} of {len(table)}")
    flat = table.flat
    if isinstance(flat, StoredRows):
        return
    if flat.dtype.kind not in "biuf":
        raise TypeError(f"X must hold numbers, got {flat.dtype}")
    broken = np.flatnonzero(~np.isfinite(flat.sum(axis=0, dtype=np.float64)))
    if len(broken):
        column = int(broken[0])
        name = column if table.feature_names is None else table.feature_names[column]
        rows = int((~np.isfinite(flat[:, column])).sum())
        raise ValueError(
            f"X must be finite, got {rows} samples with NaN or infinity in feature {name!r}, and {len(broken)} of "
            f"{flat.shape[1]} such features; fill them, or leave these features or samples out"
        )


def _batches(batch: NDArray[Any]) -> NDArray[np.str_]:
    whole = batch.dtype.kind == "f" and not (batch % 1).any()
    found: NDArray[np.str_] = (batch.astype(np.int64) if whole else batch).astype(str)
    return found


def _random_folds(table: Table, seed: int) -> NDArray[np.str_]:
    """The random fold of each sample, 1 to 5; rows of a group are in one fold."""
    units = np.zeros(len(table), dtype="U8")
    folds = folds_of(np.asarray(table.y), None, cv=FOLDS, n_folds=FOLDS, seed=seed, group=table.group)
    for place, (train, _) in enumerate(folds, 1):
        units[np.setdiff1d(np.arange(len(table)), train)] = f"fold {place}"
    return units


def _tested_batches(table: Table, most: int) -> tuple[tuple[str, ...], list[str]]:
    """The batches that are left out in turn, and why the others are not; a ValueError where there is none."""
    y, batch = np.asarray(table.y), np.asarray(table.batch)
    names, sizes = np.unique(batch, return_counts=True)
    size = dict(zip(names.tolist(), sizes.tolist(), strict=True))
    fit = fit_to_test(table, len(names))
    large = tuple(name for name in fit if size[name] >= FEW)
    notes = []
    if single := [name for name in names.tolist() if name not in fit]:
        notes.append(
            f"Never left out, since fewer than two of its classes are in other batches: {listed(single)}. What is "
            "special to such a batch cannot be told from what is special to its class."
        )
    if tiny := [name for name in fit if size[name] < FEW]:
        notes.append(f"Never left out, with fewer than {FEW} samples: {listed(tiny)}.")
    if not large:
        raise ValueError(
            f"batch must have a batch of {FEW} samples or more with two classes that others have too, got none of "
            f"{len(names)}: batches and classes are confounded, and no accuracy on a batch never seen can be measured. "
            "Without batches random samples are left out, which says nothing about a next batch"
        )
    if len(large) > most:
        notes.append(f"Of {len(large)} batches the {most} largest are left out in turn.")
    if len(names) == 2:
        notes.append(
            "There are two batches, so that each model is trained on one: settings are chosen on random samples of it, "
            "the metric is that within classes, and no batch tells whether to centre."
        )
    tested = large[:most]
    if gone := [str(one) for one in np.unique(y) if len(np.unique(batch[y == one])) == 1]:
        notes.append(f"In a single batch, and not tested where that is left out: class {listed(gone)}.")
    return tested, notes


def _of_classes(table: Table, units: NDArray[np.str_], several: bool) -> list[str]:
    """What is to be said of small classes and of people who are in several batches."""
    names, sizes = np.unique(np.asarray(table.y), return_counts=True)
    found = []
    if small := [f"{name} ({size})" for name, size in zip(names.tolist(), sizes.tolist(), strict=True) if size < FEW]:
        found.append(f"Fewer than {FEW} samples: class {listed(small)}.")
    if several and table.group is not None:
        split = pd.Series(units).groupby(pd.Series(table.group).astype(str)).nunique()
        if n := int((split > 1).sum()):
            found.append(f"{n} groups have samples in several batches: none is trained on and tested at once.")
    return found
