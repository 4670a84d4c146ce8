"""Paired differences as every table has them: Student's interval, and wins corrected for how many were looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from gsat.theory.intervals import student

LEVEL = 0.95  # of the intervals; 1 − LEVEL is the chance that any of a table's wins is none
EQUAL = 1e-9  # points: means in another order differ by rounding


def summed_up(gaps: Iterable[float]) -> dict[str, float]:
    """The mean of the differences, its standard error, the limits of its 95 % interval, and p, all by Student's t.

    p is the chance of a mean as far from zero where there is no difference. One difference has neither interval nor p;
    differences without any spread do not tell what chance would do, and have p = 1.
    """
    values = np.asarray(list(gaps), dtype=np.float64)
    n, mean = len(values), float(values.mean())
    if n < 2:
        return {"difference": mean, **dict.fromkeys(("standard_error", "low", "high", "p"), float("nan"))}
    error = float(values.std(ddof=1)) / n**0.5
    low, high = student(values, LEVEL)
    p = 2 * float(stats.t.sf(abs(mean) / error, n - 1)) if error > EQUAL else 1.0
    return {"difference": mean, "standard_error": error, "low": low, "high": high, "p": p}


def with_wins(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Rows that hold `summed_up` as a table; `beats`: above zero, at 5 % over all rows of the table (Holm)."""
    frame = pd.DataFrame(rows)
    if frame.empty:
        return frame
    return frame.assign(beats=(holm(frame["p"].to_numpy()) < 1 - LEVEL) & (frame["difference"] > 0))


def with_verdicts(frame: pd.DataFrame) -> pd.DataFrame:
    """The table of `with_wins` with `verdict`: "better" or "worse" at 5 % over all its rows (Holm), else "level".

    Level are rows whose difference may be chance, which does not say that there is none; one seed has no verdict.
    """
    if frame.empty:
        return frame
    corrected, ahead = holm(frame["p"].to_numpy()), frame["difference"].to_numpy() > 0
    told = np.where(corrected < 1 - LEVEL, np.where(ahead, "better", "worse"), "level")
    return frame.assign(verdict=np.where(np.isnan(corrected), "", told))


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's corrected p-values: the k-th smallest of m times m − k + 1, not below the one before; NaN stays NaN."""
    corrected = np.full(len(p), np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # NaN is sorted last
    corrected[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return corrected


def in_words(row: Any, digits: int = 1) -> str:
    """'+1.2 [+0.3, +2.1]': the difference in points and its interval, where there is one."""
    limits = "" if row.low != row.low else f" [{signed(row.low, digits)}, {signed(row.high, digits)}]"
    return f"{signed(row.difference, digits)}{limits}"


def signed(value: float, digits: int = 1) -> str:
    """'+1.2'; what is rounded to zero is '+0.0', never '-0.0'."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"
