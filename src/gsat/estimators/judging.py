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

FEWEST = 20  # steps from which on the means of two fifths can be compared
LINE = 4  # steps through which a line is drawn at the least, where there are as many
FALL = 0.05  # of the loss of a constant prediction: a fall from one fifth of the steps to the next that matters
NEAR = 0.1  # of the way from chance to no error
COLDEST, HOTTEST = 1e-3, 1e3  # temperatures
SPREAD = 0.5  # deviation of log T before any row is seen: a T between 0.4 and 2.7 is no surprise


def warn_if_falling(steps: Sequence[Step], chance: float) -> None:
    """Warn where the loss on perturbed groups still falls clearly at the end.

    The mean over the last fifth of the steps is compared with that over the fifth before: lower by more than three
    standard errors, and by more than a twentieth of the loss of a constant prediction. Fewer than 20 steps: the line
    through their last half falls by more than two standard errors, and so steeply that as many steps again would lower
    the loss by more than that twentieth.

    Parameters
    ----------
    steps
        What was recorded.
    chance
        The loss of a constant prediction.
    """
    n, losses = len(steps), np.array([step.loss for step in steps])
    if n < FEWEST:
        before, last, over, falls = _few(losses, chance)
    else:
        fifth = n // 5
        parts = losses[-2 * fifth : -fifth], losses[-fifth:]
        (before, last), over = (float(part.mean()) for part in parts), 2 * fifth
        error = math.sqrt(sum(part.var(ddof=1) for part in parts) / fifth)
        falls = before - last > max(3 * error, FALL * chance)
    if falls:
        warnings.warn(
            f"training has not converged: the loss fell from {before:.3g} to {last:.3g} over the last {over} of {n} "
            "groups; take a larger n_outer or eta0",
            ConvergenceWarning,
            stacklevel=7,
        )


def _few(losses: NDArray[np.float64], chance: float) -> tuple[float, float, int, bool]:
    """The loss at both ends of the line through the last half of few steps, their number, and whether it falls."""
    n = len(losses)
    over = min(n, max(LINE, (n + 1) // 2))
    if over < 3:
        return 0.0, 0.0, over, False
    place, tail = np.arange(over) - (over - 1) / 2, losses[-over:]
    slope = float(place @ tail / (place @ place))
    line = tail.mean() + slope * place
    error = math.sqrt(np.square(tail - line).sum() / (over - 2) / (place @ place))
    return float(line[0]), float(line[-1]), over, -slope > max(2 * error, FALL * chance / n)


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
