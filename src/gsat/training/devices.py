"""On which device torch computes, and how exactly: set once, before anything is trained."""

from __future__ import annotations

import torch

from gsat import _checks


def use_device(word: str, *, tf32: bool = False) -> torch.device:
    """The device of that name, which must be there; messages of NCCL go through it from then on.

    Parameters
    ----------
    word
        As `_checks.device` takes it.
    tf32
        Whether products of float32 matrices may be rounded to 10 bits of mantissa, on CUDA's tensor cores.

    Returns
    -------
    torch.device
        With its number.
    """
    found = _checks.device("--device", word)
    if tf32 and found.type != "cuda":
        raise ValueError(f"--precision tf32 is of CUDA's tensor cores, and --device {word} found the CPU alone")
    if found.type == "cuda":
        torch.cuda.set_device(found)
    if tf32:
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    return found
