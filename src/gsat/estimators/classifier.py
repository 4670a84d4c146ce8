"""What all classifiers share: labels in, probabilities and perturbations out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from gsat.costs import GroupCost, PerBatch, Unstructured
from gsat.estimators.base import Fitted, TorchEstimator
from gsat.losses import WeightedCrossEntropy
from gsat.theory.certificate import Certificate, certify


class FittedClassifier(ClassifierMixin, Fitted):  # type: ignore[misc]
    """What `fit` leaves on a classifier beside the rest."""

    classes_: NDArray[Any]
    _loss: WeightedCrossEntropy


@dataclass(eq=False, repr=False, kw_only=True)
class TorchClassifier(FittedClassifier, TorchEstimator):
    """A module whose outputs are the logits of the classes."""

    class_weight: Any = None

    def fit(self, X: Any, y: Any, batch: Any = None) -> Any:
        """Train on labelled samples.

        Parameters
        ----------
        X
            Samples (n, features), dense, sparse or memory-mapped; or (n, *in_shape).
        y
            Labels (n,), at least two different ones.
        batch
            One id per sample, for a structure in each batch; or None.

        Returns
        -------
        self
            The fitted classifier.
        """
        return self.fit_run(X, y, batch)

    def fit_run(
        self,
        X: Any,
        y: Any,
        batch: Any = None,
        *,
        seed: int | None = None,
        out: str | Path | None = None,
        resume: bool = False,
    ) -> Any:
        """As `fit`, with what belongs to a run.

        Parameters
        ----------
        X, y, batch
            As in `fit`.
        seed
            Of weights and groups, instead of one that is drawn from random_state.
        out, resume
            A folder for log.jsonl and checkpoints; with resume=True a killed run goes on where it was.

        Returns
        -------
        self
            The fitted classifier.
        """
        X, y = self._checked(X, y)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes, got one class: {classes[0]!r}")
        if self.warm_start and hasattr(self, "module_") and not np.array_equal(classes, self.classes_):
            raise ValueError(f"y must hold the classes of the last fit with warm_start=True, got {classes.tolist()}")
        self.classes_ = classes
        weighted = self.class_weight is not None
        self._loss = WeightedCrossEntropy(
            compute_class_weight(self.class_weight, classes=classes, y=y) if weighted else None
        )
        self._fit(X, codes.astype(np.int64), len(classes), self._loss, batch, seed=seed, out=out, resume=resume)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The logits of the classes.

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).

        Returns
        -------
        array
            (n, classes); for two classes the difference of the second to the first, (n,).
        """
        logits = self._outputs(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class.

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).

        Returns
        -------
        array
            Probabilities (n, classes), in the order of classes_.
        """
        logits = self._outputs(X)
        odds = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(odds / odds.sum(1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each sample.

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).

        Returns
        -------
        array
            Labels (n,).
        """
        best = self._outputs(X).argmax(1)
        return np.asarray(self.classes_[best])

    def perturb(self, X: Any, y: Any, batch: Any = None) -> NDArray[np.float32]:
        """The worst perturbation of the samples that the adversary of training finds, group by group.

        Parameters
        ----------
        X, y
            Samples (n, features), or (n, *in_shape), and labels of fit (n,).
        batch
            One id per sample, or None.

        Returns
        -------
        array
            Δ, of the shape and in the units of X.
        """
        return self._perturb(X, torch.as_tensor(self._codes(y)), self._loss, batch)

    def certificate(
        self, X: Any, y: Any, radii: Any, *, cost: Any = None, batch: Any = None, **options: Any
    ) -> Certificate:
        """Bound the mean cross-entropy of every law within each of the radii of X, y; class weights do not count.

        Parameters
        ----------
        X, y, batch
            Samples, labels of fit, and one batch id per sample or None.
        radii
            In the units that the module sees, after standardisation.
        cost
            By default α·g(Δ) + (1−α)·‖Δ‖²_F with the structure and alpha of the classifier, ‖Δ‖²_F where it has none.
        **options
            Of `gsat.certify`.

        Returns
        -------
        Certificate
            The bounds, with what they were computed from.
        """
        rows = self._rows(X)
        options = {"group_size": min(self.group_size, len(rows)), **options}
        options.setdefault("feature_mask", self._certified_mask())
        cost = self._certified_cost(batch) if cost is None else cost
        return certify(self.module_, rows, self._codes(y), radii, cost, batch=batch, **options)

    def _certified_cost(self, batch: Any) -> GroupCost | PerBatch:
        """The cost of the certificate where none is given."""
        return Unstructured()

    def _certified_mask(self) -> Any:
        """The features that the certificate lets move."""
        return None

    def _codes(self, y: Any) -> NDArray[Any]:
        """The labels by their place in classes_."""
        y = np.asarray(y)
        codes: NDArray[Any] = np.searchsorted(self.classes_, y)
        if not np.array_equal(self.classes_[np.minimum(codes, len(self.classes_) - 1)], y):
            raise ValueError(f"y must hold only labels of fit ({list(self.classes_)})")
        return codes
