"""What a training run is: model, data, defence, optimizer, price and averages; and how a checkpoint keeps it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gsat._arrays.chunks import take, take_labels
from gsat.defences import Defence
from gsat.losses import SampleLoss, per_sample_cross_entropy
from gsat.metric import Metric
from gsat.training.ahead import Ahead
from gsat.training.budget import Control, priced
from gsat.training.checkpoint import Checkpoint, optimizer_state, restore_optimizer
from gsat.training.groups import draw, take_ids
from gsat.training.history import History, Step
from gsat.training.interrupt import random_states, restore_random
from gsat.training.parallel import Team
from gsat.training.validation import Validation


def adam(model: nn.Module, eta0: float) -> torch.optim.Adam:
    """Adam for all weights; in one pass over each of them where torch has it, which takes a third of the time."""
    weights = list(model.parameters())
    at_once = all(weight.device.type in ("cpu", "cuda") and weight.is_floating_point() for weight in weights)
    return torch.optim.Adam(weights, lr=eta0, fused=True if at_once else None)


@dataclass
class Run:
    """The state of a training run after t steps.

    `averaged` holds the average of the weights (with ema), `best` the weights of the best validation; both are empty
    at first. `latest` is the last step, `history` what was recorded. `folder` is where checkpoints are, if anywhere.
    """

    model: nn.Module
    X: Any
    y: Any
    defence: Defence
    n_outer: int
    group_size: int
    optimizer: torch.optim.Optimizer
    schedule: Callable[[float], float] = lambda share: 1.0
    batch: Any = None
    loss: SampleLoss = per_sample_cross_entropy
    ema: float | None = None
    validation: Validation | None = None
    generator: Generator = field(default_factory=lambda: Generator().manual_seed(0))
    control: Control = field(default_factory=lambda: Control(None))
    folder: Path | None = None
    log_every: int = 1
    run: int = 1  # samples of a group that follow each other
    team: Team = field(default_factory=Team)
    ahead: Ahead | None = None  # what reads the next group
    t: int = 0
    averaged: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_validation: float | None = None
    since_best: int = 0
    history: History = field(default_factory=History)
    latest: Step = field(init=False)

    def __post_init__(self) -> None:
        self.base_rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        first = next(self.model.parameters(), None)
        self.like = torch.zeros(()) if first is None else first.detach()

    @property
    def stopped_early(self) -> bool:
        """Whether the validation has not been better for too long."""
        return self.validation is not None and self.since_best >= self.validation.patience

    @property
    def over(self) -> bool:
        """Whether no step is left to take."""
        return self.t >= self.n_outer or self.stopped_early

    @property
    def recorded(self) -> bool:
        """Whether the latest step belongs into history and log: every log_every-th, and all with a validation."""
        measured = self.latest.validation is not None or self.latest.validation_loss is not None
        return self.latest.t % self.log_every == 0 or measured

    def group(self) -> tuple[Tensor, Tensor, Any]:
        """A group drawn uniformly without replacement: x (m, *features), y (m,) and the batches (m,), if any."""
        rows = draw(len(self.X), self.group_size, self.generator, self.run)
        x = take(self.X, rows) if self.ahead is None else self.ahead.take(self.X, rows)
        if self.ahead is not None and self.t + 1 < self.n_outer:
            self.ahead.begin(self.X, self.group_size, self.generator, self.run)
        y = take_labels(self.y, rows).to(self.like.device)
        return x.to(self.like), y, take_ids(self.batch, rows)

    def set_rates(self) -> float:
        """Give the optimizer the learning rates of step t; returns that of the first group of weights."""
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate * self.schedule(self.t / self.n_outer)
        return float(self.optimizer.param_groups[0]["lr"])

    @contextmanager
    def final_weights(self) -> Iterator[None]:
        """The averaged weights in the model, where there are any, for as long as the block lasts."""
        if not self.averaged:
            yield
            return
        own = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(self.averaged)
        try:
            yield
        finally:
            self.model.load_state_dict(own)

    def finish(self) -> History:
        """Leave the final weights in the model and the caller's learning rates in the optimizer."""
        if self.best:
            self.model.load_state_dict(self.best)
        elif self.averaged:
            self.model.load_state_dict(self.averaged)
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate  # as the caller gave it, whatever the schedule ended with
        self.history.stopped_early = self.stopped_early
        self.history.best_validation = self.best_validation
        self.history.mean_norm, self.history.lam = self.control.averages(self.history.steps)
        self.history.used = self.control.used
        return self.history

    def describe(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to fit."""
        return {
            "weights": {name: list(value.shape) for name, value in self.model.state_dict().items()},
            "data": [len(self.X), *self.X.shape[1:]],
            "defence": self.defence.name,
            "adversary": {name: summary(getattr(self.defence, name, None)) for name in ("cost", "attack", "eps")},
            "inner": self.defence.describe() if priced(self.defence) else None,
            "rates": self.base_rates,
            "samples": (samples := _fingerprint(self.X)),
            "lam": self.control.lam if self.control.target is None else "auto",
            "group_size": self.group_size,
            "n_outer": self.n_outer,
            "optimizer": type(self.optimizer).__name__,
            "target": self.control.target,
            "ema": self.ema,
            **({} if self.run == 1 else {"run": self.run}),
            **self.team.describe(samples),
        }

    def checkpoint(self) -> Checkpoint:
        """Weights, optimizer, averages, best weights, λ, and of every rank generators and the defence's state."""
        optimizer_tensors, optimizer_numbers = optimizer_state(self.optimizer)
        parts: dict[str, dict[str, Tensor]] = {
            "model": dict(self.model.state_dict()),
            "optimizer": optimizer_tensors,
            "averaged": self.averaged,
            "best": self.best,
        }
        own = {"defence": self.defence.state_dict(), "random": random_states(self.generator)}
        for rank, states in enumerate(self.team.ranks.gathered(own)):
            parts |= {_of_rank(rank, part): entries for part, entries in states.items()}
        tensors = {f"{part}:{name}": value for part, entries in parts.items() for name, value in entries.items()}
        numbers = {
            "optimizer": optimizer_numbers,
            "base_rates": self.base_rates,
            "control": vars(self.control),
            "best_validation": self.best_validation,
            "since_best": self.since_best,
        }
        return Checkpoint(self.t, tensors, numbers)

    def restore(self, checkpoint: Checkpoint) -> None:
        """The reverse of `checkpoint`."""
        parts: dict[str, dict[str, Tensor]] = {}
        for key, value in checkpoint.tensors.items():
            part, _, name = key.partition(":")
            parts.setdefault(part, {})[name] = value
        device = self.like.device
        self.model.load_state_dict(parts["model"])
        restore_optimizer(self.optimizer, parts.get("optimizer", {}), checkpoint.numbers["optimizer"])
        self.averaged = {name: value.to(device) for name, value in parts.get("averaged", {}).items()}
        self.best = {name: value.to(device) for name, value in parts.get("best", {}).items()}
        rank = self.team.ranks.rank
        self.defence.load_state_dict(parts.get(_of_rank(rank, "defence"), {}))
        restore_random(self.generator, parts[_of_rank(rank, "random")])
        self.base_rates = checkpoint.numbers["base_rates"]
        self.control = Control(**checkpoint.numbers["control"])
        self.best_validation = checkpoint.numbers["best_validation"]
        self.since_best = checkpoint.numbers["since_best"]
        self.t = checkpoint.step


def _of_rank(rank: int, part: str) -> str:
    """The name of a part of a checkpoint that each rank has; that of rank 0 is as of a single process."""
    return f"rank{rank}.{part}" if rank else part


def _fingerprint(X: Any) -> str:
    """The sha256 of the first and the last hundred samples: cheap, and another data set has another one."""
    n = len(X)
    ends = torch.cat([torch.arange(min(n, 100)), torch.arange(max(0, n - 100), n)])
    return hashlib.sha256(take(X, ends).contiguous().cpu().numpy().tobytes()).hexdigest()


def summary(value: Any) -> Any:
    """What a cost or an attack is, for JSON: its kind and its numbers; of anything else the kind alone."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Metric):
        return f"{value!r} {value.fingerprint}"
    kind = type(value).__name__
    if not is_dataclass(value):
        return kind
    return {"kind": kind, **{entry.name: summary(getattr(value, entry.name)) for entry in fields(value) if entry.init}}
