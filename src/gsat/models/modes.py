"""Module modes, gradients and random states that are as the caller left them, also after an exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """A block in which every module of the model is in train or in eval mode; afterwards each is as before."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, before in modes:
            module.training = before


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """A block in which `model` is in eval mode and its weights need no gradient; afterwards all is as before.

    Dropout and BatchNorm must not make a sample's loss depend on the rest of the group.
    """
    flags = [(weight, weight.requires_grad) for weight in model.parameters()]
    with mode(model, training=False):
        try:
            for weight, _ in flags:
                weight.requires_grad_(False)
            yield
        finally:
            for weight, flag in flags:
                weight.requires_grad_(flag)


@contextmanager
def untouched(x: Tensor) -> Iterator[None]:
    """A block without gradients that leaves the global random state as it was, also inside inference mode."""
    devices = [x.device] if x.device.type == "cuda" else []
    with torch.inference_mode(False), torch.no_grad(), torch.random.fork_rng(devices):
        yield
