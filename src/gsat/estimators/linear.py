"""Linear models that are solved for: here logistic regression in a metric, small where batches differ."""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor
from torch.nn.functional import cross_entropy

from gsat import _checks, registry
from gsat._arrays.chunks import pieces
from gsat._files import replace_file
from gsat.defences import Defence
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.metric import MetricEstimator
from gsat.estimators.samples import Samples
from gsat.estimators.weighted import Positions, View
from gsat.losses import SampleLoss
from gsat.metric import Metric
from gsat.training import History
from gsat.training.history import Step

KEPT = 2**26  # entries of samples that are kept in memory as the model sees them; more are read in every pass
MOST_PASSES = 1000
SLOPE = 1e-5  # the largest entry of the gradient of the mean loss at which the search ends


@dataclass(frozen=True)
class Minimum:
    """weight (k, d) and bias (k,) of a linear model, the mean loss there, and how often the samples were read."""

    weight: Tensor
    bias: Tensor
    loss: float
    n_passes: int


@dataclass(eq=False, repr=False, kw_only=True)
class SolvedClassifier(TorchClassifier):
    """A linear model whose weights are solved for, with all samples and without an adversary."""

    hidden: int = 0

    @abstractmethod
    def _solved(self, rows: Any, targets: Tensor, weights: Tensor, k: int) -> Minimum:
        """The weights for samples as the module sees them (n, d), class codes (n,) and weights (n,) of k classes."""

    @property
    def partial_fit(self) -> Any:
        """There is none: the weights depend on all samples."""
        raise AttributeError(f"{type(self).__name__} has no partial_fit: its weights depend on all samples at once")

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return registry.named("erm", eps=0.0)

    def _holds_out(self) -> bool:
        return self.calibrate

    def _fit(
        self, samples: Samples, n_outputs: int, loss: SampleLoss, *, seed: int | None = None, **run: Any
    ) -> NDArray[np.int64]:
        """Solve for the weights; the folder run["out"] gets a log of one line, and there is nothing to resume."""
        for name, only in (("module", None), ("in_shape", None), ("hidden", 0)):
            if getattr(self, name) != only:
                raise ValueError(f"{name} must be {only} for a linear model, got {getattr(self, name)!r}")
        train, held = self._split(samples, self._seed() if seed is None else seed)
        positions = Positions(train)
        rows, module = self._ready(samples, positions, n_outputs, 0, None)
        targets = torch.from_numpy(samples.targets[train])
        weights = torch.ones(len(train)) if samples.weights is None else torch.from_numpy(samples.weights[train])
        if self._loss.weights is not None:
            weights = weights * self._loss.weights.to(weights)[targets]
        found = self._solved(View(rows, positions), targets, weights.double(), n_outputs)
        layer = module[-1]  # type: ignore[index]
        with torch.no_grad():
            layer.weight.copy_(found.weight)
            layer.bias.copy_(found.bias)
        step = Step(found.n_passes - 1, found.loss)
        self.history_ = History([step])
        if run.get("out") is not None:
            replace_file(Path(run["out"]) / "log.jsonl", (json.dumps(asdict(step)) + "\n").encode())
        self._finish(module, found.n_passes)
        self._judge(rows, samples.targets, train[:: -(-len(train) // 1000)])
        return held


@dataclass(eq=False, repr=False, kw_only=True)
class LinearClassifier(SolvedClassifier, MetricEstimator):
    """A linear model against one shift in a metric: min_{W, b} Σ_i s_i·ℓ(W·x_i + b, y_i) + ‖W·A‖²_F / 2C.

    ℓ is the cross-entropy, s_i the weight of a sample and of its class, A the metric. A shift δ = A·z of the price
    λ·‖z‖² raises the loss of a linear model by about ‖A·w‖²/4λ, so that this is what training against the worst shift
    amounts to, without an adversary and without groups: L-BFGS finds the minimum. Without a metric it is scikit-learn's
    LogisticRegression.

    Parameters
    ----------
    C
        How little large weights cost, as in scikit-learn.
    metric, gamma
        Of the penalty, as in `GSATClassifier`; None for ‖W‖².
    standardize, prepare, class_weight, calibrate, validation_fraction, validation_batches, random_state
        As in `GSATClassifier`.
    **others
        Those of the training of networks have no effect; module and in_shape must be None, hidden 0.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.LinearClassifier(C=0.1, metric="within", gamma=10.0).fit(table.X, table.y)
    >>> clf.score(table.X, table.y) > 0.7
    True
    """

    C: float = field(default=1.0, kw_only=False)

    def _solved(self, rows: Any, targets: Tensor, weights: Tensor, k: int) -> Minimum:
        return ridge(rows, targets, weights, self.metric_, _checks.number("C", self.C, above=0), k)


def ridge(rows: Any, targets: Tensor, weights: Tensor, metric: Metric | None, C: float, k: int) -> Minimum:
    """The minimum of Σ_i s_i·ℓ(W·x_i + b, y_i) + ‖W·A‖²_F / 2C, divided by Σ s_i, by L-BFGS over V = W·A and b.

    Parameters
    ----------
    rows
        Samples (n, d); slices of them are arrays.
    targets, weights
        Class codes and s, (n,).
    metric
        A, or None for the identity.
    C
        As above. Two classes have the weights of one logit, w and −w halved, and count twice, as in scikit-learn.
    k
        Classes.

    Returns
    -------
    Minimum
        W, b and the mean loss.
    """
    n, d = rows.shape
    parts = list(pieces(n, d, times=4))
    total = float(weights.sum())
    kept = [torch.from_numpy(rows[part]).double() for part in parts] if n * d <= KEPT else None
    price = (2 if k == 2 else 1) / (C * total)

    def weight_of(flat: NDArray[np.float64]) -> Tensor:
        inner = torch.from_numpy(flat[: k * d].reshape(k, d))
        return inner if metric is None else metric.solve(inner)

    def value(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weight, bias = weight_of(flat), torch.from_numpy(flat[k * d :])
        mean, slope, tilt = 0.0, torch.zeros(k, d, dtype=torch.float64), torch.zeros(k, dtype=torch.float64)
        for i, part in enumerate(parts):
            x = kept[i] if kept else torch.from_numpy(rows[part]).double()
            y, s = targets[part], weights[part] / total
            logits = x @ weight.T + bias
            mean += float(s @ cross_entropy(logits, y, reduction="none"))
            error = logits.softmax(1)
            error[torch.arange(len(y)), y] -= 1
            error *= s[:, None]
            slope += error.T @ x
            tilt += error.sum(0)
        if metric is not None:
            slope = metric.solve(slope)
        inner = torch.from_numpy(flat[: k * d])
        gradient = torch.cat([slope.flatten() + price * inner, tilt])
        return mean + price / 2 * float(inner @ inner), gradient.numpy()

    options = {"maxiter": MOST_PASSES, "gtol": SLOPE, "ftol": 64 * np.finfo(np.float64).eps}
    found = minimize(value, np.zeros(k * d + k), jac=True, method="L-BFGS-B", options=options)
    inner = found.x[: k * d]
    loss = float(found.fun) - price / 2 * float(inner @ inner)
    return Minimum(weight_of(found.x), torch.from_numpy(found.x[k * d :]), loss, int(found.nfev))
