"""What a run says when its loss or its weights are no longer finite: where it happened and what may help."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import nn

from gsat._ranks import ALONE, Ranks
from gsat.training.checkpoint import newest


class Diverged(FloatingPointError):  # noqa: N818
    """Training met a loss or weights that are not finite."""


@contextmanager
def finite_search(t: int, folder: Path | None, ranks: Ranks = ALONE) -> Iterator[None]:
    """A block in which a FloatingPointError of the adversary at step t becomes `Diverged`, on all ranks at once."""
    fault = None
    try:
        yield
    except FloatingPointError as error:
        fault = error
    if ranks.any(fault is not None):
        raise Diverged(_advice(f"the training loss is not finite at step {t}", t, folder)) from fault


def check_loss(loss: float, t: int, folder: Path | None) -> None:
    """Raise `Diverged` where the loss of step t is not finite."""
    if not math.isfinite(loss):
        raise Diverged(_advice(f"the training loss is {loss} at step {t}", t, folder))


def check_weights(model: nn.Module, t: int, folder: Path | None) -> None:
    """Raise `Diverged` where weights are not finite after t steps: a checkpoint of them would be none."""
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        raise Diverged(_advice(f"the weights are not finite after step {t - 1}", t, folder))


def _advice(fault: str, t: int, folder: Path | None) -> str:
    # the weights of this very step are where it went wrong
    good = None if folder is None else newest(folder / "checkpoint", before=max(t, 1))
    kept = "no checkpoint was kept (out= is not set)" if good is None else f"the last good checkpoint is {good}"
    return (
        f"{fault}; {kept}; take a smaller learning rate, a smaller budget "
        "or a larger lam, and look for values in X that are not finite or not standardised"
    )
