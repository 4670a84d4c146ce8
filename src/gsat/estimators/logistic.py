"""Logistic regression on the rows that a classifier was trained on: what every result is to be compared with."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from gsat._arrays.chunks import pieces
from gsat._arrays.standardise import Standardised, mean_and_scale
from gsat.data.memory import allowed, shown
from gsat.data.rows import StoredRows
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.preparing import prepared

PASSES = 300  # of L-BFGS at the most
COPIES = 2  # of the standardised training rows in float32 while it is trained


class Logistic:
    """scikit-learn's logistic regression (C = 1), standardised, with the preparation and class weights of a classifier.

    Parameters
    ----------
    like
        A classifier, for its preparation and class weights.
    """

    def __init__(self, like: TorchClassifier) -> None:
        self.like = like
        self.note: str | None = None

    def fit(self, X: Any, y: NDArray[Any], batch: Any) -> Logistic | None:
        """Train; None, with `note`, where its copy of the samples does not fit into memory.

        Parameters
        ----------
        X, y, batch
            As the classifier was given them.

        Returns
        -------
        Logistic or None
            Itself.
        """
        if isinstance(X, StoredRows):
            self.note = (
                "logistic regression was not trained beside it: it needs the samples in memory, and they stay on disk"
            )
            return None
        need, free = COPIES * 4 * X.shape[0] * X.shape[1], allowed()
        if need > free:
            self.note = (
                "logistic regression was not trained beside it: its copy of the samples takes "
                f"{shown(need)}, and {shown(free)} are free"
            )
            return None
        rows = prepared(X, self.like.prepare, batch, normalise=self.like.normalise)
        self.mean, self.scale = mean_and_scale(rows)
        self.model = LogisticRegression(max_iter=PASSES, class_weight=self.like.class_weight)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(Standardised(rows, self.mean, self.scale)[:], y)
        if int(np.max(self.model.n_iter_)) >= PASSES:
            self.note = f"logistic regression had not converged after {PASSES} passes"
        return self

    def predict(self, X: Any, batch: Any) -> NDArray[Any]:
        """The classes of samples (n, d), in batches as the classifier takes them."""
        rows = Standardised(prepared(X, self.like.prepare, batch, normalise=self.like.normalise), self.mean, self.scale)
        found = [self.model.predict(rows[part]) for part in pieces(*X.shape)]
        return np.concatenate(found)
