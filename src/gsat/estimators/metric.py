"""Estimators whose perturbations are longer along some directions than along others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gsat import _checks, _defaults
from gsat._arrays.standardise import Standardised
from gsat.estimators.base import TorchEstimator
from gsat.estimators.samples import Samples
from gsat.estimators.weighted import Positions, View
from gsat.metric import Metric


@dataclass(eq=False, repr=False, kw_only=True)
class MetricEstimator(TorchEstimator):
    """An estimator with the parameters `metric` and `gamma`; fit leaves the Metric, or None, as `metric_`."""

    metric: Any = _defaults.METRIC
    gamma: float = _defaults.GAMMA

    def _ready(
        self, samples: Samples, positions: Positions, n_outputs: int, seed: int, module: nn.Module | None
    ) -> tuple[Standardised, nn.Module]:
        rows, module = super()._ready(samples, positions, n_outputs, seed, module)
        self.metric_ = self._metric_of(samples, rows, positions.rows)
        return rows, module

    def _metric_of(self, samples: Samples, rows: Standardised, used: NDArray[np.int64]) -> Metric | None:
        """The metric of the rows that are trained on, as the module sees them."""
        if self.metric is None or isinstance(self.metric, Metric):
            return self.metric
        _checks.one_of("metric", self.metric, _defaults.METRICS)
        gamma = _checks.number("gamma", self.gamma, least=0)
        batch = None if samples.batch is None else samples.batch[used]
        one_batch = batch is None or len(np.unique(batch)) == 1
        if gamma == 0 or (one_batch and self.metric == "auto"):
            return None
        if one_batch and self.metric != "within":
            raise ValueError(
                f'metric="{self.metric}" needs batch= with at least two batches among the rows that are trained on, '
                f"got {'none' if batch is None else 'one'}"
            )
        kind = "batches" if self.metric == "auto" else self.metric
        labels = samples.targets[used] if self._has_classes else None
        weights = None if samples.weights is None else samples.weights[used]
        return Metric.from_batches(View(rows, Positions(used)), labels, batch, gamma=gamma, kind=kind, weights=weights)
