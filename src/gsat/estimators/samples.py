"""What fit is given: rows, targets, weights and batches; which of the rows train and which are held out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from gsat import _checks, _defaults
from gsat.estimators.preparing import prepared
from gsat.estimators.weighted import Positions, View, sorted_by_content


@dataclass(frozen=True)
class Samples:
    """Checked samples.

    Parameters
    ----------
    X
        (n, features), dense or sparse.
    targets
        The places of the labels among the classes, or numbers, (n,).
    weights
        (n,), >= 0, or None for 1 each.
    batch
        One id for each sample, (n,), or None.
    """

    X: Any
    targets: NDArray[Any]
    weights: NDArray[np.float64] | None = None
    batch: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if self.batch is not None:
            object.__setattr__(self, "batch", np.asarray(self.batch))
        if self.batch is not None and len(self.batch) != len(self.targets):
            raise ValueError(f"batch must have one id per sample of X ({len(self.targets)}), got {len(self.batch)}")

    def prepared(self, prepare: str, normalise: str = _defaults.NORMALISE) -> Samples:
        """The same samples with X as `normalise` and `prepare` have it."""
        if prepare == "centre" and self.batch is None:
            warnings.warn(
                'prepare="centre" takes away the mean of each batch, and fit was given no batch: all samples are one',
                stacklevel=4,
            )
        return replace(self, X=prepared(self.X, prepare, self.batch, self.weights, normalise))

    @property
    def used(self) -> NDArray[np.int64]:
        """The rows of a weight above 0."""
        n = len(self.targets)
        return np.arange(n) if self.weights is None else np.flatnonzero(self.weights > 0)

    def positions(self, rows: NDArray[np.int64], group_size: int) -> Positions:
        """Where the rows stand when groups are drawn.

        Where a group holds all samples, they are in an order of their content: what is trained then depends neither on
        the order of the rows, nor on whether a row is given twice or has the weight 2.
        """
        found = Positions(rows, self._of(self.weights, rows))
        if found.size > group_size:
            return found
        beside = [self._of(column, rows).tolist() for column in (self.targets, self.batch) if column is not None]
        rows = rows[sorted_by_content(self.X[rows], *beside)]
        return Positions(rows, self._of(self.weights, rows))

    def batches(self, positions: Positions) -> View | None:
        """The batch by position, where there are batches."""
        return None if self.batch is None else View(self.batch, positions)

    @staticmethod
    def _of(column: Any, rows: NDArray[np.int64]) -> Any:
        return None if column is None else column[rows]


def checked_weights(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
    """Weights (n,) that are finite, >= 0 and not all 0; None for None."""
    if sample_weight is None:
        return None
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
    if not weights.any():
        raise ValueError("sample_weight must have a weight above 0, got zero for all samples")
    return weights


def hold_out(
    samples: Samples, *, fraction: float, batches: Any = None, by_class: bool, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows to train on, and those that are held out, in random order.

    Parameters
    ----------
    samples
        Rows of weight 0 are in neither.
    fraction
        The share that is held out.
    batches
        Ids of the batches that are held out instead, or None.
    by_class
        Whether that is the share of each class.
    seed
        Of the choice.

    Returns
    -------
    train, held
        Row numbers.
    """
    rows = np.random.default_rng(seed).permutation(samples.used)
    if batches is not None:
        away = _in_batches(samples, batches, rows)
        rule, got, more, less = "validation_batches", repr(list(batches)), "", ""
    else:
        fraction = _checks.number("validation_fraction", fraction, above=0, below=1)
        classes = samples.targets[rows] if by_class else np.zeros(len(rows))
        away = np.zeros(len(rows), bool)
        for label in np.unique(classes):
            (mine,) = np.nonzero(classes == label)
            away[mine[(np.arange(len(mine)) + 0.5) / len(mine) < fraction]] = True
        sizes = np.unique(classes, return_counts=True)[1]
        rule, got = "validation_fraction", f"{fraction:g} of {len(rows)}"
        more, less = f"; take more than {0.5 / sizes.max():.3g}", f"; take less than {1 - 0.5 / sizes.min():.3g}"
    train, held = np.sort(rows[~away]), rows[away]
    if len(held) == 0 or len(train) < 2:
        remedy = less if len(held) else more
        raise ValueError(f"{rule} must leave rows to train on and rows to hold out, got {got}{remedy}")
    if by_class and len(np.unique(samples.targets[train])) < len(np.unique(samples.targets[rows])):
        raise ValueError(f"{rule} must leave every class among the rows to train on, got {got}{less}")
    return train, held


def _in_batches(samples: Samples, batches: Any, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    if samples.batch is None:
        raise ValueError(f"validation_batches needs batch= in fit, got {list(batches)!r} and no batches")
    unknown = [one for one in batches if one not in set(samples.batch.tolist())]
    if unknown:
        raise ValueError(f"validation_batches must be among the ids of batch, got {unknown[0]!r}")
    return np.isin(samples.batch[rows], np.asarray(list(batches)))
