"""GSAT as a regressor with scikit-learn's interface."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from gsat.estimators.base import Fitted
from gsat.estimators.gsat import GSATEstimator
from gsat.estimators.partial import partial_fit
from gsat.estimators.samples import Samples, checked_weights
from gsat.losses import half_squared_error


class FittedRegressor(RegressorMixin, Fitted):  # type: ignore[misc]
    """What `fit` leaves on a regressor beside the rest."""

    y_mean_: float
    y_scale_: float


@dataclass(eq=False, repr=False, kw_only=True)
class GSATRegressor(FittedRegressor, GSATEstimator):
    """As `GSATClassifier`, for numbers: squared loss of the standardised target.

    Parameters
    ----------
    structure, **others
        Those of `GSATClassifier` but class_weight and calibrate.

    Attributes
    ----------
    module_, history_, lam_, mean_norm_, mean_, scale_
        As in `GSATClassifier`.
    y_mean_, y_scale_
        Mean and deviation of the numbers in training.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, batch: Any = None) -> GSATRegressor:
        """Train on samples with numbers.

        Parameters
        ----------
        X
            Samples (n, features), dense, sparse or memory-mapped; or (n, *in_shape).
        y
            Numbers (n,).
        sample_weight
            One weight >= 0 for each sample, by which rows are drawn into groups, as in `GSATClassifier.fit`; or None.
        batch
            One id per sample, for a structure in each batch and for prepare="centre"; or None.

        Returns
        -------
        self
            The fitted regressor.
        """
        X, y = self._checked(X, y, y_numeric=True)
        weights = checked_weights(sample_weight, X)
        self._standardise_targets(y, weights)
        self._fit(
            Samples(X, self._targets(y), weights, batch).prepared(self.prepare, self.normalise), 1, half_squared_error
        )
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, batch: Any = None) -> GSATRegressor:
        """Go on training with more samples, for one pass over them, as in `GSATClassifier.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight, batch
            As in `fit`. The first call fixes the standardisation of samples and numbers.

        Returns
        -------
        self
            The regressor.
        """
        first = not hasattr(self, "module_")
        X, y = self._checked(X, y, reset=first, y_numeric=True)
        weights = checked_weights(sample_weight, X)
        if first:
            self._standardise_targets(y, weights)
        partial_fit(self, Samples(X, self._targets(y), weights, batch), 1, half_squared_error)
        return self

    def _standardise_targets(self, y: Any, weights: NDArray[np.float64] | None) -> None:
        y = np.asarray(y, dtype=np.float64)
        self.y_mean_ = float(np.average(y, weights=weights))
        self.y_scale_ = math.sqrt(np.average(np.square(y - self.y_mean_), weights=weights)) or 1.0

    def _targets(self, y: Any) -> NDArray[np.float32]:
        return ((np.asarray(y, dtype=np.float64) - self.y_mean_) / self.y_scale_).astype(np.float32)

    def _chance(self, targets: NDArray[Any]) -> float:
        return 0.5 * float(np.var(targets, dtype=np.float64))

    def predict(self, X: Any, batch: Any = None) -> NDArray[np.float64]:
        """The predicted number of each sample.

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).
        batch
            One id per sample, for prepare="centre"; None: all samples are of one batch.

        Returns
        -------
        array
            Numbers (n,).
        """
        return np.asarray(self._outputs(X, batch)[:, 0] * self.y_scale_ + self.y_mean_)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, batch: Any = None) -> float:
        """The coefficient of determination, R².

        Parameters
        ----------
        X, y, sample_weight
            Samples, numbers, and weights or None.
        batch
            As in `predict`.

        Returns
        -------
        float
            1 − Σ(y − prediction)² / Σ(y − mean)², weighted.
        """
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, batch), sample_weight=sample_weight))

    def perturb(self, X: Any, y: Any, *, batch: Any = None) -> NDArray[np.float32]:
        """The worst perturbation of the samples that the adversary of training finds, group by group.

        Parameters
        ----------
        X, y
            Samples (n, features), or (n, *in_shape), and numbers (n,).
        batch
            One id per sample, or None.

        Returns
        -------
        array
            Δ, of the shape and in the units of X.
        """
        return self._perturb(X, torch.from_numpy(self._targets(y)), half_squared_error, batch)
