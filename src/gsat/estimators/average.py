"""The average of classifiers: the mean of their probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from gsat.estimators.candidates import NEEDS_BATCH
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.saving import SHARED, save_average

LEAST = 1e-300  # of a probability, in a logarithm


class ByProbability(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose predictions, scores and logits come from its probabilities."""

    classes_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    @abstractmethod
    def predict_proba(self, X: Any, batch: Any = None) -> NDArray[np.float64]:
        """The probability of each class, (n, classes)."""

    def predict(self, X: Any, batch: Any = None) -> NDArray[Any]:
        """The most probable class of each sample.

        Parameters
        ----------
        X, batch
            As in `predict_proba`.

        Returns
        -------
        array
            Labels (n,).
        """
        best = self.predict_proba(X, batch).argmax(1)
        return np.asarray(self.classes_[best])

    def decision_function(self, X: Any, batch: Any = None) -> NDArray[np.float64]:
        """The logarithms of the probabilities.

        Parameters
        ----------
        X, batch
            As in `predict_proba`.

        Returns
        -------
        array
            (n, classes); for two classes the difference of the second to the first, (n,).
        """
        logs = np.log(np.maximum(self.predict_proba(X, batch), LEAST))
        return logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, batch: Any = None) -> float:
        """The share of samples whose class is predicted.

        Parameters
        ----------
        X, batch
            As in `predict_proba`.
        y, sample_weight
            Labels (n,), and weights (n,) or None for 1 each.

        Returns
        -------
        float
            The weighted accuracy.
        """
        return float(np.average(self.predict(X, batch) == np.asarray(y), weights=sample_weight))

    def _describes(self, fitted: Any) -> None:
        """Take over the classes and features of what was fitted."""
        for name in SHARED:
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class AverageClassifier(ByProbability):
    """The mean of the probabilities of several classifiers that were trained on the same samples.

    `GSATClassifierCV` and `gsat train --choose` make it of the best candidates. It has neither `perturb` nor
    `certificate`, and `gsat.evaluate` refuses it: its members prepare the samples each in its own way, so that no
    module sees what all of them see. Those of a single member are `estimators_[0].perturb` and so on.

    Parameters
    ----------
    estimators
        Unfitted classifiers of gsat.

    Attributes
    ----------
    estimators_
        The fitted ones.
    prepare
        "centre" where a member is centred, so that whole batches are predicted; else "none".

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> both = gsat.AverageClassifier([gsat.LinearClassifier(), gsat.LDAClassifier()]).fit(table.X, table.y)
    >>> bool(both.score(table.X, table.y) > 0.7)
    True
    """

    estimators: Any = field(default=(), kw_only=False)
    estimators_: list[TorchClassifier] = field(init=False)

    @classmethod
    def of(cls, fitted: Sequence[TorchClassifier]) -> AverageClassifier:
        """The average of classifiers that are fitted already.

        Parameters
        ----------
        fitted
            Classifiers of the same classes and features.

        Returns
        -------
        AverageClassifier
            With them as its estimators_.
        """
        return cls([clone(one) for one in fitted])._take(fitted)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, batch: Any = None, groups: Any = None
    ) -> AverageClassifier:
        """Train every classifier on the same samples.

        Parameters
        ----------
        X, y, sample_weight, batch, groups
            As in `GSATClassifier.fit`.

        Returns
        -------
        self
            The fitted average.
        """
        kinds = [type(one).__name__ for one in self.estimators if not isinstance(one, TorchClassifier)]
        if len(self.estimators) == 0 or kinds:
            raise ValueError(f"estimators must be classifiers of gsat, at least one, got {', '.join(kinds) or 'none'}")
        return self._take([clone(one).fit(X, y, sample_weight, batch=batch, groups=groups) for one in self.estimators])

    def _take(self, fitted: Sequence[TorchClassifier]) -> AverageClassifier:
        first = fitted[0]
        for one in fitted:
            for name in SHARED:
                mine, others = (np.asarray(getattr(each, name, None)) for each in (first, one))
                if not np.array_equal(mine, others):
                    raise ValueError(f"estimators must have the same {name}, got others for {type(one).__name__}")
        self._describes(first)
        self.estimators_ = list(fitted)
        return self

    def predict_proba(self, X: Any, batch: Any = None) -> NDArray[np.float64]:
        """The mean over the members of the probability of each class.

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).
        batch
            One id per sample, where a member has prepare="centre"; None: all samples are of one batch.

        Returns
        -------
        array
            Probabilities (n, classes), in the order of classes_.
        """
        check_is_fitted(self, "estimators_")
        return np.asarray(sum(one.predict_proba(X, batch) for one in self.estimators_) / len(self.estimators_))

    def save(self, folder: str | Path) -> Path:
        """Write the members as one folder that `gsat.load` opens, whole or not at all.

        Parameters
        ----------
        folder
            Where to; a model that is there is replaced.

        Returns
        -------
        Path
            The folder, as large as those of the members together.
        """
        check_is_fitted(self, "estimators_")
        return save_average(self.estimators_, folder)

    @property
    def prepare(self) -> str:
        """What predicting needs: "centre" for whole batches."""
        return NEEDS_BATCH if any(one.prepare == NEEDS_BATCH for one in self.estimators_) else "none"

    @property
    def normalise(self) -> str:
        """As the members are normalised, which are all alike."""
        return str(self.estimators_[0].normalise)

    @property
    def calibrate(self) -> bool:
        """Whether all members are calibrated."""
        return all(one.calibrate for one in self.estimators_)

    @property
    def values_(self) -> dict[str, float] | None:
        """What the values of the training samples looked like, where it was kept."""
        return getattr(self.estimators_[0], "values_", None)

    @property
    def perturb(self) -> Any:
        """There is none."""
        raise _refused("perturb")

    @property
    def certificate(self) -> Any:
        """There is none."""
        raise _refused("certificate")


def combined(fitted: Sequence[TorchClassifier]) -> TorchClassifier | AverageClassifier:
    """The average of fitted classifiers; of a single one, itself."""
    return fitted[0] if len(fitted) == 1 else AverageClassifier.of(fitted)


def _refused(name: str) -> AttributeError:
    return AttributeError(
        f"an average has no {name}: its members prepare the samples each in its own way, and no module sees what all "
        f"of them see; estimators_[0].{name} is that of the best member"
    )
