"""What a rigorous certificate may rest on: modules of torch and costs of gsat that nobody has changed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gsat.costs import GroupSparse, LowRank, PerBatch, Universal, Unstructured
from gsat.costs.scaled import Scaled

KNOWN = (nn.Sequential, nn.Linear, nn.ELU, nn.Flatten, nn.Identity, nn.Dropout)
AS_SHIPPED = {kind: (kind.forward, kind.__call__) for kind in KNOWN}
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
COSTS = (GroupSparse, LowRank, Universal, Unstructured)


def plain_module(module: nn.Module) -> bool:
    """Whether it is one of `KNOWN`, no subclass, and computes what its class says: no hook, no method replaced."""
    kind = type(module)
    if kind not in AS_SHIPPED or (kind.forward, kind.__call__) != AS_SHIPPED[kind]:
        return False
    if any(getattr(module, hooks) for hooks in HOOKS) or module._compiled_call_impl is not None:
        return False
    weights = (value for value in module._parameters.values() if value is not None)
    return not _overridden(module) and all(type(value) is nn.Parameter for value in weights)


def no_global_hooks() -> bool:
    """Whether torch runs no hook on every module."""
    shared = torch.nn.modules.module
    return not any(getattr(shared, f"_global{hooks}", None) for hooks in HOOKS)


def plain_cost(cost: Any) -> bool:
    """Whether it is a cost of gsat, no subclass, or one of those in other units or for each batch."""
    if type(cost) in (PerBatch, Scaled):
        return not _overridden(cost) and plain_cost(cost.cost)
    return type(cost) in COSTS and not _overridden(cost)


def _overridden(value: Any) -> bool:
    """Whether the instance has something of its own where its class has a method."""
    return any(name.startswith("__") or callable(getattr(type(value), name, None)) for name in vars(value))
