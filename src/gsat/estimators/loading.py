"""Fitted estimators from the folders that `saving` writes; nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gsat import _checks
from gsat.estimators.average import AverageClassifier
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
from gsat.estimators.description import GIVEN, check_average, check_description, check_tensors
from gsat.estimators.folder import fill, read_folder
from gsat.estimators.gsat import GSATClassifier
from gsat.estimators.lda import LDAClassifier
from gsat.estimators.linear import LinearClassifier
from gsat.estimators.module import build_module
from gsat.estimators.regressor import GSATRegressor
from gsat.estimators.rivals import CORALClassifier, GroupDROClassifier, RandomDrawsClassifier
from gsat.estimators.saving import AVERAGE, INSTANCE, LISTS, NOT_SAVED
from gsat.losses import WeightedCrossEntropy
from gsat.metric import Metric
from gsat.models.build import NAMED as OWN
from gsat.training import History

KINDS: tuple[type[TorchEstimator], ...] = (
    GSATClassifier,
    ERMClassifier,
    PGDClassifier,
    FGMClassifier,
    FGSMClassifier,
    UniversalATClassifier,
    StructuredATClassifier,
    LinearClassifier,
    LDAClassifier,
    GroupDROClassifier,
    CORALClassifier,
    RandomDrawsClassifier,
    GSATRegressor,
)
BY_NAME = {kind.__name__: kind for kind in KINDS}
CLASSIFIERS = tuple(name for name, kind in BY_NAME.items() if issubclass(kind, TorchClassifier))
UNUSED = {"n_inner"}  # saved by earlier versions with estimators that made no use of it, and no longer have it


def load(folder: str | Path, *, module: nn.Module | None = None, trust_module: bool = False) -> Any:
    """The fitted estimator that `save` or `gsat train` wrote.

    Nothing is unpickled, and only gsat's own networks are built: a folder from someone else runs no code of his.

    Parameters
    ----------
    folder
        The folder of the model, or that of the run.
    module
        For a model whose module was given as an object: one of the same layers, which gets the weights in a copy.
    trust_module
        Whether a module of "package.module:factory" is imported and called, as in fit. That runs whatever code the
        folder names: only for a folder whose origin you trust.

    Returns
    -------
    estimator
        A classifier or a regressor, as it was saved.

    Examples
    --------
    >>> import tempfile
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.ERMClassifier(n_outer=40, eta0=0.03, hidden=10, random_state=0).fit(table.X, table.y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = gsat.load(clf.save(f"{folder}/model"))

    >>> bool((again.predict(table.X) == clf.predict(table.X)).all())
    True
    """
    path = _model_folder(Path(folder))
    tensors, about = read_folder(path)
    try:
        return _fitted(path, tensors, about, module, trust_module=trust_module)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _fitted(
    path: Path, tensors: dict[str, Tensor], about: dict[str, Any], module: nn.Module | None, *, trust_module: bool
) -> TorchEstimator | AverageClassifier:
    """The estimator of a folder, every field of which is checked before it is used."""
    _checks.one_of("estimator", about.get("estimator"), (*BY_NAME, AVERAGE))
    if about["estimator"] == AVERAGE:
        return AverageClassifier.of(_members(path, tensors, about, module, trust_module=trust_module))
    kind = BY_NAME[about["estimator"]]
    allowed = set(kind._get_param_names()) - set(NOT_SAVED)
    if isinstance(about.get("params"), dict):
        about["params"] = {name: value for name, value in about["params"].items() if name not in UNUSED - allowed}
    check_description(about, allowed)
    fitted = about["fitted"]
    check_tensors(tensors, fitted)
    estimator = _unfitted(kind, about["params"])
    if module is not None or (isinstance(estimator.module, str) and estimator.module.startswith(INSTANCE)):
        estimator.module = _given(estimator.module, module)
    for name, value in fitted.items():
        setattr(estimator, name, np.asarray(value, LISTS[name]) if name in LISTS else value)
    estimator.mean_, estimator.scale_ = tensors["mean_"].numpy(), tensors["scale_"].numpy()
    if "metric:directions" in tensors:
        directions, stretch, rest = (tensors[f"metric:{name}"] for name in ("directions", "stretch", "rest"))
        estimator.metric_ = Metric(directions, stretch, float(rest))
    if about["params"].get("metric") == GIVEN:
        estimator.set_params(metric=estimator.metric_)
    if isinstance(estimator, TorchClassifier):
        estimator._loss = WeightedCrossEntropy(tensors.get("class_weights"))
    weights = {name.removeprefix("module:"): value for name, value in tensors.items() if name.startswith("module:")}
    estimator.module_ = _module(path, estimator, len(fitted.get("classes_", "1")), weights, trust_module=trust_module)
    fill(estimator.module_, weights, path)
    estimator.history_ = History(**about.get("history", {}))
    return estimator


def _members(
    path: Path, tensors: dict[str, Tensor], about: dict[str, Any], module: nn.Module | None, *, trust_module: bool
) -> list[TorchClassifier]:
    """The classifiers of an average, each checked as if it stood alone."""
    shared, members = check_average(about)
    own: list[dict[str, Tensor]] = [{} for _ in members]
    for name, value in tensors.items():
        number, _, rest = name.partition(":")
        if not number.isdecimal() or str(int(number)) != number or int(number) >= len(members):
            raise ValueError(f"must have the tensors of its members, got the unknown tensor {_checks.shown(name)}")
        own[int(number)][rest] = value
    found: list[Any] = []
    for i, (member, held) in enumerate(zip(members, own, strict=True)):
        try:
            _checks.one_of("estimator", member.get("estimator"), CLASSIFIERS)
            fitted = {**member["fitted"], **shared}
            one = _fitted(path, held, {**member, "fitted": fitted}, module, trust_module=trust_module)
        except (ValueError, TypeError) as error:
            raise ValueError(f"member {i}: {error}") from error
        found.append(one)
    return found


def _module(path: Path, estimator: Any, n_outputs: int, weights: dict[str, Tensor], *, trust_module: bool) -> nn.Module:
    """The network without its weights; one of gsat's own has the sizes of the weights before it is allocated."""
    spec = estimator.module
    if isinstance(spec, nn.Module):
        return build_module(estimator, n_outputs, seed=0)
    if spec is None or spec in OWN:
        try:
            with torch.device("meta"):  # shapes alone, no memory
                blank = build_module(estimator, n_outputs, seed=0)
        except (RuntimeError, OverflowError) as error:
            raise ValueError(f"the sizes of the network must be those of its weights, got {error}") from error
        _same_shapes(blank, weights)
    elif not trust_module:
        raise ValueError(
            f"{path / 'model.json'} names the module {spec!r}, which is not of gsat and would be imported and called; "
            "gsat.load(..., trust_module=True) or --trust-module does so, if you trust where the folder comes from"
        )
    return build_module(estimator, n_outputs, seed=0)


def _given(saved: Any, module: Any) -> nn.Module:
    """The object that stands for a module that was given as one."""
    if not isinstance(saved, str) or not saved.startswith(INSTANCE):
        raise ValueError(f"module must be None for a model whose module has a name, {saved!r}, got {module!r}")
    if not isinstance(module, nn.Module):
        kind = saved.removeprefix(INSTANCE)
        raise ValueError(f"its module was given as an object: gsat.load(..., module=) needs a {kind}, got {module!r}")
    return module


def _same_shapes(blank: nn.Module, weights: dict[str, Tensor]) -> None:
    """Raise unless the weights are numbers of the shapes that the network has."""
    wanted = {name: tuple(value.shape) for name, value in blank.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in weights.items()}
    for name in {**wanted, **given}:
        if wanted.get(name) != given.get(name):
            raise ValueError(
                f"the weights must have the shapes of the network, {_checks.shown(name)[1:-1]} "
                f"{wanted.get(name, 'none')}, got {given.get(name, 'none')}"
            )
        if not weights[name].is_floating_point():
            raise ValueError(f"module:{name} must be of numbers with a point, got {weights[name].dtype}")


def _model_folder(path: Path) -> Path:
    """The folder of the model, where `path` is that or the folder of a run."""
    if not (path / "model.json").exists() and (path / "model" / "model.json").exists():
        return path / "model"
    if (path / "checkpoint").is_dir() or (path / "choice.jsonl").is_file():
        raise FileNotFoundError(f"{path} has no model yet: its training was stopped; --resume goes on with it")
    return path


def _unfitted(kind: type[TorchEstimator], params: dict[str, Any]) -> TorchEstimator:
    """The estimator with its parameters."""
    if isinstance(params.get("class_weight"), list):
        params = {**params, "class_weight": dict(params["class_weight"])}
    return kind(**params)
