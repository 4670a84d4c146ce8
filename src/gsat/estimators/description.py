"""What model.json may say of a model: every field is typed and bounded here, before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

from gsat import _checks, _defaults, registry
from gsat.solvers.inner import NAMED as SOLVERS

Rule = Callable[[str, Any], Any]

MOST = 2**40  # of any size or count: beyond every machine, and far from the limits of a 64-bit number
LONGEST = 1000  # characters of a name
SCALAR = (str, int, float, bool)
GIVEN = "given"  # a metric that was given as an object: it is among the tensors


def check_description(about: dict[str, Any], allowed: set[str]) -> None:
    """Raise unless params, fitted and history are those of a fitted estimator; `allowed` are its parameters."""
    for name in ("params", "fitted"):
        _object(name, about.get(name))
    params, fitted, history = about["params"], about["fitted"], _object("history", about.get("history", {}))
    if unknown := sorted(set(params) - allowed):
        raise ValueError(f"params must be those of {about['estimator']}, got {', '.join(unknown)[:LONGEST]}")
    for name, value in params.items():
        if name not in PARAMS:
            raise ValueError(f"params must have only those that can be saved, got {_checks.shown(name)}")
        PARAMS[name](name, value)
    needed = ["n_features_in_", "mean_norm_", "n_samples_", "n_iter_"]
    needed += ["y_mean_", "y_scale_"] if about["estimator"].endswith("Regressor") else ["classes_"]
    needed += ["batches_"] if about["estimator"] == "GroupDROClassifier" else []
    for name in needed:
        if name not in fitted:
            raise ValueError(f"fitted must have {name}, got none")
    for name, value in fitted.items():
        if name not in FITTED:
            raise ValueError(f"fitted must have only results of fit, got {_checks.shown(name)}")
        FITTED[name](name, value)
    if set(history) - {"lam", "mean_norm"}:
        raise ValueError(f"history must hold lam and mean_norm, got {_checks.shown(sorted(history))}")
    for name, value in history.items():
        _real_or_none(name, value)
    _check_sizes(params, fitted)
    _check_module(params)


def check_tensors(tensors: dict[str, Tensor], fitted: dict[str, Any]) -> None:
    """Raise unless the tensors beside the weights have the sizes of the description, and all are finite numbers."""
    d, n_classes = fitted["n_features_in_"], len(fitted.get("classes_", ()))
    r = len(stretch) if (stretch := tensors.get("metric:stretch")) is not None and stretch.ndim else 0
    shapes: dict[str, tuple[int, ...]] = {"mean_": (d,), "scale_": (d,), "class_weights": (n_classes,)}
    metric = {"metric:directions": (r, d), "metric:stretch": (r,), "metric:rest": (1,)}
    if (some := metric.keys() & tensors) and len(some) < len(metric):
        raise ValueError(f"must have all of {', '.join(metric)} or none, got {', '.join(sorted(some))}")
    shapes |= metric
    for name in ("mean_", "scale_"):
        if name not in tensors:
            raise ValueError(f"must have the tensor {name}, got none")
    for name, value in sorted(tensors.items()):
        if name in shapes and tuple(value.shape) != shapes[name]:
            raise ValueError(f"{name} must have shape {shapes[name]}, got {tuple(value.shape)}")
        if name not in shapes and not name.startswith("module:"):
            raise ValueError(f"must have the tensors of a model, got the unknown tensor {_checks.shown(name)}")
        if name in shapes and not value.is_floating_point():
            raise ValueError(f"{name} must be of numbers with a point, got {value.dtype}")
        if name in shapes and not bool(value.isfinite().all()):
            raise ValueError(f"{name} must be finite, got NaN or an infinite number")
    if not bool((tensors["scale_"] > 0).all()):
        raise ValueError(f"scale_ must be > 0, got {float(tensors['scale_'].min()):g}")
    if "class_weights" in tensors and not bool((tensors["class_weights"] >= 0).all()):
        raise ValueError(f"class_weights must be >= 0, got {float(tensors['class_weights'].min()):g}")


def _check_sizes(params: dict[str, Any], fitted: dict[str, Any]) -> None:
    """Raise unless what belongs to the features has as many entries as there are features."""
    d = fitted["n_features_in_"]
    shape = params.get("in_shape")
    if shape is not None and math.prod(shape) != d:
        raise ValueError(f"in_shape must have as many entries as there are features ({d}), got {tuple(shape)}")
    for name, value in (("feature_groups", params), ("feature_names_in_", fitted)):
        if value.get(name) is not None and len(value[name]) != d:
            raise ValueError(f"{name} must have one entry per feature ({d}), got {len(value[name])}")
    mask = params.get("feature_mask")
    if mask is not None and _mask_size(mask) != d:
        raise ValueError(f"feature_mask must have one of true or false per feature ({d}), got {_checks.shown(mask)}")


def _check_module(params: dict[str, Any]) -> None:
    """Raise unless the options of gsat's own networks are theirs; those of a user's module are his."""
    module = params.get("module") or "elu"
    if module not in OPTIONS:
        return
    for name, value in (params.get("module_options") or {}).items():
        if name not in OPTIONS[module]:
            known = ", ".join(OPTIONS[module])
            raise ValueError(
                f"module_options must be among {known} for the module {module}, got {_checks.shown(name)[1:-1]}"
            )
        OPTIONS[module][name](name, value)


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object, got {_checks.shown(value)}")
    return value


def _whole(least: int = 0, most: int = MOST) -> Rule:
    return lambda name, value: _checks.count(name, value, least=least, most=most)


def _real(**limits: float) -> Rule:
    return lambda name, value: _checks.number(name, value, **limits)


def _or_none(rule: Rule) -> Rule:
    return lambda name, value: None if value is None else rule(name, value)


def _name_of(table: Any) -> Rule:
    return lambda name, value: _checks.one_of(name, value, tuple(table))


def _flag(name: str, value: Any) -> None:
    if value not in (True, False) or not isinstance(value, int):
        raise ValueError(f"{name} must be true or false, got {_checks.shown(value)}")


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {_checks.shown(value)}")
    if len(value) > LONGEST:
        raise ValueError(f"{name} must be text of at most {LONGEST} characters, got {len(value)}")


def _lam(name: str, value: Any) -> None:
    if isinstance(value, str):
        _checks.one_of(name, value, ("auto", "paper"))
    else:
        _checks.number(name, value, least=0)


def _shape(name: str, value: Any) -> None:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 8:
        raise ValueError(f"{name} must be a list of whole numbers, 1 to 8 of them, got {_checks.shown(value)}")
    for side in value:
        _checks.count(name, side, least=1, most=MOST)


def _scalars(name: str, value: Any) -> None:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, SCALAR) or entry is None for entry in value):
        raise ValueError(f"{name} must be a list of text or numbers, got {_checks.shown(value)}")


def _texts(name: str, value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ValueError(f"{name} must be a list of text, got {_checks.shown(value)}")


def _classes(name: str, value: Any) -> None:
    """As numpy.unique leaves them: of one kind, each once and in order."""
    _scalars(name, value)
    if len(value) < 2:
        raise ValueError(f"{name} must have at least 2 entries, got {len(value)}")
    if not any(all(isinstance(entry, kind) for entry in value) for kind in (str, bool, int, float)):
        raise ValueError(f"{name} must be all text or all numbers, got {_checks.shown(value)}")
    if not isinstance(value[0], str):
        for entry in value:
            _checks.number(name, int(entry) if isinstance(entry, bool) else entry, least=-(2**63), below=2**63)
    if not all(one < other for one, other in pairwise(value)):
        raise ValueError(f"{name} must be distinct and in order, got {_checks.shown(value)}")


def _class_weight(name: str, value: Any) -> None:
    if isinstance(value, str):
        _checks.one_of(name, value, ("balanced",))
        return
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise ValueError(f'{name} must be "balanced" or a list of pairs, got {_checks.shown(value)}')
    _scalars(name, [label for label, _ in value])
    for _, weight in value:
        _checks.number(name, weight, least=0)


def _mask_size(value: Any) -> int:
    """The entries of a mask, flat or in the shape of a sample; −1 for anything else."""
    try:
        mask = np.asarray(value)
    except ValueError:  # lists of different lengths
        return -1
    return mask.size if mask.dtype == bool else -1


def _values(name: str, value: Any) -> None:
    """What the numbers of the training samples looked like."""
    wanted = {"whole", "low", "high", "zeros", "sum", "sum_low", "sum_high", "features"}
    if set(_object(name, value)) != wanted:
        raise ValueError(f"{name} must have {', '.join(sorted(wanted))}, got {_checks.shown(sorted(value))}")
    for each, number in value.items():
        _checks.number(f"{name}:{each}", number)


def _list(name: str, value: Any) -> None:
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {_checks.shown(value)}")


_real_or_none = _or_none(_real(least=0))

PARAMS: dict[str, Rule] = {
    "n_outer": _whole(1),
    "group_size": _whole(1),
    "module": _or_none(_text),
    "module_options": _or_none(_object),
    "in_shape": _or_none(_shape),
    "hidden": _whole(),
    "eta0": _real(least=0),
    "schedule": _name_of(("constant", "cosine")),
    "ema": _or_none(_real(least=0, most=1)),
    "standardize": _flag,
    "prepare": _name_of(_defaults.PREPARATIONS),
    "normalise": _name_of(_defaults.NORMALISATIONS),
    "warm_start": _flag,
    "early_stopping": _flag,
    "validation_fraction": _real(above=0, below=1),
    "validation_batches": _or_none(_scalars),
    "n_iter_no_change": _whole(1),
    "calibrate": _flag,
    "random_state": _or_none(_whole(-(2**63), 2**63)),
    "class_weight": _or_none(_class_weight),
    "structure": _name_of(registry.STRUCTURES),
    "lam": _lam,
    "budget": _real(least=0),
    "alpha": _or_none(_real(least=0, most=1)),
    "k": _or_none(_whole()),
    "solver": _name_of(SOLVERS),
    "n_inner": _whole(),
    "feature_groups": _or_none(_scalars),
    "feature_mask": _or_none(_list),
    "metric": _or_none(_name_of((*_defaults.METRICS, GIVEN))),
    "gamma": _real(least=0),
    "eps": _real(least=0),
    "C": _real(above=0),
    "step": _real(least=0),
    "strength": _real(least=0),
}
FITTED: dict[str, Rule] = {
    "lam_": _real_or_none,
    "mean_norm_": _real(least=0),
    "n_features_in_": _whole(1),
    "n_iter_": _whole(),
    "n_samples_": _whole(1),
    "temperature_": _real(above=0),
    "values_": _values,
    "y_mean_": _real(),
    "y_scale_": _real(above=0),
    "classes_": _classes,
    "feature_names_in_": _texts,
    "batches_": _scalars,
}
OPTIONS: dict[str, dict[str, Rule]] = {  # of gsat's own networks
    "elu": {"hidden": _whole()},
    "alexnet": {"width": _real(above=0, most=1000), "channels_last": _or_none(_flag)},
}
