"""Tables of the real shifts: means, paired differences, hindsight and ranks, with batches and sets as units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from gsat.experiments.paired import EQUAL, LEVEL, summed_up, with_wins

ALL_SETS = "all sets"


def by_fold(taken: pd.DataFrame, value: str = "balanced_accuracy") -> pd.DataFrame:
    """Percent, a row per task and fold, a column per method, in their order."""
    wide = taken.pivot(index=["data", "fold"], columns="defence", values=value).astype(float)
    return 100 * wide.loc[list(dict.fromkeys(zip(taken["data"], taken["fold"], strict=True))), _methods(taken)]


def by_set(taken: pd.DataFrame, value: str = "balanced_accuracy") -> pd.DataFrame:
    """The means over the folds of a task, a row per task."""
    return by_fold(taken, value).groupby("data", sort=False).mean()


def over_sets(taken: pd.DataFrame, again: Iterable[str] = (), value: str = "balanced_accuracy") -> pd.Series:
    """The mean of each method over the tasks, without those of `again`; nan where it was not tried on all of them."""
    return _units(by_set(taken, value), again).mean(skipna=False)


def summary(taken: pd.DataFrame, again: Iterable[str] = (), value: str = "balanced_accuracy") -> pd.DataFrame:
    """Percent, mean ± standard deviation over the folds; a row per method, a column per task.

    mean:        over the tasks, without those of `again`, whose people another task has
    candidates:  that the method chose from, at the most
    sees batch:  in how many folds of all it is centred, and saw the unlabelled samples of the test batch
    """
    grouped = by_fold(taken, value).groupby("data", sort=False)
    mean, spread = grouped.mean().T, grouped.std(ddof=1).T
    cells = mean.round(1).astype(str) + " ± " + spread.round(1).astype(str)
    cells = cells.where(spread.notna(), mean.round(1).astype(str)).where(mean.notna(), "")
    overall = over_sets(taken, again, value)
    methods = taken.groupby("defence", sort=False)
    seeing = methods["sees_batch"].sum().astype(int).astype(str) + " of " + methods.size().astype(str)
    return cells.assign(
        mean=overall.round(1).astype(str).where(overall.notna(), ""),
        candidates=methods["candidates"].max(),
        **{"sees batch": seeing.where(methods["sees_batch"].any(), "")},
    )


def differences(
    taken: pd.DataFrame, ours: Iterable[str], baselines: Sequence[str], again: Iterable[str] = ()
) -> pd.DataFrame:
    """Paired differences in points of percent, ours less the baseline.

    In the rows "all sets" the units are the tasks, each with its mean over folds, without those of `again`. In the rows
    of a task the units are its folds, never the seeds. Holm's rule holds for each of these two families by itself.
    Folds of a task share training rows, so that their errors are rather too small.
    """
    folds, again = by_fold(taken), tuple(again)
    over, within = [], []
    for our in (name for name in ours if name in folds):
        for baseline in (name for name in baselines if name in folds and name != our):
            gap = (folds[our] - folds[baseline]).dropna()
            pair = {"ours": our, "baseline": baseline}
            sets = _units(gap.groupby("data", sort=False).mean().to_frame(), again).iloc[:, 0]
            over.append({"case": ALL_SETS, **pair, **_of_units(sets)})
            within += [{"case": str(name), **pair, **_of_units(part)} for name, part in gap.groupby("data", sort=False)]
    return pd.concat([with_wins(over), with_wins(within)], ignore_index=True)


def best_baseline(taken: pd.DataFrame, baselines: Iterable[str], again: Iterable[str] = ()) -> str:
    """The baseline with the best mean over the sets, on the test batches: a hard one to beat."""
    means = over_sets(taken, again)
    return str(means[[name for name in baselines if name in means]].idxmax())


def hindsight(taken: pd.DataFrame, again: Iterable[str] = ()) -> pd.DataFrame:
    """What choosing costs, in percent over the sets: what was chosen, the best of the candidates on the test batch.

    With one seed, since not all candidates are tested with more.
    """
    taken_means, best = (over_sets(taken, again, value) for value in ("first", "hindsight"))
    found = pd.DataFrame({"chosen": taken_means, "in hindsight": best, "lost by choosing": best - taken_means})
    return found.rename_axis("defence").reset_index()


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of methods over the sets, the best first, and the difference that matters."""

    means: pd.Series
    difference: float
    sets: int


def ranks(taken: pd.DataFrame, methods: Sequence[str], again: Iterable[str] = ()) -> Ranks:
    """Mean rank of each method (1: the best; equal ones share) and Nemenyi's critical difference at 5 %.

    With k methods on N sets it is q·sqrt(k·(k + 1)/6N), q the 95 % point of the studentised range of k, over √2.
    """
    scores = _units(by_set(taken), again)[[name for name in methods if name in set(taken["defence"])]].dropna(axis=1)
    n, k = scores.shape
    places = (-scores.div(EQUAL).round()).rank(axis=1)
    q = stats.studentized_range.ppf(LEVEL, k, np.inf) / 2**0.5
    return Ranks(places.mean().sort_values(kind="stable"), float(q * (k * (k + 1) / (6 * n)) ** 0.5), n)


def _methods(taken: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(taken["defence"]))


def _units(sets: pd.DataFrame, again: Iterable[str]) -> pd.DataFrame:
    """The tasks that count; where all are of `again`, all of them."""
    kept = sets[~sets.index.isin(list(again))]
    return sets if kept.empty else kept


def _of_units(gap: pd.Series) -> dict[str, Any]:
    counts = {"units": len(gap), "better": int((gap > EQUAL).sum()), "worse": int((gap < -EQUAL).sum())}
    return {**summed_up(gap), **counts}
