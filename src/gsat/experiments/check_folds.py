"""The trainings of `check` as pieces: candidates on left-out training batches, what was taken on the tested one."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gsat import _defaults
from gsat.estimators.candidates import single_batch
from gsat.experiments.check_subject import Subject
from gsat.experiments.plan import Place
from gsat.experiments.shift_candidates import CENTRE, LINEAR, Candidate, Setting
from gsat.experiments.shift_folds import CHOOSING, inner_folds, inner_score, inner_splits
from gsat.experiments.shift_folds import tested as test_of
from gsat.experiments.shift_training import Split, predicted
from gsat.training.threads import use_threads

STEPS = (2, 12)  # groups of the trainings that are timed: the difference is what ten groups take
SLOW = "group-sparse"  # the structure whose trainings take longest


@dataclass(frozen=True)
class Sides:
    """One unit left out: the outer split, and those of its training rows."""

    outer: Split
    inner: list[Split]


_kept: dict[tuple[str, str, int], Sides] = {}  # of one unit, since its pieces follow each other


def sides(subject: Subject, tested: str, folds: int) -> Sides:
    """The splits of a unit; what is prepared and learnt in them is kept until another unit is asked for."""
    key = (subject.identity, tested, folds)
    if key not in _kept:
        _kept.clear()
        train = training_rows(subject, tested)
        left = np.flatnonzero((subject.units == tested) | np.isin(np.arange(len(subject.units)), train))
        table = subject.table.subset(left)
        outer = Split.of(table, np.flatnonzero(subject.units[left] != tested), most=subject.features)
        inner = inner_splits(subject.table.subset(train), folds, most=subject.features)
        _kept[key] = Sides(outer, inner)
    return _kept[key]


def training_rows(subject: Subject, tested: str) -> NDArray[np.intp]:
    """The rows of all other units, but for those of groups that have rows in this one."""
    away, group = subject.units == tested, subject.table.group
    return np.flatnonzero(~away if group is None else ~away & ~np.isin(group, group[away]))


def preparations(subject: Subject, tested: str, folds: int) -> list[str]:
    """Those that can be chosen for a unit, by its training rows.

    Centring is one of them where training batches are left out, and each batch has several samples.
    """
    train = training_rows(subject, tested)
    y, batch = np.asarray(subject.table.y)[train], np.asarray(subject.table.batch)[train]
    group = None if subject.table.group is None else subject.table.group[train]
    found = inner_folds(y, batch, group, folds)
    by_batch = all(not np.isin(batch[rows], batch[away]).any() for rows, away in found)
    several = len(np.unique(batch)) > 1 and single_batch(batch) is None
    return [one for one in _defaults.PREPARATIONS if one != CENTRE or (by_batch and several)]


def tried(place: Place, data: str, tested: str, setting: Setting, candidates: list[dict[str, Any]]) -> pd.DataFrame:
    """Candidates on left-out training batches, never on the tested one; `data` is the identity of the subject."""
    splits = sides(place.subject, tested, setting.folds).inner
    rows = []
    for one in candidates:
        score, loss, seconds = inner_score(Candidate(**one), splits, setting)
        rows.append({**one, "inner": score, "inner_loss": loss, "seconds": seconds})
    return pd.DataFrame(rows)


def taken(
    place: Place, data: str, tested: str, setting: Setting, seed: int, candidates: list[dict[str, Any]]
) -> pd.DataFrame:
    """Candidates trained on all other units, and tested on this one; `missed` names the classes never recognised."""
    outer = sides(place.subject, tested, setting.folds).outer
    rows = []
    for one in candidates:
        row, share = test_of(Candidate(**one), outer, setting, seed)
        rows.append({**row, "missed": missed(share, outer)})
    return pd.DataFrame(rows)


def missed(share: NDArray[np.float64], split: Split) -> str:
    """The classes of which no tested sample is recognised, by probabilities (n, classes)."""
    named = np.unique(np.asarray(split.train.y))[share.argmax(axis=1)]
    return ", ".join(str(one) for one in np.unique(split.y) if not (named[split.y == one] == one).any())


@dataclass(frozen=True)
class Speed:
    """Seconds of trainings: of logistic regression, of a network before its first group, and of a group.

    slow: of a group with the slowest structure
    """

    linear: float
    begin: float
    group: float
    slow: float

    def of(self, one: Candidate, setting: Setting) -> float:
        """Seconds of one training of a candidate, and of its test."""
        if one.family in LINEAR:
            return self.linear
        length = one.strength if one.family == "erm" else 1.0
        return self.begin + length * setting.n_outer * (self.slow if one.family == SLOW else self.group)

    @classmethod
    def measured(cls, subject: Subject, setting: Setting) -> Speed:
        """By small trainings without the first tested unit, on one thread as all trainings are."""
        threads = use_threads(None)
        use_threads(1)
        try:
            return cls._on_one_thread(subject, setting)
        finally:
            use_threads(threads)

    @classmethod
    def _on_one_thread(cls, subject: Subject, setting: Setting) -> Speed:
        outer = sides(subject, subject.tested[0], setting.folds).outer
        spent = []
        for family in ("low-rank", SLOW):
            one = Candidate(family, setting.budgets[0], hidden=max(setting.hidden))
            spent += [_seconds(one, outer, setting, steps) for steps in (1, *STEPS)][1:]  # the first imports
        each = [max(long - short, 1e-3) / (STEPS[1] - STEPS[0]) for short, long in (spent[:2], spent[2:])]
        return cls(_seconds(Candidate("logistic", setting.cs[-1]), outer, setting, 1), spent[0], *each)


def _seconds(one: Candidate, split: Split, setting: Setting, n_outer: int) -> float:
    begun = time.perf_counter()
    predicted(one, split, replace(setting, n_outer=n_outer), CHOOSING)
    return time.perf_counter() - begun
