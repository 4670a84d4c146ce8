"""One function per input rule; each raises an error that says the name, the rule and the value.

torch is imported in the functions that make or test tensors: numbers, counts and names are checked without it, so that
the command line finds a wrong option before torch is loaded.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

DEVICES = "cpu, cuda, cuda:NUMBER or auto"
FLOAT32 = 3.4028234663852886e38  # the largest number of that kind
SHOWN = 200  # characters of a value in a message


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """`value` as a finite float, > above, >= least, <= most and < below where these are given."""
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {shown(value)}")
    try:
        result = float(value)
    except OverflowError:  # a whole number beyond every float
        result = -math.inf if value < -1 else math.inf
    rules = []
    if above is not None:
        rules.append((f"> {above:g}", result > above))
    if least is not None:
        rules.append((f">= {least:g}", result >= least))
    if most is not None:
        rules.append((f"<= {most:g}", result <= most))
    if below is not None:
        rules.append((f"< {below:g}", result < below))
    if not (math.isfinite(result) and all(holds for _, holds in rules)):
        rule = " and ".join(
            [*(text for text, _ in rules), *(["finite"] if not math.isfinite(result) or not rules else [])]
        )
        raise ValueError(f"{name} must be {rule}, got {shown(value)}")
    return result


def count(name: str, value: Any, *, least: int = 0, most: int | None = None) -> int:
    """`value` as an int of at least `least`, and at most `most` where that is given."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {shown(value)}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {shown(value)}")
    if most is not None and int(value) > most:
        raise ValueError(f"{name} must be <= {most}, got {shown(value)}")
    return int(value)


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """`value`, which must be one of the names allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}")
    return str(value)


def device_word(name: str, value: Any) -> str:
    """The name of a device: "cpu" for None, "cuda", "cuda:1", ..., or "auto". Whether it is there, `device` tells."""
    word = "cpu" if value is None else str(value) if type(value).__name__ == "device" else value
    if not isinstance(word, str) or not re.fullmatch(r"cpu|auto|cuda(:[0-9]{1,4})?", word):
        why = "; GPUs of Apple have no float64, in which norms and prices are kept" if word in ("mps", "mps:0") else ""
        raise ValueError(f"{name} must be {DEVICES}, got {shown(value)}{why}")
    return word


def device(name: str, value: Any) -> torch.device:
    """The device that `device_word` allows, which must be there.

    None is the CPU, "auto" a GPU where there is one. Of several processes that torchrun started on a machine each has
    the GPU of its number (LOCAL_RANK) for "cuda" and "auto"; else "cuda" is torch's current one.
    """
    import torch

    word = device_word(name, value)
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if word == "cpu" or (word == "auto" and not there):
        return torch.device("cpu")
    if not there:
        raise ValueError(f"{name} must be cpu where torch ({torch.__version__}) finds no CUDA device, got {word!r}")
    own = os.environ.get("LOCAL_RANK", "") if int(os.environ.get("WORLD_SIZE", "1")) > 1 else ""
    number = word.partition(":")[2] or own or str(torch.cuda.current_device())
    if int(number) >= there:
        whose = f" for the process with LOCAL_RANK {own}" if own and ":" not in word else ""
        raise ValueError(f"{name} must be one of {there} CUDA devices, cuda:0 to cuda:{there - 1}, got {word!r}{whose}")
    return torch.device("cuda", int(number))


def not_anndata(name: str, value: Any, instead: str) -> None:
    """Raise where `value` is an AnnData object, which numpy walks through for minutes; `instead` is what to call."""
    anndata = sys.modules.get("anndata")  # without it there are no such objects
    if anndata is not None and isinstance(value, anndata.AnnData):
        raise TypeError(f"{name} must be an array, a matrix or a DataFrame, got an AnnData object; take {instead}")


def shown(value: Any) -> str:
    """The value as a message shows it: not more than a line of it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python does not write whole numbers of thousands of digits
        return f"a {type(value).__name__} too long to be shown"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def attack_text(text: str, names: Sequence[str]) -> tuple[str, int | None, float | None]:
    """The parts of "name[:count][@eps]", None for those that are left out; the name must be one of `names`."""
    name, _, size = text.partition("@")
    name, _, strength = name.partition(":")
    try:
        count, eps = int(strength) if strength else None, float(size) if size else None
    except ValueError:
        raise ValueError(f'an attack must read "name", "name:count" or "name:count@eps", got {text!r}') from None
    return one_of("attack", name, names), count, eps


def group(name: str, value: Any) -> Tensor:
    """`value` as a floating-point tensor (m, *features) with m >= 1 samples and at least one feature."""
    import torch

    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {type(value).__name__}")
    if not value.is_floating_point():
        raise TypeError(f"{name} must have a floating-point dtype, got {value.dtype}; convert with {name}.float()")
    if value.ndim == 0:
        raise ValueError(f"{name} must have shape (samples, *features), got a scalar")
    if value.numel() == 0:
        raise ValueError(f"{name} must hold at least one sample and one feature, got shape {tuple(value.shape)}")
    return value


def samples(name: str, value: Any) -> Tensor:
    """`value` as a group all of whose entries are finite; else the error of a loss that is not, as in training."""
    import torch

    x = group(name, value)
    if not bool(torch.isfinite(x).all()):
        wrong = int((~torch.isfinite(x)).flatten(1).any(1).sum()) if x.ndim > 1 else int((~torch.isfinite(x)).sum())
        raise FloatingPointError(f"{name} must be finite, got NaN or infinite entries in {wrong} of {len(x)} samples")
    return x


def fits_float32(name: str, value: Any) -> None:
    """Raise where a number of a dense or sparse matrix is too large for float32, in which modules compute."""
    entries = value.data if hasattr(value, "tocsr") else value
    if entries.dtype.itemsize > 4 and entries.size:
        largest = max(float(entries.max()), -float(entries.min()))
        if largest > FLOAT32:
            raise ValueError(f"{name} must be within ±{FLOAT32:.2g}, the range of float32, got {largest:g}")


def module(name: str, value: Any) -> nn.Module:
    """`value`, which must be a torch module."""
    from torch import nn

    if not isinstance(value, nn.Module):
        raise TypeError(f"{name} must be a torch module, got {shown(value)}")
    return value


def feature_mask(value: Any, x: Tensor) -> Tensor | None:
    """`value` as a boolean tensor with the shape of one sample, on the device of `x`."""
    import torch

    if value is None:
        return None
    mask = torch.as_tensor(value, device=x.device)
    if mask.dtype != torch.bool:
        raise TypeError(f"feature_mask must be boolean, got {mask.dtype}")
    if mask.shape != x.shape[1:]:
        raise ValueError(
            f"feature_mask must have the shape of one sample {tuple(x.shape[1:])}, got {tuple(mask.shape)}"
        )
    return mask


def bounds(value: Any, x: Tensor) -> tuple[Tensor, Tensor] | None:
    """`value` as a pair (lo, hi) of tensors that broadcast against one sample, lo <= hi."""
    import torch

    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"bounds must be a pair (lo, hi), got {value!r}")
    low, high = (torch.as_tensor(end, dtype=x.dtype, device=x.device) for end in value)
    for name, end in (("lo", low), ("hi", high)):
        try:
            end.expand(x.shape[1:])
        except RuntimeError:
            raise ValueError(
                f"bounds {name} must broadcast to the shape of one sample {tuple(x.shape[1:])}, got {tuple(end.shape)}"
            ) from None
    if not bool((low <= high).all()):
        raise ValueError(f"bounds must have lo <= hi, got {value!r}")
    return low, high


def several(name: str, value: Any, *, empty: bool = False) -> list[Any]:
    """A list, a tuple or the like of values, not a text."""
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise ValueError(f"{name} must be a list of values, got {shown(value)}")
    found = list(value)
    if not found and not empty:
        raise ValueError(f"{name} must have at least one value, got none")
    return found


def batch_codes(value: Any, m: int | None = None, name: str = "batch") -> Tensor:
    """The batch of each of `m` samples (None: any number) as whole numbers 0, 1, ... in order of first appearance."""
    import torch

    labels = value.tolist() if hasattr(value, "tolist") else value
    labels = list(labels) if hasattr(labels, "__iter__") else labels
    wrong = not isinstance(labels, list) or (m is not None and len(labels) != m) or not labels
    if wrong or any(isinstance(label, list) for label in labels):
        raise ValueError(f"{name} must have one id per sample{'' if m is None else f' ({m})'}, got {_size(value)}")
    if any(label != label for label in labels):
        raise ValueError(f"{name} must have an id for every sample, got NaN for some")
    codes: dict[Any, int] = {}
    return torch.tensor([codes.setdefault(label, len(codes)) for label in labels])


def labels(value: Any, m: int) -> Tensor:
    """`value` as a tensor with one label (or row of targets) per sample."""
    from torch import Tensor

    if not isinstance(value, Tensor):
        raise TypeError(f"y must be a torch tensor, got {type(value).__name__}")
    if value.ndim == 0 or len(value) != m:
        raise ValueError(f"y must have one label per sample ({m}), got shape {tuple(value.shape)}")
    return value


def per_sample(losses: Any, m: int) -> Tensor:
    """`losses` as the (m,) tensor that a per-sample loss returns."""
    from torch import Tensor

    if not isinstance(losses, Tensor) or losses.shape != (m,):
        got = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise ValueError(f'loss must return one value per sample, shape ({m},), got {got}; use reduction="none"')
    return losses


def methods(rule: str, value: Any, *needed: str) -> Any:
    """`value`, an instance that has the methods `needed`."""
    if isinstance(value, type) or not all(callable(getattr(value, method, None)) for method in needed):
        raise TypeError(f"{rule} an instance with the methods {' and '.join(needed)}, got {value!r}")
    return value


def _plain(value: Any) -> Any:
    """The number in a tensor without dimensions; anything else as it is."""
    torch = sys.modules.get("torch")  # without it there are no tensors
    return value.item() if torch and isinstance(value, torch.Tensor) and value.ndim == 0 else value


def _size(value: Any) -> str:
    if hasattr(value, "shape"):
        return f"shape {tuple(value.shape)}"
    return str(len(value)) if hasattr(value, "__len__") else repr(value)
