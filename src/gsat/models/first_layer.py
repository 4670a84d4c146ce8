"""What a module does with its input: the linear layer through which alone it sees it, and its leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gsat._arrays.norms import rows

Model = Callable[[Tensor], Tensor]


def first_layer(model: nn.Module, x: Tensor) -> tuple[nn.Linear, Model] | None:
    """The layer that alone touches the input, and the rest of the model as a function of its output.

    None where there is no such layer, or none with fewer outputs than inputs and the precision of x; under autocast the
    precision is not that of x.
    """
    if torch.is_autocast_enabled(x.device.type):
        return None
    found = _touching(model, x)
    if found is None or x.dtype not in (torch.float32, torch.float64) or found[0].weight.dtype != x.dtype:
        return None
    h, d = found[0].weight.shape
    return found if h < d == rows(x).shape[1] else None


def untouched_first_layer(model: nn.Module, x: Tensor) -> nn.Linear | None:
    """The layer of `first_layer`, where the model in its present mode hands its input to it as it is.

    What a model that names its layer does in training is not known, so it has none.
    """
    found = None if hasattr(model, "first_linear") else first_layer(model, x)
    if found is None:
        return None
    for leaf in leaves(model):
        if leaf is found[0]:
            return found[0]
        if type(leaf) is nn.Dropout and leaf.training:
            return None
    return None


def layer_output(layer: nn.Linear, x: Tensor) -> Tensor:
    """W·x + b for the samples of x: (m, *features) -> (m, h), without a gradient."""
    return linear(rows(x), layer.weight.detach(), None if layer.bias is None else layer.bias.detach())


def _touching(model: nn.Module, x: Tensor) -> tuple[nn.Linear, Model] | None:
    layer = getattr(model, "first_linear", None)
    if type(layer) is nn.Linear:
        return None if changed(layer) else (layer, _Rest(model, layer, x))
    flattened = x.ndim == 2
    all_leaves = list(leaves(model))
    standardised: list[nn.BatchNorm1d] = []
    for place, leaf in enumerate(all_leaves):
        if leaf is None or changed(leaf):
            return None
        if type(leaf) is nn.Linear:
            head = nn.Sequential(*cast("list[nn.Module]", all_leaves[place + 1 :]))
            return (_folded(standardised, leaf), head) if flattened and None not in all_leaves else None
        if type(leaf) is nn.Flatten and (leaf.start_dim, leaf.end_dim) == (1, -1):
            flattened = True
        elif type(leaf) is nn.BatchNorm1d and flattened and not leaf.training and leaf.running_mean is not None:
            standardised.append(leaf)
        elif type(leaf) not in (nn.Identity, nn.Dropout):
            return None
    return None


def _folded(before: list[nn.BatchNorm1d], layer: nn.Linear) -> nn.Linear:
    """The layer with the standardisations before it, in eval mode: W·(s·x + t) + b is one layer too."""
    if not before:
        return layer
    weight, bias = layer.weight.detach(), None if layer.bias is None else layer.bias.detach()
    for norms in reversed(before):
        scale = torch.rsqrt(cast(Tensor, norms.running_var) + norms.eps)
        scale = scale if norms.weight is None else scale * norms.weight.detach()
        shift = -scale * cast(Tensor, norms.running_mean)
        shift = shift if norms.bias is None else shift + norms.bias.detach()
        bias = weight @ shift if bias is None else bias + weight @ shift
        weight = weight * scale
    folded = nn.Linear(layer.in_features, layer.out_features, device="meta")
    folded.weight, folded.bias = (nn.Parameter(part, requires_grad=False) for part in (weight, bias))
    return folded


def leaves(model: nn.Module) -> Iterator[nn.Module | None]:
    """The modules of nested nn.Sequentials in order; None for a container that does more than call them in turn."""
    if not isinstance(model, nn.Sequential):
        yield model
    elif _calls(type(model)) != _calls(nn.Sequential) or changed(model):
        yield None
    else:
        for child in model:
            yield from leaves(child)


def _calls(kind: type[nn.Module]) -> tuple[object, object]:
    """What a call of a module of this class runs."""
    return kind.__call__, kind.forward


def changed(module: nn.Module) -> bool:
    """Whether the module does more than its class says: it has hooks, or a `forward` of its own."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module)


class _Rest:
    """A model that names its first layer, as a function of what that layer gives."""

    def __init__(self, model: nn.Module, layer: nn.Linear, x: Tensor) -> None:
        self.model, self.layer, self.x, self.known = model, layer, x, False

    def __call__(self, seen: Tensor) -> Tensor:
        x = self.x[: len(seen)]
        with instead(self.layer, seen) as given:
            outputs = cast(Tensor, self.model(x))
        if not self.known and not (given and _same(given[0], rows(x))):
            raise ValueError(
                "first_linear must name the nn.Linear to which a model gives its input as it is; "
                f"{type(self.model).__name__} gives it something else"
            )
        self.known = True
        return outputs


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether the entries are equal; those of b that are no numbers count as equal."""
    return a.shape == b.shape and bool((a.eq(b) | b.isnan()).all())


@contextmanager
def instead(layer: nn.Linear, seen: Tensor) -> Iterator[list[Tensor]]:
    """A block in which the first call of the layer returns `seen`; the list then holds what it was given."""
    given: list[Tensor] = []

    def forward(input: Tensor) -> Tensor:
        given.append(input)
        del layer.forward
        return seen

    layer.forward = forward  # type: ignore[method-assign]
    try:
        yield given
    finally:
        vars(layer).pop("forward", None)
