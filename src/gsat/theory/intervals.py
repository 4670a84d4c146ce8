"""Confidence limits of a mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

BETS = 0.5 ** np.arange(8)
SMALLEST = -50.0  # the logarithm of the smallest share of the mean that is looked at


def mean_at_least(values: NDArray[Any], error: float) -> float:
    """A lower limit of the mean of a law on [0, ∞), from independent draws; it is wrong with probability ≤ `error`.

    Whoever bets the share b of a unit on the draws being larger than μ ends with Π_i (1 + b(v_i/μ − 1)), on average at
    most 1 if their mean is ≤ μ. So the mean wealth over several b reaches 1/error with probability ≤ error, and the
    largest μ at which it does is a limit (Markov; Waudby-Smith and Ramdas). No upper bound of the law is needed.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.min() < 0:
        raise ValueError(f"values must be >= 0, got {values.min()}")
    mean = float(values.mean())

    def excess(log_share: float) -> float:
        """Log-wealth at μ = mean·share, less what is needed."""
        with np.errstate(divide="ignore"):
            wealth = np.log1p(BETS[:, None] * (values / (mean * math.exp(log_share)) - 1)).sum(1)
        return float(special.logsumexp(wealth)) - math.log(len(BETS) / error)

    if mean == 0 or excess(SMALLEST) < 0:
        return 0.0
    return mean * math.exp(optimize.brentq(excess, SMALLEST, 0.0, xtol=1e-9))


def student(values: NDArray[Any], level: float) -> tuple[float, float]:
    """The two limits of the mean by Student's t, right for many draws of any law with a variance."""
    values = np.asarray(values, dtype=np.float64)
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)
