"""A command that torchrun has started in several processes: how they find each other, and how they end together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from gsat._ranks import ALONE, RankLeft, Ranks, joined

MENDED = (ValueError, TypeError, OSError, FloatingPointError, ImportError)  # errors that a message is enough for
PATIENCE = timedelta(days=365)  # with process 0, which examines and writes; if it fails, its connection closes at once
FAILED = 2  # the exit code of a command that fails with a message


@contextmanager
def launched() -> Iterator[Ranks]:
    """A block that all processes of torchrun enter and leave together; without torchrun this process alone.

    Where one of them fails, all do, and its message is told once: process 0 raises it, the others leave without a word.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield ALONE
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        with joined(PATIENCE) as ranks:
            yield ranks
            ranks.any(False)  # nobody leaves before all are done
    except MENDED as error:
        _agree(error)
        raise
    finally:
        dist.destroy_process_group()


def _agree(error: Exception) -> None:
    """Raise on process 0 what went wrong on any, and end the others with the exit code of a message."""
    ranks = Ranks.of()
    try:
        told = ranks.gathered("" if isinstance(error, RankLeft) else str(error))
    except RankLeft:  # a process was killed, and has nothing to say
        return
    if ranks.rank:
        raise SystemExit(FAILED)
    if not told[0] and any(told):
        place, message = next((place, message) for place, message in enumerate(told) if message)
        raise ValueError(f"process {place}: {message}") from error
