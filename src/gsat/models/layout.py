"""Images in the layout in which a CPU convolves them fastest: the same entries, the channels of a pixel side by side.

Convolutions of torch hand the layout of their input on, so that the weights of the model stay as they are.
`python benchmarks/layout.py` measures what it gains.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from gsat.models.first_layer import changed, leaves
from gsat.models.networks import ResponseNorm


def outputs(model: nn.Module, x: Tensor) -> Tensor:
    """What the model returns for x (m, *features), which it gets in the layout that suits it."""
    return cast(Tensor, model(channels_last(x) if x.ndim == 4 and _prefers(model, x) else x))


def channels_last(x: Tensor) -> Tensor:
    """X (m, channels, height, width), the channels of a pixel side by side in memory."""
    m, channels, height, width = x.shape
    if channels == 1:  # nothing has to be moved, but torch tells the layout by the strides
        return x.reshape(m, height, width, 1).permute(0, 3, 1, 2)
    return x.contiguous(memory_format=torch.channels_last)


def _prefers(model: nn.Module, x: Tensor) -> bool:
    """Whether the model is known to take any layout, and to convolve faster in this one.

    Known are nn.Sequentials of torch's own layers. A module of one's own may say so (`model.channels_last = True`): one
    that calls `view` may not understand what it is given. With False it is not done.
    """
    if x.dtype != torch.float32 or x.device.type != "cpu":
        return False
    said = getattr(model, "channels_last", None)
    if said is not None:
        return bool(said)
    layers = list(leaves(model))
    return any(type(layer) is nn.Conv2d for layer in layers) and all(map(_of_torch, layers))


def _of_torch(layer: nn.Module | None) -> bool:
    """Whether it is a layer of torch, or like one."""
    if layer is None or changed(layer):
        return False
    return type(layer) is ResponseNorm or type(layer).__module__.startswith("torch.nn.modules.")
