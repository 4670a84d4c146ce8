"""The model inside a wrapper for several processes or devices."""

from __future__ import annotations

from typing import cast

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel and DataParallel; other models as they are.

    An adversary asks for its gradients inside: DistributedDataParallel sends the buffers of rank 0 at every forward
    pass, and ranks whose adversaries take different numbers of them would wait for each other for ever.
    """
    while isinstance(model, DataParallel | DistributedDataParallel):
        model = cast(nn.Module, model.module)
    return model
