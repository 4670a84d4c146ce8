"""What the two choices in the AlexNet gain on this machine: its response normalisation, and channels-last weights.

One gradient in the input for 200 images, in milliseconds (medians of alternating runs), with torch's own normalisation,
with ours (the same function as a convolution with a band), and with ours and channels_last=True.
"""

import argparse

from torch import nn

from gsat.models import ResponseNorm, build
from problems import alexnet, input_gradients
from timing import alternate


def with_torch_norm(model: nn.Sequential) -> nn.Sequential:
    """The same network with nn.LocalResponseNorm."""
    return nn.Sequential(
        *(
            nn.LocalResponseNorm(size=9, alpha=0.001, beta=0.75, k=1.0) if isinstance(layer, ResponseNorm) else layer
            for layer in model
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=float, nargs="+", default=[1 / 16, 1 / 4])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    options = parser.parse_args()
    print(f"{'':<28}{'torch norm':>12}{'ours':>12}{'channels last':>15}{'ratio':>8}")
    for name, shape in (("MNIST", (1, 28, 28)), ("CIFAR-10", (3, 32, 32))):
        for width in options.widths:
            problem = alexnet(name, shape, width=width)
            models = {
                "torch norm": with_torch_norm(build("alexnet", shape, 10, width=width)),
                "ours": build("alexnet", shape, 10, width=width),
                "channels last": build("alexnet", shape, 10, width=width, channels_last=True),
            }
            jobs = {kind: input_gradients(problem, 1, model) for kind, model in models.items()}
            times = alternate(jobs, options.rounds, clock=options.clock)
            cells = [1e3 * times.median(kind) for kind in models]
            ratio = times.ratio("channels last", "torch norm").median
            shown = "".join(f"{cell:>{room}.1f}" for cell, room in zip(cells, (12, 12, 15), strict=True))
            print(f"{name + f' shape, width {width:.3g}':<28}{shown}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
