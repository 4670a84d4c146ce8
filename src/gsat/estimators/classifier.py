"""What all classifiers share: labels in, probabilities and perturbations out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from gsat.costs import GroupCost, PerBatch, Unstructured
from gsat.estimators.base import TorchEstimator
from gsat.estimators.saving import save
from gsat.losses import per_sample_cross_entropy
from gsat.registry import structure_cost
from gsat.theory.certificate import Certificate, certify


class TorchClassifier(ClassifierMixin, TorchEstimator):  # type: ignore[misc]
    """A module whose outputs are the logits of the classes."""

    class_weight: Any
    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any, batch: Any = None) -> Any:
        """Train on X (n, features), dense, sparse or memory-mapped, and labels y; `batch` has one id per sample."""
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

        seed:   of weights and groups, instead of one that is drawn from random_state
        out:    a folder for log.jsonl and checkpoints; with resume=True a killed run goes on where it was
        """
        X, y = self._checked(X, y)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes, got one class: {classes[0]!r}")
        if self.warm_start and hasattr(self, "module_") and not np.array_equal(classes, self.classes_):
            raise ValueError(f"y must hold the classes of the last fit with warm_start=True, got {classes.tolist()}")
        self.classes_ = classes
        self._loss = WeightedCrossEntropy.for_classes(self.class_weight, classes, y)
        self._fit(X, codes.astype(np.int64), len(classes), self._loss, batch, seed=seed, out=out, resume=resume)
        return self

    def save(self, folder: str | Path) -> Path:
        """Write the fitted classifier as a folder that `gsat.load` opens."""
        return save(self, folder)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The logits, (n, classes); for two classes the difference of the second to the first, (n,)."""
        logits = self._outputs(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, (n, classes)."""
        logits = self._outputs(X)
        odds = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(odds / odds.sum(1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each sample."""
        best = self._outputs(X).argmax(1)
        return np.asarray(self.classes_[best])

    def perturb(self, X: Any, y: Any, batch: Any = None) -> NDArray[np.float32]:
        """The worst perturbation of the samples that the training adversary finds, in the units of X."""
        return self._perturb(X, torch.as_tensor(self._codes(y)), self._loss, batch)

    def certificate(
        self, X: Any, y: Any, radii: Any, *, cost: Any = None, batch: Any = None, **options: Any
    ) -> Certificate:
        """Bound the mean cross-entropy of every law within each of the radii of X, y; see `gsat.certify` for options.

        Radii are in the units that the module sees, after standardisation; class weights do not count. `cost` is by
        default α·g(Δ) + (1−α)·‖Δ‖²_F with the structure and alpha of the classifier, ‖Δ‖²_F where it has none.
        """
        rows = self._rows(X)
        options = {"group_size": min(self.group_size, len(rows)), **options}
        options.setdefault("feature_mask", getattr(self, "feature_mask", None))
        cost = _plain_cost(self, batch) if cost is None else cost
        return certify(self.module_, rows, self._codes(y), radii, cost, batch=batch, **options)

    def _codes(self, y: Any) -> NDArray[Any]:
        """The labels by their place in classes_."""
        y = np.asarray(y)
        codes: NDArray[Any] = np.searchsorted(self.classes_, y)
        if not np.array_equal(self.classes_[np.minimum(codes, len(self.classes_) - 1)], y):
            raise ValueError(f"y must hold only labels of fit ({list(self.classes_)})")
        return codes


def _plain_cost(classifier: Any, batch: Any) -> GroupCost | PerBatch:
    """The cost of a classifier's structure as it is written down, with one shift per group or batch for universal."""
    if not hasattr(classifier, "alpha"):
        return Unstructured()
    names = ("alpha", "k", "feature_groups")
    cost = structure_cost(classifier.structure, **{name: getattr(classifier, name) for name in names})
    return cost.cost if isinstance(cost, PerBatch) and batch is None else cost


class WeightedCrossEntropy:
    """The cross-entropy of each sample times the weight of its class; picklable."""

    def __init__(self, weights: Any = None) -> None:
        self.weights = None if weights is None else torch.as_tensor(weights, dtype=torch.float32)

    @classmethod
    def for_classes(cls, class_weight: Any, classes: NDArray[Any], y: NDArray[Any]) -> WeightedCrossEntropy:
        """The weights as scikit-learn computes them: None, "balanced", or a dict."""
        if class_weight is None:
            return cls()
        return cls(compute_class_weight(class_weight, classes=classes, y=y))

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(m, classes), (m,) -> (m,)."""
        losses = per_sample_cross_entropy(outputs, y)
        return losses if self.weights is None else losses * self.weights.to(losses)[y]
