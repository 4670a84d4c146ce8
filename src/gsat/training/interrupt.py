"""What a training run shares with its process: module modes, random states, signals."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

import torch
from torch import Generator, Tensor, nn


def random_states(generator: Generator) -> dict[str, Tensor]:
    """The states of `generator` and of torch's global ones."""
    states = {"groups": generator.get_state(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def restore_random(generator: Generator, states: dict[str, Tensor]) -> None:
    """The reverse of `random_states`."""
    generator.set_state(states["groups"])
    torch.set_rng_state(states["torch"])
    cuda = [states[key] for key in sorted(states) if key.startswith("cuda")]
    if cuda and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(cuda)


@contextlib.contextmanager
def training_mode(model: nn.Module) -> Iterator[None]:
    """A block in which the model is in train mode; afterwards every module is as before."""
    modes = [(module, module.training) for module in model.modules()]
    model.train()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@dataclass
class Stop:
    """The signal that came, if any did."""

    signal: int | None = None

    def raise_if_asked(self) -> None:
        """Do now what the signal asked for."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)


@contextlib.contextmanager
def signals_wait() -> Iterator[Stop]:
    """In the block SIGINT and SIGTERM wait for the end of the step, so that a checkpoint can be written first."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():  # only there can handlers be set
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:
        stop.signal = number

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
