"""Models of half precision in float32, in which attacks search: in half precision many slopes are rounded to zero."""

from __future__ import annotations

import warnings
from copy import deepcopy

import torch
from torch import Tensor, nn

from gsat.models import layout
from gsat.models.modes import frozen

HALF = (torch.float16, torch.bfloat16)


def in_float32(model: nn.Module, x: Tensor) -> nn.Module:
    """The model for samples like x (m, *features) in float32: itself, or where weights are of half precision a copy.

    A model that cannot be copied, or that computes in half precision whatever its weights are, is wrapped: it gets and
    returns float32, but its slopes are those of half precision, of which a warning tells.
    """
    if x.dtype not in HALF or isinstance(model, Widened):
        return model
    try:
        halves = any(weight.dtype in HALF for weight in (*model.parameters(), *model.buffers()))
        wide = deepcopy(model).float() if halves else model
        with frozen(wide), torch.no_grad():
            layout.outputs(wide, x[:1].detach().float())
    except Exception as error:  # a model of the user's may refuse in any way
        warnings.warn(
            f"the model cannot be copied to float32 ({type(error).__name__}: {error}) and is attacked in {x.dtype}, "
            "where it may look too robust; give a float32 model",
            UserWarning,
            stacklevel=3,
        )
        return Widened(model, x.dtype)
    return wide


class Widened(nn.Module):
    """A model of half precision for samples and outputs in float32.

    Parameters
    ----------
    model
        Maps samples of the type `dtype` to outputs.
    dtype
        torch.float16 or torch.bfloat16.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.dtype = model, dtype
        self.training = model.training

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of the model, as float32."""
        return layout.outputs(self.model, x.to(self.dtype)).float()
