"""Classifiers and a regressor with scikit-learn's interface; fitted names end in an underscore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Generator, Tensor

from gsat import defences
from gsat.adversary import SampleLoss, per_sample_cross_entropy
from gsat.defences import Defence
from gsat.fitting import TorchEstimator
from gsat.history import History
from gsat.persist import fill, read_folder, write_folder


class _Classifier(ClassifierMixin, TorchEstimator):  # type: ignore[misc]
    class_weight: Any

    def fit(self, X: Any, y: Any, batch: Any = None) -> Any:
        """Train on X (n, features), dense, sparse or memory-mapped, and labels y; `batch` has one id per sample."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float32, np.float64], ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold at least two classes, got one class: {self.classes_[0]!r}")
        self._loss = _weighted(self.class_weight, self.classes_, y)
        self._fit(X, codes.astype(np.int64), len(self.classes_), self._loss, batch)
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
        codes = np.searchsorted(self.classes_, y)
        if not np.array_equal(self.classes_[np.minimum(codes, len(self.classes_) - 1)], np.asarray(y)):
            raise ValueError(f"y must hold only labels of fit ({list(self.classes_)})")
        return self._perturb(X, torch.as_tensor(codes), self._loss, batch)


class GSATClassifier(_Classifier):
    """A network trained against perturbations that are structured across samples.

    structure:     "low-rank", "group-sparse", "universal" or "unstructured"
    lam, budget:   "auto" makes the mean ‖δ_i‖ the fraction `budget` of E‖X‖ of the standardised data; "paper"; a number
    alpha, k:      weight of the structure in the cost; at most k columns, or rank at most k
    module:        None (one hidden layer of `hidden` ELU units), a name or path for gsat.models.build, or a function
    n_outer, n_inner, group_size, eta0, schedule, ema: as in gsat.gdadmm
    standardize:   columns to mean 0 and deviation 1 inside; perturbations are then in units of the deviation
    feature_groups, feature_mask: blocks of columns; which columns the adversary may move
    Given `batch` in fit, the structure holds inside each batch.
    """

    def __init__(
        self,
        structure: str = "low-rank",
        *,
        lam: Any = "auto",
        budget: float = 0.05,
        alpha: float = 0.5,
        k: int | None = None,
        solver: Any = "proximal",
        n_inner: int = 20,
        n_outer: int = 1000,
        group_size: int = 200,
        module: Any = None,
        hidden: int = 100,
        eta0: float = 1e-3,
        schedule: Any = "constant",
        ema: float | None = None,
        standardize: bool = True,
        class_weight: Any = None,
        feature_groups: Any = None,
        feature_mask: Any = None,
        device: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.structure = structure
        self.lam = lam
        self.budget = budget
        self.alpha = alpha
        self.k = k
        self.solver = solver
        self.n_inner = n_inner
        self.n_outer = n_outer
        self.group_size = group_size
        self.module = module
        self.hidden = hidden
        self.eta0 = eta0
        self.schedule = schedule
        self.ema = ema
        self.standardize = standardize
        self.class_weight = class_weight
        self.feature_groups = feature_groups
        self.feature_mask = feature_mask
        self.device = device
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return _gsat(self, loss, seed)

    def _rule(self) -> dict[str, Any]:
        return {"lam": self.lam, "budget": self.budget}


class ERMClassifier(_Classifier):
    """The same network without an adversary: empirical risk minimisation."""

    def __init__(
        self,
        *,
        n_outer: int = 1000,
        group_size: int = 200,
        module: Any = None,
        hidden: int = 100,
        eta0: float = 1e-3,
        schedule: Any = "constant",
        ema: float | None = None,
        standardize: bool = True,
        class_weight: Any = None,
        device: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_outer = n_outer
        self.group_size = group_size
        self.module = module
        self.hidden = hidden
        self.eta0 = eta0
        self.schedule = schedule
        self.ema = ema
        self.standardize = standardize
        self.class_weight = class_weight
        self.device = device
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return defences.ERM()


class _EpsClassifier(_Classifier):
    """A baseline of size `eps`, a fraction of E‖X‖ where the module sees the data."""

    def __init__(
        self,
        eps: float = 0.05,
        *,
        n_inner: int = 20,
        n_outer: int = 1000,
        group_size: int = 200,
        module: Any = None,
        hidden: int = 100,
        eta0: float = 1e-3,
        schedule: Any = "constant",
        ema: float | None = None,
        standardize: bool = True,
        class_weight: Any = None,
        device: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.eps = eps
        self.n_inner = n_inner
        self.n_outer = n_outer
        self.group_size = group_size
        self.module = module
        self.hidden = hidden
        self.eta0 = eta0
        self.schedule = schedule
        self.ema = ema
        self.standardize = standardize
        self.class_weight = class_weight
        self.device = device
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state


class PGDClassifier(_EpsClassifier):
    """Ordinary adversarial training: every sample moves on its own, by n_inner steps of projected gradient ascent."""

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return defences.PGD(self.eps * unit, steps=self.n_inner, loss=loss)


class FGMClassifier(_EpsClassifier):
    """Adversarial training with the fast gradient method; n_inner is not used."""

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return defences.FGM(self.eps * unit, loss=loss)


class UniversalATClassifier(_EpsClassifier):
    """Universal adversarial training with one carried shift; n_inner is not used."""

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return defences.UniversalAT(self.eps * unit, loss=loss)


class GSATRegressor(RegressorMixin, TorchEstimator):  # type: ignore[misc]
    """As GSATClassifier, for numbers: squared loss of the standardised target."""

    def __init__(
        self,
        structure: str = "low-rank",
        *,
        lam: Any = "auto",
        budget: float = 0.05,
        alpha: float = 0.5,
        k: int | None = None,
        solver: Any = "proximal",
        n_inner: int = 20,
        n_outer: int = 1000,
        group_size: int = 200,
        module: Any = None,
        hidden: int = 100,
        eta0: float = 1e-3,
        schedule: Any = "constant",
        ema: float | None = None,
        standardize: bool = True,
        feature_groups: Any = None,
        feature_mask: Any = None,
        device: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.structure = structure
        self.lam = lam
        self.budget = budget
        self.alpha = alpha
        self.k = k
        self.solver = solver
        self.n_inner = n_inner
        self.n_outer = n_outer
        self.group_size = group_size
        self.module = module
        self.hidden = hidden
        self.eta0 = eta0
        self.schedule = schedule
        self.ema = ema
        self.standardize = standardize
        self.feature_groups = feature_groups
        self.feature_mask = feature_mask
        self.device = device
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, batch: Any = None) -> GSATRegressor:
        """Train on X (n, features) and numbers y (n,)."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float32, np.float64], y_numeric=True, ensure_min_samples=2
        )
        y = np.asarray(y, dtype=np.float64)
        self.y_mean_, self.y_scale_ = float(y.mean()), float(y.std()) or 1.0
        targets = ((y - self.y_mean_) / self.y_scale_).astype(np.float32)
        self._fit(X, targets, 1, _squared, batch)
        return self

    def save(self, folder: str | Path) -> Path:
        """Write the fitted regressor as a folder that `gsat.load` opens."""
        return save(self, folder)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted number of each sample, (n,)."""
        return np.asarray(self._outputs(X)[:, 0] * self.y_scale_ + self.y_mean_)

    def perturb(self, X: Any, y: Any, batch: Any = None) -> NDArray[np.float32]:
        """The worst perturbation of the samples that the training adversary finds, in the units of X."""
        targets = torch.as_tensor((np.asarray(y, dtype=np.float64) - self.y_mean_) / self.y_scale_)
        return self._perturb(X, targets.float(), _squared, batch)

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return _gsat(self, loss, seed)

    def _rule(self) -> dict[str, Any]:
        return {"lam": self.lam, "budget": self.budget}


def _gsat(estimator: Any, loss: SampleLoss, seed: int) -> Defence:
    """The GSAT defence of an estimator's parameters."""
    cost = defences.structure_cost(
        estimator.structure,
        alpha=estimator.alpha,
        k=estimator.k,
        feature_groups=estimator.feature_groups,
        group_size=min(estimator.group_size, estimator.n_samples_),
    )
    return defences.GSAT(
        cost,
        solver=estimator.solver,
        n_inner=estimator.n_inner,
        loss=loss,
        feature_mask=estimator.feature_mask,
        generator=Generator().manual_seed(seed),
    )


def _squared(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y).square()


class _weighted:  # noqa: N801
    """The cross-entropy of each sample times the weight of its class; picklable."""

    def __init__(self, class_weight: Any, classes: NDArray[Any], y: NDArray[Any]) -> None:
        if class_weight is None:
            self.weights = None
        else:
            weights = compute_class_weight(class_weight, classes=classes, y=y)
            self.weights = torch.as_tensor(weights, dtype=torch.float32)

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        losses = per_sample_cross_entropy(outputs, y)
        return losses if self.weights is None else losses * self.weights.to(losses)[y]


SAVED = (GSATClassifier, ERMClassifier, PGDClassifier, FGMClassifier, UniversalATClassifier, GSATRegressor)
NOT_SAVED = ("callbacks", "device", "verbose")  # they belong to a session, not to a model


def save(estimator: TorchEstimator, folder: str | Path) -> Path:
    """Write a fitted estimator as a folder of safetensors and JSON that `load` opens."""
    check_is_fitted(estimator, "module_")
    params = {name: value for name, value in estimator.get_params(deep=False).items() if name not in NOT_SAVED}
    for name, value in params.items():
        if not isinstance(value, str | int | float | bool | None | list | tuple | dict):
            raise ValueError(f"{name} must be a name, a number or a list to be saved, got {value!r}")
    tensors = {f"module:{name}": value for name, value in estimator.module_.state_dict().items()}
    tensors |= {name: torch.from_numpy(getattr(estimator, name)) for name in ("mean_", "scale_")}
    fitted = {
        name: getattr(estimator, name) for name in ("lam_", "mean_norm_", "n_features_in_", "n_iter_", "n_samples_")
    }
    for name in ("y_mean_", "y_scale_"):
        if hasattr(estimator, name):
            fitted[name] = getattr(estimator, name)
    for name in ("classes_", "feature_names_in_"):
        if hasattr(estimator, name):
            fitted[name] = getattr(estimator, name).tolist()
    about = {"estimator": type(estimator).__name__, "params": params, "fitted": fitted}
    return write_folder(folder, tensors, about)


def load(folder: str | Path) -> Any:
    """The fitted estimator that `save` wrote."""
    tensors, about = read_folder(folder)
    kinds = {kind.__name__: kind for kind in SAVED}
    if about.get("estimator") not in kinds:
        raise ValueError(f"{folder} must hold one of {', '.join(kinds)}, got {about.get('estimator')!r}")
    estimator = kinds[about["estimator"]](**about["params"])
    for name, value in about["fitted"].items():
        setattr(estimator, name, np.asarray(value) if isinstance(value, list) else value)
    estimator.mean_, estimator.scale_ = tensors["mean_"].numpy(), tensors["scale_"].numpy()
    n_outputs = len(estimator.classes_) if hasattr(estimator, "classes_") else 1
    estimator.module_ = estimator._build(estimator.n_features_in_, n_outputs, seed=0)
    weights = {name.removeprefix("module:"): value for name, value in tensors.items() if name.startswith("module:")}
    fill(estimator.module_, weights, folder)
    estimator.history_ = History()
    if isinstance(estimator, _Classifier):
        estimator._loss = _weighted(None, estimator.classes_, estimator.classes_)
    return estimator
