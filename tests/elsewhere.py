"""A device that is none: tensors on it lie in memory, but must not meet others, as on a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

PLACE = torch.device("cuda", 0)
CROSSING = {"to", "copy_", "_to_copy", "as_tensor", "tensor", "__get__", "__set__", "__getitem__", "__setitem__"}
CROSSING |= {
    "_has_compatible_shallow_copy_type",
    "_fused_adam_",
    "__deepcopy__",
}  # torch's own: gradients are those of the CPU


class There(Tensor):
    """A tensor of the device; what is made of it is there too."""

    def __deepcopy__(self, memo: Any) -> Tensor:
        return memo.setdefault(id(self), plain(self).detach().clone().as_subclass(There))

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = function.__name__, kwargs or {}
        if function == Tensor.device.__get__:  # a new object each time
            return PLACE
        if function == Tensor.is_cuda.__get__:
            return True
        if name == "numpy" or name == "__array__":
            raise TypeError("can't convert a tensor of another device to numpy; use .cpu() first")
        if name == "cpu":
            return plain(args[0])
        if name in ("tolist", "__repr__"):
            return function(plain(args[0]))
        if name == "to" and goes_home(args[1:], kwargs):
            return Tensor.to(plain(args[0]), *args[1:], **kwargs)
        if name not in CROSSING:
            met = [v for v in tree_flatten((args, kwargs))[0] if isinstance(v, Tensor) and v.ndim]
            strangers = [v for v in met if not isinstance(v, There)]
            if strangers and len(strangers) < len(met):
                raise RuntimeError(f"{name}: tensors of two devices, of shapes {[tuple(v.shape) for v in met]}")
        args, kwargs = tree_map(home_device, (args, kwargs))
        return super().__torch_function__(function, types, args, kwargs)


class Made(TorchFunctionMode):
    """What is asked for on the device, or moved to it, is there."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        asked = any(is_place(v) for v in tree_flatten((args, kwargs))[0])
        beside = function.__name__ == "to" and len(args) > 1 and isinstance(args[1], There)
        if (
            isinstance(args[0] if args else None, There)
            or not (asked or beside)
            or function.__name__ in ("_parse_to", "device")
        ):
            return function(*args, **kwargs)
        found = function(*tree_map(home_device, args), **tree_map(home_device, kwargs))
        return found.as_subclass(There) if isinstance(found, Tensor) else found


def is_place(value: Any) -> bool:
    """Whether an argument names the device."""
    return isinstance(value, str | torch.device) and str(value) in ("cuda", "cuda:0")


def home_device(value: Any) -> Any:
    """The CPU for the device."""
    return torch.device("cpu") if is_place(value) else value


def goes_home(args: Any, kwargs: Any) -> bool:
    """Whether `to` is asked for the CPU."""
    values = [*args, *kwargs.values()]
    plain_like = any(isinstance(v, Tensor) and not isinstance(v, There) for v in values)
    return plain_like or any(v in ("cpu", torch.device("cpu")) for v in values if isinstance(v, str | torch.device))


def plain(v: Tensor) -> Tensor:
    """The same tensor in memory."""
    with torch._C.DisableTorchFunctionSubclass():
        return v.as_subclass(Tensor)


@contextmanager
def elsewhere() -> Iterator[None]:
    """A block in which "cuda" is the device that is none, with the random state of the CPU."""
    before, fork = torch.__future__.get_overwrite_module_params_on_conversion(), torch.random.fork_rng
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    torch.random.fork_rng = lambda devices=(), **_: fork([])
    try:
        with Made():
            yield
    finally:
        torch.random.fork_rng = fork
        torch.__future__.set_overwrite_module_params_on_conversion(before)
