"""The base of the estimators: scikit-learn's contract on one side, `gsat.gdadmm` on the other."""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Generator, Tensor, nn

from gsat import models
from gsat._numeric import mean_norm
from gsat.adversary import SampleLoss
from gsat.defences import GSAT, Defence
from gsat.oracle import frozen
from gsat.train import gdadmm

CHUNK = 1024  # rows that are dense and standardised at a time


class Standardised:
    """The rows of a matrix as the module sees them: float32, dense, (x − mean)/scale; made when they are asked for.

    X may be dense, sparse (CSR) or a memory map: it is never copied whole.
    """

    def __init__(self, X: Any, mean: NDArray[np.float32], scale: NDArray[np.float32]) -> None:
        self.X, self.mean, self.scale = X, mean, scale
        self.shape = X.shape

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        part = self.X[rows]
        dense = part.toarray() if sparse.issparse(part) else np.asarray(part)
        return np.asarray((dense.astype(np.float32) - self.mean) / self.scale, dtype=np.float32)


def mean_and_scale(X: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and standard deviation of each column, in float64 by blocks of rows; a constant column has scale 1."""
    n, d = X.shape
    mean, square = np.zeros(d), np.zeros(d)
    offset = _block(X, 0, 1)[0]  # deviations from one row lose fewer digits than the columns themselves
    for begin in range(0, n, CHUNK):
        block = _block(X, begin, begin + CHUNK) - offset
        mean += block.sum(0) / n
        square += np.square(block).sum(0) / n
    variance = np.maximum(square - np.square(mean), 0)
    scale = np.sqrt(variance)
    return (mean + offset).astype(np.float32), np.where(scale > 0, scale, 1).astype(np.float32)


def _block(X: Any, begin: int, end: int) -> NDArray[np.float64]:
    part = X[begin:end]
    return np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=np.float64)


class TorchEstimator(BaseEstimator):  # type: ignore[misc]
    """fit and the passes through the module, for classifiers and regressors alike."""

    # what every estimator has, set by its own __init__
    n_outer: int
    group_size: int
    module: Any
    hidden: int
    eta0: float
    schedule: Any
    ema: float | None
    standardize: bool
    device: Any
    warm_start: bool
    callbacks: Any
    verbose: int
    random_state: Any

    @abstractmethod
    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        """The defence; `unit` is E‖X‖₂ where the module sees the data."""

    def _rule(self) -> dict[str, Any]:
        """What gdadmm is told of λ."""
        return {}

    def _fit(self, X: Any, targets: NDArray[Any], n_outputs: int, loss: SampleLoss, batch: Any) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_samples_ = int(X.shape[0])
        device = torch.device("cpu" if self.device is None else self.device)
        d = X.shape[1]
        if self.standardize:
            self.mean_, self.scale_ = mean_and_scale(X)
        else:
            self.mean_, self.scale_ = np.zeros(d, np.float32), np.ones(d, np.float32)
        if not (self.warm_start and hasattr(self, "module_")):
            self.module_ = self._build(d, n_outputs, seed)
        self.module_.to(device)
        rows = Standardised(X, self.mean_, self.scale_)
        unit = mean_norm(rows)
        self.history_ = gdadmm(
            self.module_,
            rows,
            torch.as_tensor(targets),
            self._defence(unit, loss, seed),
            n_outer=self.n_outer,
            group_size=self.group_size,
            eta0=self.eta0,
            schedule=self.schedule,
            ema=self.ema,
            batch=batch,
            loss=loss,
            generator=Generator().manual_seed(seed),
            callbacks=tuple(self.callbacks or ()),
            progress=bool(self.verbose),
            **self._rule(),
        )
        self.module_.eval()
        self.mean_norm_ = unit
        self.lam_ = self.history_.lam
        self.n_iter_ = self.n_outer

    def _build(self, d: int, n_outputs: int, seed: int) -> nn.Module:
        spec = "elu" if self.module is None else self.module
        if isinstance(spec, str):
            return models.build(spec, (d,), n_outputs, seed=seed, **({"hidden": self.hidden} if spec == "elu" else {}))
        if not callable(spec):
            raise TypeError(f"module must be a name, a path or a function of (in_shape, n_outputs), got {spec!r}")
        with models.seeded(seed):
            built = spec((d,), n_outputs)
        if not isinstance(built, nn.Module):
            raise TypeError(f"module must return a torch.nn.Module, got {type(built).__name__}")
        return built

    def _rows(self, X: Any) -> Standardised:
        """New samples, checked against those of fit."""
        check_is_fitted(self, "module_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        return Standardised(X, self.mean_, self.scale_)

    def _outputs(self, X: Any) -> NDArray[np.float64]:
        """What the module returns, (n, outputs)."""
        rows = self._rows(X)
        module = self.module_
        if next(module.parameters()).device.type == "cpu":
            module = deepcopy(module).double()  # so that a sample's result does not depend on the others in the pass
        like = next(module.parameters())
        with frozen(module), torch.no_grad():
            parts = [
                module(torch.from_numpy(rows[begin : begin + CHUNK]).to(like)).double().cpu().numpy()
                for begin in range(0, len(rows), CHUNK)
            ]
        return np.concatenate(parts)

    def _perturb(self, X: Any, targets: Tensor, loss: SampleLoss, batch: Any) -> NDArray[np.float32]:
        """The defence's perturbation of the samples, group by group, in the units of X."""
        rows = self._rows(X)
        like = next(self.module_.parameters())
        defence = self._defence(self.mean_norm_, loss, 0)
        if isinstance(defence, GSAT):
            defence.scale = self.budget * self.mean_norm_ if self.lam == "auto" else None
            defence.lam = self.lam_ if self.lam_ is not None else defence.lam
        parts = []
        for begin in range(0, len(rows), self.group_size):
            chosen = slice(begin, begin + self.group_size)
            x = torch.from_numpy(rows[chosen]).to(like)
            moved = defence(self.module_, x, targets[chosen].to(like.device), None if batch is None else batch[chosen])
            parts.append((moved - x).cpu().numpy() * self.scale_)
        return np.concatenate(parts)

    def module_input(self, X: Any) -> NDArray[np.float32]:
        """The samples as `module_` sees them, standardised; (n, features)."""
        rows = self._rows(X)
        return rows[:]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
