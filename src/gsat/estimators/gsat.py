"""GSAT as a classifier with scikit-learn's interface, and what it shares with the regressor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsat import _defaults, registry
from gsat.costs import GroupCost, PerBatch
from gsat.defences import Defence
from gsat.defences.budgets import by_class
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.metric import MetricEstimator
from gsat.losses import SampleLoss
from gsat.training.budget import Control, priced


@dataclass(eq=False, repr=False, kw_only=True)
class GSATEstimator(MetricEstimator):
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
            metric=self.metric_,
        )

    def _rule(self) -> dict[str, Any]:
        return {"lam": self.lam, "budget": self.budget}

    def _trained_defence(self, loss: SampleLoss, targets: Tensor) -> Defence:
        """With the λ of training, and the budget for classes in the shares of these targets."""
        defence = super()._trained_defence(loss, targets)
        if priced(defence) and self.lam_ is not None:
            _, sizes = by_class(torch.zeros(len(targets)), targets)
            budget = float(self.budget) * self.mean_norm_ if self.lam == "auto" else None
            Control(self.lam_, budget, sizes=sizes).give(defence)
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
        "auto" makes the mean ‖δ_i‖ the fraction `budget` of E‖X‖ of the standardised data, where a class r times
        smaller than the largest counts r-fold, from r = 4/3 on; "paper"; or a number.
    alpha
        Weight of the structure in the cost, 0 to 1. None takes what trains best: 0.1 for "group-sparse", else 0.2.
    k
        At most k columns, or rank at most k; None for the penalised form.
    solver, n_inner
        Of the inner problem: "proximal"; "admm", Algorithm 2 of the paper; "admm-paper", the same with its ρ = 1 and
        η₁ = 0.1; "linearised"; or an instance. And its gradients at the most: the paper's ADMM takes 20.
    n_outer, group_size
        The number of groups, and of samples in each.
    module, module_options, hidden
        None (one hidden layer of `hidden` ELU units, a linear model for 0), a name or path for gsat.models.build, a
        function, called with in_shape, the number of outputs and **module_options, or a torch.nn.Module, a copy of
        which is trained.
    in_shape
        The shape of a sample where the module wants another than (features,): (1, 28, 28) for "alexnet".
    eta0, schedule, ema
        Learning rate of Adam, its schedule and the decay of an average of the weights, as in `gsat.gdadmm`.
    standardize
        Columns to mean 0 and deviation 1 inside; perturbations are then in units of the deviation.
    prepare
        What is done to the samples before that: "none"; "centre" takes away the mean of each batch, so that a batch is
        predicted as a whole, two samples of it at least; "zscore" takes each sample less its own mean, divided by its
        own deviation over the features. Perturbations leave these means and deviations as they are.
    normalise
        What is done to each sample before everything else: "none"; "log1p-cpm", log(1 + 10⁶·x_ij / Σ_j x_ij) of counts;
        or "zscore-samples", as prepare="zscore". It is stored with the model, which then takes counts.
    class_weight
        None, "balanced", or a dict, as in scikit-learn.
    calibrate
        Whether predict_proba is softmax(logits / T), T fitted on held-out rows; predictions stay as they are.
    feature_groups, feature_mask
        A block for each column; True for the columns that the adversary may move.
    metric, gamma
        Along which directions moving is cheap, and how much cheaper (`gsat.Metric`): "batches", as the batches that fit
        is given are shifted and as samples vary inside a class and a batch; "within" or "between", one of both alone;
        "auto", "batches" where there are two batches or more, else None; None, all directions alike, as in the paper;
        or a Metric of the samples as the module sees them. `budget` is then the length of Z, with Δ = Z·A.
    device
        "cpu" (also None), "cuda", "cuda:1", ..., or "auto", a GPU where there is one; under torchrun each process has
        the GPU of its LOCAL_RANK.
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
    metric_
        The Metric of the adversary, or None.
    temperature_
        T of the probabilities, 1 without calibrate.
    n_iter_
        Groups that were trained on.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(200, 10)
    >>> clf = gsat.GSATClassifier("low-rank", n_outer=40, eta0=0.02, hidden=20, random_state=0)
    >>> _ = clf.fit(table.train.X, table.train.y, batch=table.train.batch)
    >>> clf.score(table.train.X, table.train.y) > 0.8
    True
    >>> clf.predict_proba(table.test.X).shape
    (100, 3)
    >>> clf.perturb(table.test.X, table.test.y).shape
    (100, 10)
    """

    def _certified_cost(self, batch: Any) -> GroupCost | PerBatch:
        """The cost as it is written down, with one shift for all samples, or for each batch, for "universal"."""
        cost = registry.structure_cost(self.structure, alpha=self.alpha, k=self.k, feature_groups=self.feature_groups)
        return cost.cost if isinstance(cost, PerBatch) and batch is None else cost

    def _certified_mask(self) -> Any:
        return self.feature_mask
