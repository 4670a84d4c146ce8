"""GSAT as a classifier and as a regressor with scikit-learn's interface; fitted names end in an underscore."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from gsat import _defaults, registry
from gsat.costs import GroupCost, PerBatch
from gsat.defences import Defence
from gsat.estimators.base import Fitted, TorchEstimator
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.partial import partial_fit
from gsat.estimators.samples import Samples, checked_weights
from gsat.losses import SampleLoss, half_squared_error
from gsat.training.budget import priced


@dataclass(eq=False, repr=False, kw_only=True)
class GSATEstimator(TorchEstimator):
    """What the classifier and the regressor share: the parameters of the adversary, and the defence they make."""

    structure: str = field(default=_defaults.STRUCTURE, kw_only=False)
    lam: Any = _defaults.LAM
    budget: float = _defaults.BUDGET
    alpha: float | None = None
    k: int | None = None
    solver: Any = _defaults.SOLVER
    n_inner: int = _defaults.N_INNER_GSAT
    feature_groups: Any = None
    feature_mask: Any = None

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        registry.structure(self.structure)  # the name of another defence is none of a structure
        mask = self.feature_mask
        return registry.named(
            self.structure,
            eps=0.0,
            alpha=self.alpha,
            k=self.k,
            feature_groups=self.feature_groups,
            feature_mask=mask if mask is None or self.in_shape is None else np.reshape(mask, self.in_shape),
            solver=self.solver,
            n_inner=self.n_inner,
            group_size=min(self.group_size, self.n_samples_),
            loss=loss,
            seed=seed,
        )

    def _rule(self) -> dict[str, Any]:
        return {"lam": self.lam, "budget": self.budget}

    def _trained_defence(self, loss: SampleLoss) -> Defence:
        defence = super()._trained_defence(loss)
        if priced(defence) and self.lam_ is not None:
            defence.scale = float(self.budget) * self.mean_norm_ if self.lam == "auto" else None
            defence.lam = self.lam_
        return defence


@dataclass(eq=False, repr=False, kw_only=True)
class GSATClassifier(TorchClassifier, GSATEstimator):
    """A network trained against perturbations that are structured across samples.

    Given `batch` in fit, structure="universal" has one shift for each batch; the other structures run across batches.
    fit warns (`sklearn.exceptions.ConvergenceWarning`) where the loss still falls at its end, or where the network is
    hardly better than chance on the rows it was trained on.

    Parameters
    ----------
    structure
        "low-rank", "group-sparse", "universal", "universal-one" or "unstructured". "universal" trains with one shift
        for every two samples of the group, which trains better than the single shift of "universal-one".
    lam, budget
        "auto" makes the mean ‖δ_i‖ the fraction `budget` of E‖X‖ of the standardised data; "paper"; or a number.
    alpha
        Weight of the structure in the cost, 0 to 1. None takes what trains best: 0.1 for "group-sparse", else 0.2.
    k
        At most k columns, or rank at most k; None for the penalised form.
    solver, n_inner
        Of the inner problem: "proximal", "admm", "linearised" or an instance, and its gradients at the most.
    n_outer, group_size
        The number of groups, and of samples in each.
    module, module_options, hidden
        None (one hidden layer of `hidden` ELU units), a name or path for gsat.models.build, a function, called with
        in_shape, the number of outputs and **module_options, or a torch.nn.Module, a copy of which is trained.
    in_shape
        The shape of a sample where the module wants another than (features,): (1, 28, 28) for "alexnet".
    eta0, schedule, ema
        Learning rate of Adam, its schedule and the decay of an average of the weights, as in `gsat.gdadmm`.
    standardize
        Columns to mean 0 and deviation 1 inside; perturbations are then in units of the deviation.
    class_weight
        None, "balanced", or a dict, as in scikit-learn.
    calibrate
        Whether predict_proba is softmax(logits / T), T fitted on held-out rows; predictions stay as they are.
    feature_groups, feature_mask
        A block for each column; True for the columns that the adversary may move.
    device
        Of torch; None for the CPU.
    warm_start
        Whether another fit goes on with the module.
    early_stopping
        Whether to stop when the loss on held-out rows, under the adversary of training, has not fallen for
        `n_iter_no_change` measurements, one every 25 groups; the weights are those of the best one.
    validation_fraction, validation_batches
        The share of the rows (of each class) that early_stopping and calibrate hold out; or the ids of the batches that
        they hold out, where fit is given `batch`.
    n_iter_no_change
        Measurements without a gain after which training stops.
    callbacks
        Functions, called as callback(step, model) after each step.
    verbose
        Above 0, a progress bar.
    random_state
        Of weights, groups, held-out rows and random batches.

    Attributes
    ----------
    classes_
        The labels, sorted; the order of the module's outputs.
    module_
        The trained network, in eval mode.
    history_
        What was recorded in training.
    lam_
        λ, the mean over the last tenth of the groups.
    mean_norm_
        E‖X‖₂ of the training samples as the module sees them.
    mean_, scale_
        Mean and deviation of each column.
    temperature_
        T of the probabilities, 1 without calibrate.
    n_iter_
        Groups that were trained on.
    """

    def _certified_cost(self, batch: Any) -> GroupCost | PerBatch:
        """The cost as it is written down, with one shift for all samples, or for each batch, for "universal"."""
        cost = registry.structure_cost(self.structure, alpha=self.alpha, k=self.k, feature_groups=self.feature_groups)
        return cost.cost if isinstance(cost, PerBatch) and batch is None else cost

    def _certified_mask(self) -> Any:
        return self.feature_mask


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
            One id per sample, for a structure in each batch; or None.

        Returns
        -------
        self
            The fitted regressor.
        """
        X, y = self._checked(X, y, y_numeric=True)
        weights = checked_weights(sample_weight, X)
        self._standardise_targets(y, weights)
        self._fit(Samples(X, self._targets(y), weights, batch), 1, half_squared_error)
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

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted number of each sample.

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).

        Returns
        -------
        array
            Numbers (n,).
        """
        return np.asarray(self._outputs(X)[:, 0] * self.y_scale_ + self.y_mean_)

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
