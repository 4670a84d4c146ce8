"""Models built by name from a seed."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gsat.models.networks import AlexNet, ELUNet


def build(spec: str, in_shape: Sequence[int], n_classes: int, *, seed: int = 0, **options: Any) -> nn.Module:
    """The model that `spec` names, for samples of shape `in_shape`, initialised from `seed`.

    The caller's random state is not touched.

    Parameters
    ----------
    spec
        "elu", "alexnet", or "package.module:factory", called as factory(in_shape, n_classes, **options).
    in_shape
        The shape of a sample.
    n_classes
        Outputs of the model.
    seed
        Of the weights.
    **options
        Of the model: hidden for "elu", width and channels_last for "alexnet".

    Returns
    -------
    torch.nn.Module
        The model.

    Examples
    --------
    >>> import gsat
    >>> model = gsat.models.build("elu", (1, 8, 8), 10, seed=0, hidden=20)
    >>> model[1]
    Linear(in_features=64, out_features=20, bias=True)
    """
    in_shape = tuple(in_shape)
    factory = _named(spec)
    with seeded(seed):
        model = factory(in_shape, n_classes, **options)
    if not isinstance(model, nn.Module):
        raise TypeError(f"model {spec!r} must return a torch.nn.Module, got {type(model).__name__}")
    return model


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A block in which torch's global generators start from `seed`; afterwards they are as before.

    torch initialises layers from the global generators and takes no other.

    Parameters
    ----------
    seed
        Of the generators inside the block.

    Yields
    ------
    None

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> with gsat.models.seeded(0):
    ...     first = torch.nn.Linear(2, 2)

    >>> with gsat.models.seeded(0):
    ...     second = torch.nn.Linear(2, 2)

    >>> first.weight.equal(second.weight)
    True
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def _elu(in_shape: tuple[int, ...], n_classes: int, **options: Any) -> nn.Sequential:
    return ELUNet(math.prod(in_shape), n_classes, **options)


NAMED: dict[str, Callable[..., Any]] = {"elu": _elu, "alexnet": AlexNet}


def _named(spec: str) -> Callable[..., Any]:
    """The factory that `spec` names."""
    if spec in NAMED:
        return NAMED[spec]
    module_name, _, name = spec.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), name)):
        raise ValueError(f'model must be one of {", ".join(NAMED)} or "package.module:factory", got {spec!r}')
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(f"model {spec!r} must name a module that can be imported: {error}") from error
    factory = getattr(module, name, None)
    if not callable(factory):
        raise ValueError(f"model {spec!r} must name a function or class of {module_name}, got {name!r}")
    return factory  # type: ignore[no-any-return]
