"""The network of an estimator: built by name, by a function or from an instance, and tried before training."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gsat import _checks, models
from gsat._arrays.chunks import pieces
from gsat.models import layout
from gsat.models.modes import frozen


def check_module(in_shape: Any, module_options: Any) -> None:
    """Raise unless what is given beside the module has the right types."""
    if in_shape is not None and not isinstance(in_shape, list | tuple):
        raise TypeError(f"in_shape must be a list of whole numbers, got {in_shape!r}")
    if module_options is not None and not isinstance(module_options, dict):
        raise TypeError(f"module_options must be a dict, got {module_options!r}")


def build_module(estimator: Any, n_outputs: int, seed: int) -> nn.Module:
    """The network that the estimator's module, module_options, in_shape and hidden ask for, before training.

    Parameters
    ----------
    estimator
        With n_features_in_, and with these parameters; a module that is an instance is copied.
    n_outputs
        Classes, or 1 for a regressor.
    seed
        Of the first weights; those of an instance stay as they are.

    Returns
    -------
    nn.Module
        The network.
    """
    d = estimator.n_features_in_
    shape = (d,) if estimator.in_shape is None else tuple(estimator.in_shape)
    if math.prod(shape) != d:
        raise ValueError(f"in_shape must have as many entries as there are features ({d}), got {shape}")
    spec = "elu" if estimator.module is None else estimator.module
    if isinstance(spec, nn.Module):
        if estimator.module_options:
            raise ValueError(f"module_options must be None for a module instance, got {estimator.module_options!r}")
        return deepcopy(spec)
    options = {**({"hidden": estimator.hidden} if spec == "elu" else {}), **(estimator.module_options or {})}
    if "hidden" in options:
        _checks.count("hidden", options["hidden"])
    if isinstance(spec, str):
        return models.build(spec, shape, n_outputs, seed=seed, **options)
    if not callable(spec):
        raise TypeError(
            f"module must be a name, a path, a function of (in_shape, n_outputs) or a torch.nn.Module, got {spec!r}"
        )
    with models.seeded(seed):
        try:
            built = spec(shape, n_outputs, **options)
        except TypeError as error:
            if isinstance(spec, type) and issubclass(spec, nn.Module):
                name = spec.__name__
                raise TypeError(
                    f"module must be an instance, {name}(...), or a class that is called as "
                    f"{name}(in_shape, n_outputs): {error}"
                ) from error
            raise
    if not isinstance(built, nn.Module):
        raise TypeError(f"module must return a torch.nn.Module, got {type(built).__name__}")
    return built


def probe(module: nn.Module, rows: Any, n_outputs: int) -> None:
    """A module of the user's may not fit the data: better said before training than by torch in the middle."""
    if not any(weight.requires_grad for weight in module.parameters()):
        raise ValueError("the module must have weights that require a gradient, got none; see requires_grad_(True)")
    x = torch.from_numpy(rows[:2]).to(next(module.parameters(), torch.zeros(())))
    rule = f"the module must map samples of shape {rows.shape[1:]} to {n_outputs} outputs"
    with frozen(module), torch.no_grad():
        try:
            outputs = layout.outputs(module, x)
        except RuntimeError as error:
            raise ValueError(f"{rule}, but fails on them: {error}") from error
    if not isinstance(outputs, torch.Tensor):
        raise TypeError(f"{rule}, a tensor, got {type(outputs).__name__}; wrap it in a module that returns the tensor")
    if tuple(outputs.shape) != (len(x), n_outputs):
        raise ValueError(f"{rule}, got an output of shape {tuple(outputs.shape)} for {len(x)} samples")


def outputs(module: nn.Module, rows: Any, d: int) -> NDArray[np.float64]:
    """What the module returns for all rows, a few at a time.

    Parameters
    ----------
    module
        Trained.
    rows
        Samples as the module sees them, n of d entries each; slices of them are arrays.
    d
        Entries of a sample.

    Returns
    -------
    array
        (n, outputs), finite.
    """
    if next(module.parameters()).device.type == "cpu":
        module = deepcopy(module).double()  # so that a sample's result does not depend on the others in the pass
    like = next(module.parameters())
    found = []
    room = torch.empty(0)  # one block of memory for all parts: freed and taken anew, glibc lets it grow
    with frozen(module), torch.no_grad():
        for part in pieces(len(rows), d, times=4):
            x = torch.from_numpy(rows[part])
            room = room if room.numel() else torch.empty_like(x, dtype=like.dtype, device=like.device)
            found.append(module(room[: len(x)].copy_(x)).double().cpu().numpy().copy())
    together = np.concatenate(found)
    if not np.isfinite(together).all():
        wrong = int((~np.isfinite(together)).any(1).sum())
        raise ValueError(
            f"the outputs of the module must be finite, got NaN or infinite ones for {wrong} of {len(rows)} samples"
        )
    return together
