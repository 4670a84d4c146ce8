"""The base of the estimators: scikit-learn's contract on one side, `gsat.gdadmm` on the other."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor, nn

from gsat import _checks, _defaults
from gsat._arrays.norms import mean_norm
from gsat._arrays.standardise import Standardised, mean_and_scale
from gsat.defences import Defence
from gsat.estimators.given import labelled, unlabelled
from gsat.estimators.judging import warn_if_falling
from gsat.estimators.module import build_module, check_module, outputs, probe
from gsat.estimators.preparing import prepared, units
from gsat.estimators.samples import Samples, hold_out
from gsat.estimators.saving import save
from gsat.estimators.weighted import Positions, View
from gsat.losses import SampleLoss
from gsat.metric import Metric
from gsat.training import History, Validation, gdadmm

EVERY = 25  # groups from one measurement of the robust validation loss to the next
VALIDATED = 5  # groups of held-out samples on which it is measured, at the most
JUDGED = 1000  # training rows by which convergence is judged, at the most


class Fitted(BaseEstimator):  # type: ignore[misc]
    """What `fit` leaves on an estimator; apart, so that these names do not become parameters."""

    module_: nn.Module
    history_: History
    lam_: float | None
    mean_norm_: float
    metric_: Metric | None = None
    mean_: NDArray[np.float32]
    scale_: NDArray[np.float32]
    n_samples_: int
    n_iter_: int
    values_: dict[str, float]


@dataclass(eq=False, repr=False, kw_only=True)
class TorchEstimator(Fitted):
    """fit and the passes through the module, for classifiers and regressors alike.

    The fields are scikit-learn's parameters: they are stored as they are given, and `fit` checks them.
    """

    _has_classes: ClassVar[bool] = False

    n_outer: int = _defaults.N_OUTER
    group_size: int = _defaults.GROUP_SIZE
    module: Any = None
    module_options: Any = None
    in_shape: Any = None
    hidden: int = _defaults.HIDDEN
    eta0: float = _defaults.ETA0
    schedule: Any = _defaults.SCHEDULE
    ema: float | None = None
    standardize: bool = True
    prepare: str = _defaults.PREPARE
    normalise: str = _defaults.NORMALISE
    device: Any = None
    warm_start: bool = False
    early_stopping: bool = False
    validation_fraction: float = _defaults.VALIDATION_FRACTION
    validation_batches: Any = None
    n_iter_no_change: int = _defaults.N_ITER_NO_CHANGE
    callbacks: Any = None
    verbose: int = 0
    random_state: Any = None

    @abstractmethod
    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        """The defence; `unit` is E‖X‖₂ where the module sees the data."""

    def _rule(self) -> dict[str, Any]:
        """What gdadmm is told of λ."""
        return {}

    def _trained_defence(self, loss: SampleLoss, targets: Tensor) -> Defence:
        """The defence as training left it, for samples with these targets (n,)."""
        return self._defence(self.mean_norm_, loss, 0)

    @abstractmethod
    def _chance(self, targets: NDArray[Any]) -> float:
        """The loss of the best constant prediction."""

    def _checked(self, X: Any, y: Any, *, reset: bool = True, **options: Any) -> tuple[Any, NDArray[Any]]:
        """X (n, features) and y as scikit-learn checks them before a fit; with reset=False one row is enough."""
        _checks.not_anndata("X", X, "gsat.tl.fit(adata, labels_key)")
        least = 2 if reset else 1
        return labelled(self, self._flat(X), y, reset=reset, ensure_min_samples=least, **options)

    def _fit(
        self,
        samples: Samples,
        n_outputs: int,
        loss: SampleLoss,
        *,
        seed: int | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        group: str = "own",
        shuffle: Any = "rows",
    ) -> NDArray[np.int64]:
        """Train, and warn where that has not converged; returns the rows that were held out."""
        seed = self._seed() if seed is None else seed
        train, held = self._split(samples, seed)
        positions = self._positions(samples, train)
        goes_on = self.warm_start and hasattr(self, "module_")
        rows, module = self._ready(samples, positions, n_outputs, seed, self.module_ if goes_on else None)
        self.history_ = gdadmm(
            module,
            View(rows, positions),
            View(samples.targets, positions),
            self._defence(self.mean_norm_, loss, seed),
            n_outer=self.n_outer,
            group_size=min(self.group_size, self.n_samples_),
            eta0=self.eta0,
            schedule=self.schedule,
            ema=self.ema,
            batch=samples.batches(positions),
            loss=loss,
            validation=self._validation(samples, rows, held) if self.early_stopping else None,
            generator=Generator().manual_seed(seed),
            callbacks=tuple(self.callbacks or ()),
            progress=bool(self.verbose),
            out=out,
            resume=resume,
            group=group,
            shuffle=shuffle,
            **self._rule(),
        )
        self._finish(module, self.history_[-1].t + 1)
        some = np.linspace(0, len(positions) - 1, min(JUDGED, positions.size)).astype(np.int64)
        self._judge(rows, samples.targets, positions[some])
        return held

    def _holds_out(self) -> bool:
        """Whether something is measured on rows that are not trained on."""
        return self.early_stopping

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _split(self, samples: Samples, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows to train on, and those that are held out."""
        if not self._holds_out():
            return samples.used, np.empty(0, np.int64)
        return hold_out(
            samples,
            fraction=self.validation_fraction,
            batches=self.validation_batches,
            by_class=self._has_classes,
            seed=seed,
        )

    def _positions(self, samples: Samples, rows: NDArray[np.int64]) -> Positions:
        return samples.positions(rows, _checks.count("group_size", self.group_size, least=1))

    def _ready(
        self, samples: Samples, positions: Positions, n_outputs: int, seed: int, module: nn.Module | None
    ) -> tuple[Standardised, nn.Module]:
        """The samples as the module sees them, and the module, a new one where None is given."""
        check_module(self.in_shape, self.module_options)
        device = _checks.device("device", self.device)
        self.n_samples_ = positions.size
        d = samples.X.shape[1]
        if self.standardize:
            self.mean_, self.scale_ = mean_and_scale(samples.X, samples.weights)
        else:
            self.mean_, self.scale_ = np.zeros(d, np.float32), np.ones(d, np.float32)
        rows = Standardised(samples.X, self.mean_, self.scale_, self.in_shape)
        module = build_module(self, n_outputs, seed) if module is None else module
        module.to(device)
        probe(module, rows, n_outputs)
        unit = self.mean_norm_ = rows.mean_norm = mean_norm(rows, samples.weights)
        if not math.isfinite(unit):
            raise ValueError(f"X must have a finite mean norm E‖X‖ in float32, got {unit}; scale the features down")
        return rows, module

    def _validation(self, samples: Samples, rows: Standardised, held: NDArray[np.int64]) -> Validation:
        """The robust loss on the first few groups of the rows that are held out."""
        places = Positions(held[: VALIDATED * self.group_size])
        return Validation(
            View(rows, places),
            View(samples.targets, places),
            measure="loss",
            batch=samples.batches(places),
            weights=None if samples.weights is None else samples.weights[places.rows],
            every=EVERY,
            patience=_checks.count("n_iter_no_change", self.n_iter_no_change, least=1),
        )

    def _finish(self, module: nn.Module, n_iter: int) -> None:
        """Leave what was trained on the estimator."""
        self.module_ = module.eval()
        self.module_.zero_grad()
        self.lam_ = self.history_.lam
        self.n_iter_ = n_iter

    def _judge(self, rows: Standardised, targets: NDArray[Any], some: NDArray[np.int64]) -> None:
        """Warn where training has not converged; `some` are rows that were trained on."""
        if not self.history_.stopped_early:
            warn_if_falling(self.history_.steps, self._chance(targets[some]))

    def _flat(self, X: Any) -> Any:
        """Samples of shape `in_shape` as rows; everything else is left to scikit-learn's checks."""
        shape = self.in_shape
        if isinstance(shape, list | tuple) and tuple(getattr(X, "shape", ())[1:]) == tuple(shape):
            return X.reshape(len(X), -1)
        return X

    def _rows(self, X: Any, batch: Any = None) -> Standardised:
        """New samples, checked against those of fit, as the module sees them."""
        check_is_fitted(self, "module_")
        _checks.not_anndata("X", X, "gsat.tl.predict(adata, classifier)")
        return self._seen(unlabelled(self, self._flat(X)), batch)

    def _seen(self, X: Any, batch: Any) -> Standardised:
        """Checked samples as the module sees them."""
        return Standardised(
            prepared(X, self.prepare, batch, normalise=self.normalise), self.mean_, self.scale_, self.in_shape
        )

    def _outputs(self, X: Any, batch: Any = None) -> NDArray[np.float64]:
        """What the module returns, (n, outputs)."""
        return self._pass(self._rows(X, batch))

    def _pass(self, rows: Standardised | View) -> NDArray[np.float64]:
        """What the module returns for samples as it sees them."""
        return outputs(self.module_, rows, self.n_features_in_)

    def _perturb(self, X: Any, targets: Tensor, loss: SampleLoss, batch: Any) -> NDArray[np.float32]:
        """The defence's perturbation of the samples, group by group, in the units and the shape of X."""
        rows = self._rows(X, batch)
        defence = self._trained_defence(loss, targets)
        found = np.empty(rows.X.shape, np.float32)
        for begin in range(0, len(rows), self.group_size):
            chosen = slice(begin, begin + self.group_size)
            found[chosen] = self._moved(defence, rows, targets, batch, chosen) * self.scale_ * units(rows.X, chosen)
        return found.reshape(np.shape(X))

    def _moved(self, defence: Defence, rows: Standardised, targets: Tensor, batch: Any, chosen: Any) -> NDArray[Any]:
        """The perturbation of the chosen rows as one group, (m, features), in the units that the module sees."""
        like = next(self.module_.parameters())
        x = torch.from_numpy(rows[chosen]).to(like)
        batch = None if batch is None else np.asarray(batch)[chosen]
        moved = defence(self.module_, x, targets[chosen].to(like.device), batch)
        return np.asarray((moved - x).flatten(1).cpu().numpy())

    def save(self, folder: str | Path) -> Path:
        """Write the fitted estimator as a folder of safetensors and JSON that `gsat.load` opens.

        Parameters
        ----------
        folder
            A new folder, or that of a model, which is replaced.

        Returns
        -------
        Path
            The folder.
        """
        return save(self, folder)

    def module_input(self, X: Any, batch: Any = None) -> NDArray[np.float32]:
        """The samples as `module_` sees them.

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).
        batch
            One id per sample, for prepare="centre"; None: all samples are of one batch.

        Returns
        -------
        array
            The prepared and standardised samples, (n, features) or (n, *in_shape).
        """
        return self._rows(X, batch)[:]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
