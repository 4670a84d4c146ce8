"""The base of the estimators: scikit-learn's contract on one side, `gsat.gdadmm` on the other."""

from __future__ import annotations

import math
from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Generator, Tensor, nn

from gsat import _checks, _defaults, models
from gsat._arrays.chunks import pieces
from gsat._arrays.norms import mean_norm
from gsat._arrays.standardise import Standardised, mean_and_scale
from gsat.defences import Defence
from gsat.estimators.saving import save
from gsat.losses import SampleLoss
from gsat.models import layout
from gsat.models.modes import frozen
from gsat.training import History, gdadmm

CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float32, np.float64]}  # of samples, here and in fit


class Fitted(BaseEstimator):  # type: ignore[misc]
    """What `fit` leaves on an estimator; apart, so that these names do not become parameters."""

    module_: nn.Module
    history_: History
    lam_: float | None
    mean_norm_: float
    mean_: NDArray[np.float32]
    scale_: NDArray[np.float32]
    n_samples_: int
    n_iter_: int


@dataclass(eq=False, repr=False, kw_only=True)
class TorchEstimator(Fitted):
    """fit and the passes through the module, for classifiers and regressors alike.

    The fields are scikit-learn's parameters: they are stored as they are given, and `fit` checks them.
    """

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
    device: Any = None
    warm_start: bool = False
    callbacks: Any = None
    verbose: int = 0
    random_state: Any = None

    @abstractmethod
    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        """The defence; `unit` is E‖X‖₂ where the module sees the data."""

    def _rule(self) -> dict[str, Any]:
        """What gdadmm is told of λ."""
        return {}

    def _trained_defence(self, loss: SampleLoss) -> Defence:
        """The defence as training left it."""
        return self._defence(self.mean_norm_, loss, 0)

    def _checked(self, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[Any]]:
        """X (n, features) and y as scikit-learn checks them before a fit."""
        _checks.not_anndata("X", X, "gsat.tl.fit(adata, labels_key)")
        X, y = validate_data(self, self._flat(X), y, ensure_min_samples=2, **CHECKS, **options)
        _checks.fits_float32("X", X)
        return X, y

    def _fit(
        self,
        X: Any,
        targets: NDArray[Any],
        n_outputs: int,
        loss: SampleLoss,
        batch: Any,
        *,
        seed: int | None = None,
        out: str | Path | None = None,
        resume: bool = False,
    ) -> None:
        if seed is None:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._check_module()
        self.n_samples_ = int(X.shape[0])
        d = X.shape[1]
        if self.standardize:
            self.mean_, self.scale_ = mean_and_scale(X)
        else:
            self.mean_, self.scale_ = np.zeros(d, np.float32), np.ones(d, np.float32)
        rows = Standardised(X, self.mean_, self.scale_, self.in_shape)
        goes_on = self.warm_start and hasattr(self, "module_")
        module = self.module_ if goes_on else self._build(d, n_outputs, seed)
        module.to(torch.device("cpu" if self.device is None else self.device))
        _probe(module, rows, n_outputs)
        unit = rows.mean_norm = mean_norm(rows)
        if not math.isfinite(unit):
            raise ValueError(f"X must have a finite mean norm E‖X‖ in float32, got {unit}; scale the features down")
        defence = self._defence(unit, loss, seed)
        self.history_ = gdadmm(
            module,
            rows,
            torch.as_tensor(targets),
            defence,
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
            out=out,
            resume=resume,
            **self._rule(),
        )
        self.module_ = module.eval()
        self.module_.zero_grad()
        self.mean_norm_ = unit
        self.lam_ = self.history_.lam
        self.n_iter_ = self.n_outer

    def _check_module(self) -> None:
        """Raise unless what is given beside the module has the right types."""
        if self.in_shape is not None and not isinstance(self.in_shape, list | tuple):
            raise TypeError(f"in_shape must be a list of whole numbers, got {self.in_shape!r}")
        if self.module_options is not None and not isinstance(self.module_options, dict):
            raise TypeError(f"module_options must be a dict, got {self.module_options!r}")

    def _build(self, d: int, n_outputs: int, seed: int) -> nn.Module:
        shape = (d,) if self.in_shape is None else tuple(self.in_shape)
        if math.prod(shape) != d:
            raise ValueError(f"in_shape must have as many entries as there are features ({d}), got {shape}")
        spec = "elu" if self.module is None else self.module
        options = {**({"hidden": self.hidden} if spec == "elu" else {}), **(self.module_options or {})}
        if "hidden" in options:
            _checks.count("hidden", options["hidden"], least=1)
        if isinstance(spec, str):
            return models.build(spec, shape, n_outputs, seed=seed, **options)
        if not callable(spec):
            raise TypeError(f"module must be a name, a path or a function of (in_shape, n_outputs), got {spec!r}")
        with models.seeded(seed):
            built = spec(shape, n_outputs, **options)
        if not isinstance(built, nn.Module):
            raise TypeError(f"module must return a torch.nn.Module, got {type(built).__name__}")
        return built

    def _flat(self, X: Any) -> Any:
        """Samples of shape `in_shape` as rows; everything else is left to scikit-learn's checks."""
        shape = self.in_shape
        if isinstance(shape, list | tuple) and tuple(getattr(X, "shape", ())[1:]) == tuple(shape):
            return X.reshape(len(X), -1)
        return X

    def _rows(self, X: Any) -> Standardised:
        """New samples, checked against those of fit."""
        check_is_fitted(self, "module_")
        _checks.not_anndata("X", X, "gsat.tl.predict(adata, classifier)")
        X = validate_data(self, self._flat(X), reset=False, **CHECKS)
        _checks.fits_float32("X", X)
        return Standardised(X, self.mean_, self.scale_, self.in_shape)

    def _outputs(self, X: Any) -> NDArray[np.float64]:
        """What the module returns, (n, outputs)."""
        rows = self._rows(X)
        module = self.module_
        if next(module.parameters()).device.type == "cpu":
            module = deepcopy(module).double()  # so that a sample's result does not depend on the others in the pass
        like = next(module.parameters())
        found = []
        room = torch.empty(0)  # one block of memory for all parts: freed and taken anew, glibc lets it grow
        with frozen(module), torch.no_grad():
            for part in pieces(len(rows), rows.X.shape[1], times=4):
                x = torch.from_numpy(rows[part])
                room = room if room.numel() else torch.empty_like(x, dtype=like.dtype, device=like.device)
                found.append(module(room[: len(x)].copy_(x)).double().cpu().numpy().copy())
        outputs = np.concatenate(found)
        if not np.isfinite(outputs).all():
            wrong = int((~np.isfinite(outputs)).any(1).sum())
            raise ValueError(
                f"the outputs of the module must be finite, got NaN or infinite ones for {wrong} of {len(rows)} samples"
            )
        return outputs

    def _perturb(self, X: Any, targets: Tensor, loss: SampleLoss, batch: Any) -> NDArray[np.float32]:
        """The defence's perturbation of the samples, group by group, in the units and the shape of X."""
        rows = self._rows(X)
        like = next(self.module_.parameters())
        defence = self._trained_defence(loss)
        batch = None if batch is None else np.asarray(batch)
        found = np.empty(rows.X.shape, np.float32)
        for begin in range(0, len(rows), self.group_size):
            chosen = slice(begin, begin + self.group_size)
            x = torch.from_numpy(rows[chosen]).to(like)
            moved = defence(self.module_, x, targets[chosen].to(like.device), None if batch is None else batch[chosen])
            found[chosen] = (moved - x).flatten(1).cpu().numpy() * self.scale_
        return found.reshape(np.shape(X))

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

    def module_input(self, X: Any) -> NDArray[np.float32]:
        """The samples as `module_` sees them.

        Parameters
        ----------
        X
            Samples (n, features), or (n, *in_shape).

        Returns
        -------
        array
            The standardised samples, (n, features) or (n, *in_shape).
        """
        return self._rows(X)[:]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _probe(module: nn.Module, rows: Standardised, n_outputs: int) -> None:
    """A module of the user's may not fit the data: better said before training than by torch in the middle."""
    x = torch.from_numpy(rows[:2]).to(next(module.parameters(), torch.zeros(())))
    rule = f"the module must map samples of shape {rows.shape[1:]} to {n_outputs} outputs"
    with frozen(module), torch.no_grad():
        try:
            outputs = layout.outputs(module, x)
        except RuntimeError as error:
            raise ValueError(f"{rule}, but fails on them: {error}") from error
    if tuple(outputs.shape) != (len(x), n_outputs):
        raise ValueError(f"{rule}, got an output of shape {tuple(outputs.shape)} for {len(x)} samples")
