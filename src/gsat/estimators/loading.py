"""Fitted estimators from the folders that `saving` writes; nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gsat.estimators.base import TorchEstimator
from gsat.estimators.baselines import (
    ERMClassifier,
    FGMClassifier,
    FGSMClassifier,
    PGDClassifier,
    StructuredATClassifier,
    UniversalATClassifier,
)
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.folder import fill, read_folder
from gsat.estimators.gsat import GSATClassifier, GSATRegressor
from gsat.estimators.saving import LISTS, NUMBERS
from gsat.losses import WeightedCrossEntropy
from gsat.training import History

KINDS: tuple[type[TorchEstimator], ...] = (
    GSATClassifier,
    ERMClassifier,
    PGDClassifier,
    FGMClassifier,
    FGSMClassifier,
    UniversalATClassifier,
    StructuredATClassifier,
    GSATRegressor,
)
BY_NAME = {kind.__name__: kind for kind in KINDS}


def load(folder: str | Path) -> Any:
    """The fitted estimator that `save` or `gsat train` wrote.

    Nothing is unpickled. A module given as "package.module:factory" is imported and called, as in fit: open such a
    folder only if you trust where it comes from.

    Parameters
    ----------
    folder
        The folder of the model, or that of the run.

    Returns
    -------
    estimator
        A classifier or a regressor, as it was saved.
    """
    path = _model_folder(Path(folder))
    tensors, about = read_folder(path)
    estimator = _unfitted(path, about)
    for name in (*NUMBERS, *LISTS):
        if name in about["fitted"]:
            value = about["fitted"][name]
            setattr(estimator, name, np.asarray(value, LISTS[name]) if name in LISTS else value)
    estimator.mean_, estimator.scale_ = tensors["mean_"].numpy(), tensors["scale_"].numpy()
    n_outputs = 1
    if isinstance(estimator, TorchClassifier):
        n_outputs = len(estimator.classes_)
        estimator._loss = WeightedCrossEntropy(tensors.get("class_weights"))
    estimator.module_ = estimator._build(estimator.n_features_in_, n_outputs, seed=0)
    weights = {name.removeprefix("module:"): value for name, value in tensors.items() if name.startswith("module:")}
    fill(estimator.module_, weights, path)
    estimator.history_ = History(**about.get("history", {}))
    return estimator


def _model_folder(path: Path) -> Path:
    """The folder of the model, where `path` is that or the folder of a run."""
    if not (path / "model.json").exists() and (path / "model" / "model.json").exists():
        return path / "model"
    if (path / "checkpoint").is_dir():
        raise FileNotFoundError(f"{path} has no model yet: its training was stopped; --resume goes on with it")
    return path


def _unfitted(path: Path, about: dict[str, Any]) -> TorchEstimator:
    """The estimator with its parameters."""
    if about.get("estimator") not in BY_NAME:
        raise ValueError(f"{path} must hold one of {', '.join(BY_NAME)}, got {about.get('estimator')!r}")
    params = dict(about["params"])
    if isinstance(params.get("class_weight"), list):
        params["class_weight"] = dict(params["class_weight"])
    try:
        return BY_NAME[about["estimator"]](**params)
    except TypeError as error:
        raise ValueError(f"{path} must be written by this version of gsat, but {error}") from error
