"""Fitted estimators as folders of safetensors and JSON, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from gsat.estimators.base import TorchEstimator
from gsat.estimators.folder import fill, read_folder, write_folder
from gsat.training.history import History

NOT_SAVED = ("callbacks", "device", "verbose")  # they belong to a session, not to a model
NUMBERS = ("lam_", "mean_norm_", "n_features_in_", "n_iter_", "n_samples_", "y_mean_", "y_scale_")
LISTS = {"classes_": None, "feature_names_in_": object}  # with their dtypes, where JSON does not tell


def save(estimator: TorchEstimator, folder: str | Path) -> Path:
    """Write a fitted estimator as a folder that `restored` opens."""
    check_is_fitted(estimator, "module_")
    given = estimator.get_params(deep=False)
    params = {name: _plain(name, value) for name, value in given.items() if name not in NOT_SAVED}
    tensors = {f"module:{name}": value for name, value in estimator.module_.state_dict().items()}
    tensors |= {name: torch.from_numpy(getattr(estimator, name)) for name in ("mean_", "scale_")}
    loss = getattr(estimator, "_loss", None)
    if loss is not None and loss.weights is not None:
        tensors["class_weights"] = loss.weights
    fitted = {name: getattr(estimator, name) for name in NUMBERS if hasattr(estimator, name)}
    fitted |= {name: getattr(estimator, name).tolist() for name in LISTS if hasattr(estimator, name)}
    about = {
        "estimator": type(estimator).__name__,
        "params": params,
        "fitted": fitted,
        "history": {"lam": estimator.history_.lam, "mean_norm": estimator.history_.mean_norm},
    }
    return write_folder(folder, tensors, about)


def restored(folder: str | Path, kinds: Sequence[type[Any]]) -> tuple[Any, dict[str, torch.Tensor]]:
    """The fitted estimator in `folder`, one of `kinds`, and the tensors that were kept with it."""
    path = Path(folder)
    if not (path / "model.json").exists() and (path / "model" / "model.json").exists():
        path = path / "model"  # the folder of a run
    elif (path / "checkpoint").is_dir():
        raise FileNotFoundError(f"{path} has no model yet: its training was stopped; --resume goes on with it")
    tensors, about = read_folder(path)
    by_name = {kind.__name__: kind for kind in kinds}
    if about.get("estimator") not in by_name:
        raise ValueError(f"{path} must hold one of {', '.join(by_name)}, got {about.get('estimator')!r}")
    params = {
        name: dict(value) if name == "class_weight" and isinstance(value, list) else value
        for name, value in about["params"].items()
    }
    try:
        estimator = by_name[about["estimator"]](**params)
    except TypeError as error:
        raise ValueError(f"{path} must be written by this version of gsat, but {error}") from error
    for name in (*NUMBERS, *LISTS):
        if name in about["fitted"]:
            value = about["fitted"][name]
            setattr(estimator, name, np.asarray(value, LISTS[name]) if name in LISTS else value)
    estimator.mean_, estimator.scale_ = tensors.pop("mean_").numpy(), tensors.pop("scale_").numpy()
    n_outputs = len(estimator.classes_) if hasattr(estimator, "classes_") else 1
    estimator.module_ = estimator._build(estimator.n_features_in_, n_outputs, seed=0)
    weights = {name.removeprefix("module:"): value for name, value in tensors.items() if name.startswith("module:")}
    fill(estimator.module_, weights, path)
    estimator.history_ = History(**about.get("history", {}))
    return estimator, tensors


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON holds it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if name == "class_weight" and isinstance(value, dict):
        return [
            [_plain(name, key), _plain(name, weight)] for key, weight in value.items()
        ]  # JSON has only text as keys
    if name == "random_state" and not isinstance(value, int):
        return None  # a generator has moved on: it would not give the same weights again
    if not isinstance(value, str | int | float | bool | None | list | tuple | dict):
        remedy = '; "package.module:factory" can be' if name == "module" else ""
        raise ValueError(f"{name} must be a name, a number or a list to be saved, got {value!r}{remedy}")
    return value
