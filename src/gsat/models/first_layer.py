"""What a module does with its input: the linear layer through which alone it sees it, and its leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import linear

from gsat._arrays.norms import rows

CLOSE = 1e-3  # of the largest output: what a model that names its first layer may differ from what was understood


@dataclass(frozen=True)
class FirstLayer:
    """A model as head(W·x + b): weight W (h, d), bias b (h,) or None, head from (m, h) to the outputs."""

    weight: Tensor
    bias: Tensor | None
    head: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        """W·x + b for the samples of x: (m, *features) -> (m, h), without a gradient."""
        return linear(rows(x), self.weight, self.bias)


def first_layer(model: nn.Module, x: Tensor) -> FirstLayer | None:
    """The model in eval mode as a linear layer and a head, or None where that is not known to be all it does.

    Known are an nn.Sequential that begins with nn.Linear (nn.Flatten, nn.Identity, nn.Dropout and nn.BatchNorm1d may
    stand before it), and a module whose attribute `first_linear` is the nn.Linear through which alone it uses x.
    None also where the layer has no fewer outputs than inputs, and where its precision is not that of x (autocast).
    """
    if torch.is_autocast_enabled(x.device.type) or x.dtype not in (torch.float32, torch.float64):
        return None
    named = getattr(model, "first_linear", None)
    found = _named(model, named, x) if type(named) is nn.Linear else _sequential(model, x)
    if found is None or found.weight.dtype != x.dtype:
        return None
    h, d = found.weight.shape
    return found if h < d == rows(x).shape[1] else None


def leaves(model: nn.Module) -> Iterator[nn.Module | None]:
    """The modules of nested nn.Sequentials in order; None for a container that does more than call them in turn."""
    if not isinstance(model, nn.Sequential):
        yield model
    elif _calls(type(model)) != _calls(nn.Sequential) or changed(model):
        yield None
    else:
        for child in model:
            yield from leaves(child)


def changed(module: nn.Module) -> bool:
    """Whether the module does more than its class says: it has hooks, or a `forward` of its own."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module)


def _calls(kind: type[nn.Module]) -> tuple[object, object]:
    """What a call of a module of this class runs."""
    return kind.__call__, kind.forward


def _sequential(model: nn.Module, x: Tensor) -> FirstLayer | None:
    """The first layer of nested nn.Sequentials; standardisations before it are folded into it."""
    flattened, before, parts = x.ndim == 2, list[nn.BatchNorm1d](), list(leaves(model))
    if any(leaf is None for leaf in parts):
        return None
    for place, leaf in enumerate(cast("list[nn.Module]", parts)):
        if changed(leaf):
            return None
        if type(leaf) is nn.Linear:
            head = nn.Sequential(*cast("list[nn.Module]", parts[place + 1 :]))
            return FirstLayer(*_folded(before, leaf), head) if flattened else None
        if type(leaf) is nn.Flatten and (leaf.start_dim, leaf.end_dim) == (1, -1):
            flattened = True
        elif type(leaf) is nn.BatchNorm1d and flattened and not leaf.training and leaf.running_mean is not None:
            before.append(leaf)
        elif type(leaf) not in (nn.Identity, nn.Dropout):
            return None
    return None


def _folded(before: list[nn.BatchNorm1d], layer: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of the layer with the standardisations before it: W·(s·x + t) + b is one layer too."""
    weight, bias = layer.weight.detach(), None if layer.bias is None else layer.bias.detach()
    for norms in reversed(before):
        scale = torch.rsqrt(cast(Tensor, norms.running_var) + norms.eps)
        scale = scale if norms.weight is None else scale * norms.weight.detach()
        shift = -scale * cast(Tensor, norms.running_mean)
        shift = shift if norms.bias is None else shift + norms.bias.detach()
        bias = weight @ shift if bias is None else bias + weight @ shift
        weight = weight * scale
    return weight, bias


def _named(model: nn.Module, layer: nn.Linear, x: Tensor) -> FirstLayer | None:
    """A model that names its first layer: with the identity for W and 0 for b it is the head alone.

    It is tried out: a model that cannot do with h numbers a sample uses x in another way, and takes the plain path; so
    does one whose outputs are no tensor, which cannot be compared.
    """
    name = next((name for name, module in model.named_modules() if module is layer), None)
    if name is None or changed(layer):
        return None
    own: dict[str, Tensor] = {f"{name}.weight": torch.eye(layer.out_features, dtype=x.dtype, device=x.device)}
    if layer.bias is not None:
        own[f"{name}.bias"] = torch.zeros_like(layer.bias)

    def head(seen: Tensor) -> Tensor:
        return cast(Tensor, functional_call(model, own, (seen,)))

    found = FirstLayer(layer.weight.detach(), None if layer.bias is None else layer.bias.detach(), head)
    with torch.no_grad():
        expected = model(x)
        if not isinstance(expected, Tensor):
            return None
        try:
            outputs = head(found(x))
        except (RuntimeError, IndexError, ValueError, TypeError, AssertionError):  # also of checks of its own
            return None
    apart = (outputs - expected).abs().nan_to_num(0.0) if outputs.shape == expected.shape else None
    if apart is None or float(apart.max()) > CLOSE * float(expected.abs().nan_to_num(0.0, 0.0, 0.0).max()):
        raise ValueError(
            "first_linear must name the nn.Linear to which a model gives its input as it is, and through which alone "
            f"it uses it; {type(model).__name__} gives it something else"
        )
    return found
