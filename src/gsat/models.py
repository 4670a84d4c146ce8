"""The two networks of the paper, and models built by name from a seed."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

LEAST_IMAGE = 7  # two 3x3 max-pools of stride 2 leave nothing of a smaller one
LEAST_WIDTH = 4


# A function, not a subclass of nn.Sequential, whose slices (`model[2:]`) would call its own __init__.
def ELUNet(n_features: int, n_classes: int, hidden: int = 100) -> nn.Sequential:  # noqa: N802
    """One hidden layer of ELU units: logits = V·elu(Wx + b) + c, from (m, *features) to (m, n_classes)."""
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
    hands it images with the channels last, which are convolved faster (`gsat.layout`); with channels_last=True the
    weights have that layout too, on any device, and with False it is never used.
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


def build(spec: str, in_shape: Sequence[int], n_classes: int, *, seed: int = 0, **options: Any) -> nn.Module:
    """The model that `spec` names, for samples of shape `in_shape`, initialised from `seed`.

    spec: "elu", "alexnet", or "package.module:factory", called as factory(in_shape, n_classes, **options).
    The caller's random state is not touched.
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
