"""Classifiers and a regressor with scikit-learn's interface; fitted names end in an underscore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from torch import Generator, Tensor

from gsat import defences, registry
from gsat.defences import Defence
from gsat.estimators.base import TorchEstimator
from gsat.estimators.baselines import (
    ERMClassifier,
    FGMClassifier,
    FGSMClassifier,
    PGDClassifier,
    StructuredATClassifier,
    UniversalATClassifier,
)
from gsat.estimators.classifier import TorchClassifier, WeightedCrossEntropy
from gsat.estimators.saving import restored, save
from gsat.losses import SampleLoss

__all__ = [
    "ERMClassifier",
    "FGMClassifier",
    "FGSMClassifier",
    "GSATClassifier",
    "GSATRegressor",
    "PGDClassifier",
    "StructuredATClassifier",
    "UniversalATClassifier",
    "load",
]


class GSATClassifier(TorchClassifier):
    """A network trained against perturbations that are structured across samples.

    structure:     "low-rank", "group-sparse", "universal" or "unstructured"
    lam, budget:   "auto" makes the mean ‖δ_i‖ the fraction `budget` of E‖X‖ of the standardised data; "paper"; a number
    alpha, k:      weight of the structure in the cost; at most k columns, or rank at most k
    module:        None (one hidden layer of `hidden` ELU units), a name or path for gsat.models.build, or a function,
                   called with in_shape, the number of outputs and **module_options
    in_shape:      the shape of a sample where the module wants another than (features,): (1, 28, 28) for "alexnet"
    n_outer, n_inner, group_size, eta0, schedule, ema: as in gsat.gdadmm
    standardize:   columns to mean 0 and deviation 1 inside; perturbations are then in units of the deviation
    feature_groups, feature_mask: blocks of columns; which columns the adversary may move
    Given `batch` in fit, structure="universal" has one shift for each batch; the other structures run across batches.
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
        module_options: Any = None,
        in_shape: Any = None,
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
        self.module_options = module_options
        self.in_shape = in_shape
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
        module_options: Any = None,
        in_shape: Any = None,
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
        self.module_options = module_options
        self.in_shape = in_shape
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
        X, y = self._checked(X, y, y_numeric=True)
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
    cost = registry.structure_cost(
        estimator.structure,
        alpha=estimator.alpha,
        k=estimator.k,
        feature_groups=estimator.feature_groups,
        group_size=min(estimator.group_size, estimator.n_samples_),
    )
    mask = estimator.feature_mask
    return defences.GSAT(
        cost,
        solver=estimator.solver,
        n_inner=estimator.n_inner,
        loss=loss,
        feature_mask=mask if mask is None or estimator.in_shape is None else np.reshape(mask, estimator.in_shape),
        generator=Generator().manual_seed(seed),
    )


def _squared(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y).square()


SAVED = (
    GSATClassifier,
    ERMClassifier,
    PGDClassifier,
    FGMClassifier,
    FGSMClassifier,
    UniversalATClassifier,
    StructuredATClassifier,
    GSATRegressor,
)


def load(folder: str | Path) -> Any:
    """The fitted estimator that `save` or `gsat train` wrote; `folder` is its own or that of the run.

    Nothing is unpickled. A module given as "package.module:factory" is imported and called, as in fit: open such a
    folder only if you trust where it comes from.
    """
    estimator, tensors = restored(folder, SAVED)
    if isinstance(estimator, TorchClassifier):
        estimator._loss = WeightedCrossEntropy(tensors.get("class_weights"))
    return estimator
