"""Small networks with weights that depend on a seed alone, and costs with a quadratic term."""

from itertools import pairwise

import torch
from torch import nn

import gsat
from gsat.costs import scaled
from strategies import normal

COSTS = {
    "universal": gsat.Universal(0.4),
    "group-sparse": gsat.GroupSparse(0.1),
    "low-rank": gsat.LowRank(0.15),
    "unstructured": gsat.Unstructured(),
    "scaled low-rank": scaled(gsat.LowRank(0.2), 0.7),
}


class Opaque(nn.Module):
    """The same function, in a shape that nothing may be concluded from."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


class Named(nn.Module):
    """A flattening and a linear layer, named, with something beside the rest of the model that also uses its output."""

    def __init__(self, inner: nn.Sequential) -> None:
        super().__init__()
        self.first_linear, self.rest = inner[1], inner[2:]

    def forward(self, x):
        hidden = self.first_linear(x.flatten(1))
        outputs = self.rest(hidden)
        return outputs + hidden[:, : outputs.shape[1]].sin()


class Skip(nn.Module):
    """The input goes round the first layer."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        outputs = self.inner(x)
        return outputs + x.flatten(1)[:, : outputs.shape[1]]


def net(*sizes, seed=0, gain=1.0):
    """Linear layers of these sizes with ELU units between them, in float64."""
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ELU())]
    model = nn.Sequential(*layers[:-1]).double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(gain * normal(*weight.shape, seed=100 * seed + number) / weight.shape[-1] ** 0.5)
    return model
