"""What all classifiers share: labels in, probabilities and perturbations out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets

from gsat._arrays.standardise import Standardised
from gsat.estimators.base import Fitted
from gsat.estimators.certifying import Certified
from gsat.estimators.judging import temperature, warn_if_at_chance
from gsat.estimators.partial import partial_fit
from gsat.estimators.samples import Samples, checked_weights
from gsat.estimators.weighted import Positions, View
from gsat.losses import WeightedCrossEntropy


class FittedClassifier(ClassifierMixin, Fitted):  # type: ignore[misc]
    """What `fit` leaves on a classifier beside the rest."""

    classes_: NDArray[Any]
    temperature_: float = 1.0
    _loss: WeightedCrossEntropy


@dataclass(eq=False, repr=False, kw_only=True)
class TorchClassifier(FittedClassifier, Certified):
    """A module whose outputs are the logits of the classes."""

    _has_classes: ClassVar[bool] = True

    class_weight: Any = None
    calibrate: bool = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, batch: Any = None, groups: Any = None) -> Any:
        """Train on labelled samples.

        Parameters
        ----------
        X
            Samples (n, features), dense, sparse or memory-mapped; or (n, *in_shape).
        y
            Labels (n,), at least two different ones.
        sample_weight
            One weight >= 0 for each sample, or None. Rows are drawn into groups in proportion to their weights, so that
            the loss and the adversary see them alike: a weight of 2 is a row that is there twice, 0 one that is not.
        batch
            One id per sample, for a structure in each batch and for prepare="centre"; or None.
        groups
            One id per sample, such as the person: of a group all rows are held out for early stopping and calibration,
            or none. None: each row by itself. It has no effect on anything else.

        Returns
        -------
        self
            The fitted classifier.
        """
        return self.fit_run(X, y, sample_weight, batch=batch, groups=groups)

    def fit_run(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        batch: Any = None,
        groups: Any = None,
        seed: int | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        group: str = "own",
        shuffle: str = "rows",
    ) -> Any:
        """As `fit`, with what belongs to a run.

        Parameters
        ----------
        X, y, sample_weight, batch, groups
            As in `fit`.
        seed
            Of weights and groups, instead of one that is drawn from random_state.
        out, resume, group, shuffle
            A folder for log.jsonl and checkpoints; with resume=True a killed run goes on where it was. `gsat.gdadmm`.

        Returns
        -------
        self
            The fitted classifier.
        """
        X, y = self._checked(X, y)
        check_classification_targets(y)
        weights = checked_weights(sample_weight, X)
        classes = np.unique(y if weights is None else y[weights > 0])
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes, got one class: {classes[0]!r}")
        if self.warm_start and hasattr(self, "module_") and not np.array_equal(classes, self.classes_):
            raise ValueError(f"y must hold the classes of the last fit with warm_start=True, got {classes.tolist()}")
        self.classes_ = classes
        samples = Samples(X, np.searchsorted(classes, y), weights, batch, groups)
        samples = samples.prepared(self.prepare, self.normalise)
        used = samples.used
        self._loss = WeightedCrossEntropy(self._class_weights(y[used], None if weights is None else weights[used]))
        if shuffle == "block" and weights is not None:
            raise ValueError('shuffle must be "rows" with sample_weight, got "block"')
        run: dict[str, Any] = {"seed": seed, "out": out, "resume": resume, "group": group, "shuffle": shuffle}
        held = self._fit(samples, len(classes), self._loss, **run)
        self.temperature_ = 1.0
        if self.calibrate:
            rows = Standardised(samples.X, self.mean_, self.scale_, self.in_shape)
            logits = self._pass(View(rows, Positions(held)))
            self.temperature_ = temperature(logits, samples.targets[held], None if weights is None else weights[held])
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, batch: Any = None) -> Any:
        """Go on training with more samples, for one pass over them: as many groups as it takes to hold them all.

        The first call fixes classes, network, standardisation and E‖X‖ by its samples; later ones go on with the
        network, Adam and λ, also after `fit`. `schedule`, `ema`, early stopping and calibration belong to `fit`.

        Parameters
        ----------
        X, y
            Samples and labels, as in `fit`; not all classes must be among them, and after the first call one row is
            enough.
        classes
            All labels that may come, (classes,); needed in the first call.
        sample_weight, batch
            As in `fit`.

        Returns
        -------
        self
            The classifier.
        """
        if self.class_weight == "balanced":
            raise ValueError('class_weight must be None or a dict for partial_fit, got "balanced"')
        first = not hasattr(self, "module_")
        if first and hasattr(self, "classes_"):
            del self.classes_  # of a first call that failed
        _check_partial_fit_first_call(self, classes)
        X, y = self._checked(X, y, reset=first)
        check_classification_targets(y)
        samples = Samples(X, self._codes(y), checked_weights(sample_weight, X), batch)
        if first:
            self._loss = WeightedCrossEntropy(self._class_weights(self.classes_, None))
        partial_fit(self, samples, len(self.classes_), self._loss)
        return self

    def _holds_out(self) -> bool:
        return self.early_stopping or self.calibrate

    def _class_weights(self, y: NDArray[Any], weights: NDArray[np.float64] | None) -> Any:
        if self.class_weight is None:
            return None
        found = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if weights is None or self.class_weight != "balanced":
            return found
        total = np.bincount(self._codes(y), weights, len(found))  # scikit-learn itself takes weights from 1.7 on
        return total.sum() / (len(total) * total)

    def _chance(self, targets: NDArray[Any]) -> float:
        share = np.bincount(targets, minlength=len(self.classes_)) / len(targets)
        logits = torch.as_tensor(np.log(np.maximum(share, 1e-12))).expand(len(targets), -1)
        return float(self._loss(logits, torch.as_tensor(targets)).mean())

    def _judge(self, rows: Standardised, targets: NDArray[Any], some: NDArray[np.int64]) -> None:
        super()._judge(rows, targets, some)
        warn_if_at_chance(self._pass(View(rows, Positions(some))).argmax(1), targets[some])

    def decision_function(self, X: Any, batch: Any = None) -> NDArray[np.float64]:
        """The logits of the classes.

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).
        batch
            One id per sample, for prepare="centre"; None: all samples are of one batch.

        Returns
        -------
        array
            (n, classes); for two classes the difference of the second to the first, (n,).
        """
        logits = self._outputs(X, batch)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any, batch: Any = None) -> NDArray[np.float64]:
        """The probability of each class, softmax(logits / temperature_).

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).
        batch
            One id per sample, for prepare="centre"; None: all samples are of one batch.

        Returns
        -------
        array
            Probabilities (n, classes), in the order of classes_.
        """
        return self._chances(self._rows(X, batch))

    def _chances(self, rows: Standardised) -> NDArray[np.float64]:
        return np.asarray(softmax(self._pass(rows) / self.temperature_, axis=1))

    def predict(self, X: Any, batch: Any = None) -> NDArray[Any]:
        """The most probable class of each sample.

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).
        batch
            One id per sample, for prepare="centre"; None: all samples are of one batch.

        Returns
        -------
        array
            Labels (n,).
        """
        best = self._outputs(X, batch).argmax(1)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, batch: Any = None) -> float:
        """The accuracy.

        Parameters
        ----------
        X, y, sample_weight
            Samples, labels, and weights or None.
        batch
            As in `predict`.

        Returns
        -------
        float
            The weighted share of samples whose class is predicted.
        """
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X, batch), sample_weight=sample_weight))

    def perturb(self, X: Any, y: Any, *, batch: Any = None) -> NDArray[np.float32]:
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

    def _codes(self, y: Any) -> NDArray[Any]:
        """The labels by their place in classes_."""
        y = np.asarray(y)
        codes: NDArray[Any] = np.searchsorted(self.classes_, y)
        if not np.array_equal(self.classes_[np.minimum(codes, len(self.classes_) - 1)], y):
            raise ValueError(f"y must hold only labels of fit ({list(self.classes_)})")
        return codes
