"""Fitted estimators as folders of safetensors and JSON; `loading` opens them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from gsat.estimators.description import GIVEN, check_description, check_tensors
from gsat.estimators.folder import check_finite, write_folder
from gsat.metric import Metric

NOT_SAVED = ("callbacks", "device", "verbose")  # they belong to a session, not to a model
NUMBERS = (
    "lam_",
    "mean_norm_",
    "n_features_in_",
    "n_iter_",
    "n_samples_",
    "temperature_",
    "y_mean_",
    "y_scale_",
    "values_",
)
LISTS = {"classes_": None, "feature_names_in_": object, "batches_": None}  # with their dtypes, where JSON does not tell


AVERAGE = "AverageClassifier"  # whose members are in one folder
SHARED = ("classes_", "n_features_in_", "feature_names_in_")  # what is the same for all members
INSTANCE = "instance:"  # before the class of a module that was given as an object


def save(estimator: Any, folder: str | Path) -> Path:
    """Write a fitted estimator as a folder that `gsat.load` opens."""
    return write_folder(folder, *_described(estimator))


def save_average(members: Sequence[Any], folder: str | Path) -> Path:
    """Write fitted classifiers as one folder; what they have in common stands there once, tensors have numbers."""
    every = [_described(one) for one in members]
    shared = {name: value for name, value in every[0][1]["fitted"].items() if name in SHARED}
    for _, about in every:
        about["fitted"] = {name: value for name, value in about["fitted"].items() if name not in SHARED}
    tensors = {f"{i}:{name}": value for i, (own, _) in enumerate(every) for name, value in own.items()}
    return write_folder(
        folder, tensors, {"estimator": AVERAGE, "fitted": shared, "members": [about for _, about in every]}
    )


def _described(estimator: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a fitted estimator, and everything else, checked as they will be when they are loaded."""
    check_is_fitted(estimator, "module_")
    given = estimator.get_params(deep=False)
    params = {name: _plain(name, value) for name, value in given.items() if name not in NOT_SAVED}
    tensors = {f"module:{name}": value for name, value in estimator.module_.state_dict().items()}
    tensors |= {name: torch.from_numpy(getattr(estimator, name)) for name in ("mean_", "scale_")}
    if (metric := estimator.metric_) is not None:
        tensors |= {"metric:directions": metric.directions, "metric:stretch": metric.stretch}
        tensors["metric:rest"] = torch.tensor([metric.rest], dtype=torch.float64)
    loss = getattr(estimator, "_loss", None)
    if loss is not None and loss.weights is not None:
        tensors["class_weights"] = loss.weights
    fitted = {name: getattr(estimator, name) for name in NUMBERS if hasattr(estimator, name)}
    fitted |= {name: getattr(estimator, name) for name in ("values_",) if hasattr(estimator, name)}
    fitted |= {name: getattr(estimator, name).tolist() for name in LISTS if hasattr(estimator, name)}
    about = {
        "estimator": type(estimator).__name__,
        "params": params,
        "fitted": fitted,
        "history": {"lam": estimator.history_.lam, "mean_norm": estimator.history_.mean_norm},
    }
    check_finite(estimator.module_)
    check_description(about, set(params))  # what could not be loaded is not written
    check_tensors(tensors, fitted)
    return tensors, about


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON holds it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if name == "class_weight" and isinstance(value, dict):
        return [
            [_plain(name, key), _plain(name, weight)] for key, weight in value.items()
        ]  # JSON has only text as keys
    if isinstance(value, Metric):
        return GIVEN
    if isinstance(value, nn.Module):
        return f"{INSTANCE}{type(value).__module__}.{type(value).__qualname__}"
    if name == "random_state" and not isinstance(value, int):
        return None  # a generator has moved on: it would not give the same weights again
    if not isinstance(value, str | int | float | bool | None | list | tuple | dict):
        remedy = '; "package.module:factory" and a torch.nn.Module can be' if name == "module" else ""
        raise ValueError(f"{name} must be a name, a number or a list to be saved, got {value!r}{remedy}")
    return value
