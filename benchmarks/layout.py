"""What the choices in the AlexNet gain on this machine: response normalisation, order of the layers, layout, compiling.

One gradient in the input for 200 images, in milliseconds (medians of alternating runs), and beside it the ratio to the
first column: the network as one writes it first, with torch's own normalisation and ReLU before the pooling; ours, the
same function; ours with images whose channels come last, as it is used; the same with channels_last=True, where the
weights have that layout too; with --compile, also ours through torch.compile.
"""

import argparse

import torch
from torch import nn

from gsat.models import build
from gsat.models.networks import ResponseNorm
from problems import alexnet, input_gradients
from timing import alternate

FIRST = "as first written"


def as_first_written(model: nn.Sequential) -> nn.Sequential:
    """The same network with nn.LocalResponseNorm, and each ReLU before its pooling."""
    layers = [
        nn.LocalResponseNorm(size=9, alpha=0.001, beta=0.75, k=1.0) if isinstance(layer, ResponseNorm) else layer
        for layer in model
    ]
    for i in [place for place, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]:
        layers[i], layers[i + 1] = layers[i + 1], layers[i]
    return nn.Sequential(*layers)


def as_given(model: nn.Module) -> nn.Module:
    """The model, which gets images in the layout in which they come."""
    model.channels_last = False
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=float, nargs="+", default=[1 / 16, 1 / 4])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--compile", action="store_true", help="needs a C++ compiler")
    options = parser.parse_args()
    for name, shape in (("MNIST", (1, 28, 28)), ("CIFAR-10", (3, 32, 32))):
        for width in options.widths:
            problem = alexnet(name, shape, width=width)

            def net(**how: bool) -> nn.Sequential:
                return build("alexnet", shape, 10, width=width, **how).eval().requires_grad_(False)  # noqa: B023

            models = {
                FIRST: as_given(as_first_written(net())),
                "ours": net(channels_last=False),
                "channels last": net(),
                "weights too": net(channels_last=True),
            }
            if options.compile:
                models["compiled"] = as_given(torch.compile(net()))
                models["channels last, compiled"] = torch.compile(net(channels_last=True))
            jobs = {kind: input_gradients(problem, 1, model) for kind, model in models.items()}
            times = alternate(jobs, options.rounds, clock=options.clock)
            cells = [
                f"{kind} {1e3 * times.median(kind):.1f} ms ({times.ratio(kind, FIRST).median:.2f})" for kind in models
            ]
            print(f"{name} shape, width {width:.3g}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
