"""Where a command computes with torch, and how exactly."""

from __future__ import annotations

from typing import Any

from gsat import _checks

PRECISIONS = ("float32", "tf32")


def use_device(device: str | None, precision: str = "float32") -> Any:
    """The device of torch, which is there; None for the CPU where nothing else was asked for.

    It is called before data are read. torch is imported for a GPU alone. From then on messages of NCCL go through that
    GPU, and with "tf32" products of float32 matrices have 10 bits of mantissa.
    """
    word = _checks.device_word("--device", device)
    if _checks.one_of("--precision", precision, PRECISIONS) == "tf32" and word == "cpu":
        raise ValueError("--precision tf32 is of CUDA's tensor cores: give --device cuda, or leave it out")
    if word == "cpu":
        return None

    from gsat.training.devices import use_device as use

    return use(word, tf32=precision == "tf32")


def put(classifier: Any, device: Any) -> None:
    """Move a fitted classifier, or all members of an average, to a device; None leaves it where it is."""
    if device is not None:
        for one in getattr(classifier, "estimators_", [classifier]):
            one.module_.to(device)
