"""After training: whether it has converged, and by which temperature its probabilities are those of held-out rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

from gsat.training.history import Step

FEWEST = 20  # steps by which a falling loss can be told from noise
FALL = 0.05  # of the loss of a constant prediction: a fall from one fifth of the steps to the next that matters
NEAR = 0.1  # of the way from chance to no error
COLDEST, HOTTEST = 1e-3, 1e3  # temperatures
SPREAD = 0.5  # deviation of log T before any row is seen: a T between 0.4 and 2.7 is no surprise


def warn_if_falling(steps: Sequence[Step], chance: float) -> None:
    """Warn where the loss on perturbed groups still falls clearly at the end.

    The mean over the last fifth of the steps is compared with that over the fifth before: lower by more than three
    standard errors, and by more than a twentieth of the loss of a constant prediction.

    Parameters
    ----------
    steps
        What was recorded.
    chance
        The loss of a constant prediction.
    """
    fifth = len(steps) // 5
    if len(steps) < FEWEST:
        return
    before, last = (np.array([step.loss for step in part]) for part in (steps[-2 * fifth : -fifth], steps[-fifth:]))
    fall = float(before.mean() - last.mean())
    error = math.sqrt((before.var(ddof=1) + last.var(ddof=1)) / fifth)
    if fall > max(3 * error, FALL * chance):
        warnings.warn(
            f"training has not converged: the loss fell from {before.mean():.3g} to {last.mean():.3g} over the last "
            f"{2 * fifth} of {len(steps)} groups; take a larger n_outer or eta0",
            ConvergenceWarning,
            stacklevel=7,
        )


def warn_if_at_chance(predicted: NDArray[Any], truth: NDArray[Any]) -> None:
    """Warn where a classifier is hardly better than chance on rows that it was trained on.

    Parameters
    ----------
    predicted, truth
        Classes of some training rows, (n,).
    """
    classes = np.unique(truth)
    balanced = float(np.mean([(predicted[truth == one] == one).mean() for one in classes]))
    chance = 1 / len(classes)
    if len(classes) > 1 and balanced < chance + NEAR * (1 - chance):
        warnings.warn(
            f"training has not converged: the balanced accuracy on {len(truth)} training rows is {balanced:.2f}, where "
            f"chance is {chance:.2f}; take a larger n_outer, another eta0, or a smaller budget",
            ConvergenceWarning,
            stacklevel=6,
        )


def temperature(logits: NDArray[np.float64], targets: NDArray[np.int64], weights: NDArray[np.float64] | None) -> float:
    """The most probable T of softmax(logits / T): the least Σ_i CE_i(T) + (log T)²/(2·0.5²).

    The second term is a prior, log T ~ N(0, 0.5²). Where all held-out rows are right, the cross-entropy alone falls for
    ever as T goes to 0; with many rows, some of them wrong, the prior hardly counts.

    Parameters
    ----------
    logits
        Of held-out rows, (n, classes).
    targets
        Their classes, (n,).
    weights
        Of the rows, (n,), or None. The rows count as (Σw)²/Σw² together.

    Returns
    -------
    float
        T, from 0.001 to 1000.
    """
    shares = np.ones(len(targets)) if weights is None else weights / weights.max()
    n = float(shares.sum() ** 2 / np.square(shares).sum())

    def penalised(log_t: float) -> float:
        chances = log_softmax(logits / math.exp(log_t), axis=1)
        mean = -float(np.average(chances[np.arange(len(targets)), targets], weights=shares))
        return n * mean + 0.5 * (log_t / SPREAD) ** 2

    found = minimize_scalar(penalised, bounds=(math.log(COLDEST), math.log(HOTTEST)), method="bounded")
    return math.exp(float(found.x))
