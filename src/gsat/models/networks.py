"""The two networks of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

LEAST_IMAGE = 7  # two 3x3 max-pools of stride 2 leave nothing of a smaller one
LEAST_WIDTH = 4


# A function, not a subclass of nn.Sequential, whose slices (`model[2:]`) would call its own __init__.
def ELUNet(n_features: int, n_classes: int, hidden: int = 100) -> nn.Sequential:  # noqa: N802
    """One hidden layer of ELU units: logits = V·elu(Wx + b) + c, from (m, *features) to (m, n_classes).

    With hidden = 0 it is linear: logits = Wx + b.

    Parameters
    ----------
    n_features, n_classes
        Inputs and outputs.
    hidden
        Units of the hidden layer.

    Returns
    -------
    torch.nn.Sequential
        The network; samples of any shape are flattened.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> gsat.models.ELUNet(64, 10)(torch.zeros(5, 64)).shape
    torch.Size([5, 10])
    """
    if hidden == 0:
        return nn.Sequential(nn.Flatten(), nn.Linear(n_features, n_classes))
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(n_features, hidden),
        nn.ELU(),
        nn.Linear(hidden, n_classes),
    )


class ResponseNorm(nn.Module):
    """Local response normalisation, x_c / (k + (α/size)·Σ_j x_j²)^β over the `size` channels j next to c.

    The same function as `nn.LocalResponseNorm`, as a convolution with a band of ones instead of a pooling in three
    dimensions, which on a CPU takes most of the time of a narrow network.
    """

    band: Tensor
    k: Tensor

    def __init__(self, channels: int, size: int, alpha: float, beta: float, k: float) -> None:
        super().__init__()
        self.beta = beta
        place = torch.arange(channels)
        apart = place - place[:, None]
        band = (apart >= -(size // 2)) & (apart <= (size - 1) // 2)
        self.register_buffer("band", band[:, :, None, None] * (alpha / size), persistent=False)
        self.register_buffer("k", torch.full((channels,), k), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(m, channels, height, width) to the same shape."""
        return x * conv2d(x.square(), self.band, self.k).pow(-self.beta)


def AlexNet(  # noqa: N802
    in_shape: Sequence[int] = (1, 28, 28), n_classes: int = 10, width: float = 1.0, channels_last: bool | None = None
) -> nn.Sequential:
    """The small AlexNet: two convolution blocks, then three dense layers; (m, *in_shape) to (m, n_classes).

    A block is a 5x5 convolution of the same size, ReLU, 3x3 max-pool of stride 2 and local response
    normalisation. `width` multiplies the 96 and 256 channels and the 384 and 192 dense units. On a CPU gsat
    hands it images with the channels last, which are convolved faster (`gsat.models.layout`); with
    channels_last=True the weights have that layout too, on any device, and with False it is never used.

    Parameters
    ----------
    in_shape
        Channels, height and width of an image.
    n_classes
        Outputs.
    width
        The factor of all layers.
    channels_last
        The layout of the weights; None leaves it to gsat.

    Returns
    -------
    torch.nn.Sequential
        The network.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> gsat.models.AlexNet((1, 28, 28), 10, width=0.1)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    if len(in_shape) != 3 or min(in_shape[1:]) < LEAST_IMAGE:
        raise ValueError(
            f"in_shape must be (channels, height, width) with sides >= {LEAST_IMAGE}, got {tuple(in_shape)}"
        )
    if not 0 < width < math.inf:
        raise ValueError(f"width must be > 0 and finite, got {width}")
    conv1, conv2, dense1, dense2 = (max(LEAST_WIDTH, round(width * units)) for units in (96, 256, 384, 192))
    pixels = math.prod(_pooled(_pooled(side)) for side in in_shape[1:])
    model = nn.Sequential(
        *_block(in_shape[0], conv1),
        *_block(conv1, conv2),
        nn.Flatten(),
        nn.Linear(conv2 * pixels, dense1),
        nn.ReLU(),
        nn.Linear(dense1, dense2),
        nn.ReLU(),
        nn.Linear(dense2, n_classes),
    )
    if channels_last is not None:
        model.channels_last = channels_last  # type: ignore[assignment]
    return model.to(memory_format=torch.channels_last) if channels_last else model  # type: ignore[call-overload]


def _block(channels_in: int, channels_out: int) -> tuple[nn.Module, ...]:
    # The paper gives no constants of the normalisation; these are those of TensorFlow's CIFAR-10 model. ReLU and
    # max-pool commute, values and gradients alike, and after the pooling there is a quarter left to rectify.
    return (
        nn.Conv2d(channels_in, channels_out, kernel_size=5, padding=2),
        nn.MaxPool2d(kernel_size=3, stride=2),
        nn.ReLU(),
        ResponseNorm(channels_out, size=9, alpha=0.001, beta=0.75, k=1.0),
    )


def _pooled(side: int) -> int:
    return (side - 3) // 2 + 1
