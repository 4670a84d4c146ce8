"""The state of a training run: its one step, and what a checkpoint keeps of it."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Real
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from gsat import _checks
from gsat._arrays.norms import norm, rows
from gsat._arrays.sampling import draw, take, take_labels
from gsat.attacks import Attack
from gsat.defences import GSAT, Defence
from gsat.losses import SampleLoss, per_sample_cross_entropy
from gsat.models import layout
from gsat.models.modes import frozen
from gsat.solvers.oracle import clamped
from gsat.training.budget import LAST, Control
from gsat.training.checkpoint import Checkpoint, newest, optimizer_state, restore_optimizer
from gsat.training.history import History, Step
from gsat.training.interrupt import random_states, restore_random


def adam(model: nn.Module, eta0: float) -> torch.optim.Adam:
    """Adam for all weights; in one pass over each of them where torch has it, which takes a third of the time."""
    weights = list(model.parameters())
    return torch.optim.Adam(weights, lr=eta0, fused=True if _at_once(weights) else None)


def _at_once(weights: list[nn.Parameter]) -> bool:
    return all(weight.device.type in ("cpu", "cuda") and weight.is_floating_point() for weight in weights)


class Diverged(FloatingPointError):  # noqa: N818
    """Training met a loss that is not finite."""


@dataclass(frozen=True)
class Validation:
    """Stop early on robust accuracy, measured under `attack` every `every` steps, after `patience` without gain.

    The weights of the best measurement are those the run ends with.
    """

    X: Any
    y: Any
    attack: Attack | None = None
    every: int = 50
    patience: int = 10

    def __post_init__(self) -> None:
        _checks.count("every", self.every, least=1)
        _checks.count("patience", self.patience, least=1)
        if len(self.X) == 0 or len(self.y) != len(self.X):
            raise ValueError(f"y must have one label per sample of X ({len(self.X)}, at least 1), got {len(self.y)}")


@dataclass
class Run:
    """The state of a training run and its one step."""

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
    t: int = 0
    averaged: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_validation: float | None = None
    since_best: int = 0

    def __post_init__(self) -> None:
        self.base_rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        first = next(self.model.parameters(), None)
        self.like = torch.zeros(()) if first is None else first.detach()

    def step(self, *, record: bool, folder: Path | None, keep: bool = False) -> Step | None:
        """One group: perturb it, descend, and say what happened where that is to be recorded.

        keep: whether the perturbation may be asked for afterwards, which may take a copy of the weights
        """
        self.optimizer.zero_grad()  # first, and x is let go early: each may be as large as the weights
        chosen = draw(len(self.X), self.group_size, self.generator)
        x, y = take(self.X, chosen).to(self.like), take_labels(self.y, chosen).to(self.like.device)
        batch = None if self.batch is None else np.asarray(self.batch)[chosen.numpy()]
        if isinstance(self.defence, GSAT):
            self._price(x, y)
        try:
            x = self.defence(self.model, x, y, batch)
            outputs = layout.outputs(self.model, x)
        except FloatingPointError as error:
            raise Diverged(self._advice(f"the training loss is not finite at step {self.t}", folder)) from error
        del x
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate * self.schedule(self.t / self.n_outer)
        objective = self.loss(outputs, y).mean()
        if not math.isfinite(value := objective.item()):
            raise Diverged(self._advice(f"the training loss is {value} at step {self.t}", folder))
        torch.autograd.backward(objective)
        self.optimizer.step()
        norm = self.defence.mean_norm
        lam = self.control.lam
        self.control.update(self.t, norm)
        self._average()
        validation = self._validate()
        self.t += 1
        if not (record or validation is not None):
            return None
        rate = float(self.optimizer.param_groups[0]["lr"])
        return Step(self.t - 1, value, norm, lam, self.defence.measure(), rate, validation)

    def _price(self, x: Tensor, y: Tensor) -> None:
        """Give the defence its λ; the first "auto" one makes the linearised perturbation as long as the target."""
        defence, control = self.defence, self.control
        if not isinstance(defence, GSAT):
            return
        if control.lam is None and control.target is not None:
            with frozen(self.model):
                point = x.detach().clone().requires_grad_()
                losses = defence.adversary.loss(layout.outputs(self.model, point), y)
                (slope,) = torch.autograd.grad(losses.sum(), point)
            steepness = float(norm(rows(slope), dim=1).mean())
            control.lam = max(1e-12, control.target * steepness)
        defence.scale = control.target
        defence.lam = control.lam if control.lam is not None else defence.lam

    def _average(self) -> None:
        if self.ema is None:
            return
        for name, value in self.model.state_dict().items():
            if name not in self.averaged:
                self.averaged[name] = value.detach().clone()
            elif value.is_floating_point():
                self.averaged[name].lerp_(value.detach(), 1 - self.ema)
            else:
                self.averaged[name].copy_(value)

    def _validate(self) -> float | None:
        rule = self.validation
        if rule is None or (self.t + 1) % rule.every != 0:
            return None
        with self._final_weights():
            accuracy = self._robust_accuracy(rule)
        if self.best_validation is None or accuracy > self.best_validation:
            weights = self.averaged or self.model.state_dict()
            self.best = {name: value.detach().clone() for name, value in weights.items()}
            self.best_validation, self.since_best = accuracy, 0
        else:
            self.since_best += 1
        return accuracy

    def _robust_accuracy(self, rule: Validation) -> float:
        hits = 0
        for begin in range(0, len(rule.X), self.group_size):
            chosen = torch.arange(begin, min(begin + self.group_size, len(rule.X)))
            x, y = take(rule.X, chosen).to(self.like), take_labels(rule.y, chosen).to(self.like.device)
            moved = x
            if rule.attack is not None:
                moved = clamped(x + rule.attack.perturb(self.model, x, y), _checks.bounds(rule.attack.bounds, x))
            with frozen(self.model), torch.no_grad():
                hits += int((layout.outputs(self.model, moved).argmax(1) == y).sum())
        return hits / len(rule.X)

    @contextlib.contextmanager
    def _final_weights(self) -> Iterator[None]:
        """The averaged weights in the model, for as long as the block lasts."""
        if not self.averaged:
            yield
            return
        own = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(self.averaged)
        try:
            yield
        finally:
            self.model.load_state_dict(own)

    def patience_is_over(self) -> bool:
        """Whether the robust accuracy has not risen for too long."""
        return self.validation is not None and self.since_best >= self.validation.patience

    def finish(self, history: History) -> None:
        """Leave the final weights in the model, and the averages in the history."""
        if self.best:
            self.model.load_state_dict(self.best)
        elif self.averaged:
            self.model.load_state_dict(self.averaged)
        history.best_validation = self.best_validation
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate  # as the caller gave it, whatever the schedule ended with
        if self.control.n:
            history.mean_norm = self.control.norm_sum / self.control.n
            history.lam = self.control.lam_sum / self.control.n if self.control.lam is not None else None
        elif history.steps:  # stopped before the last tenth of n_outer: the last tenth of what there is
            last = history.steps[-math.ceil(LAST * len(history)) :]
            history.mean_norm = fmean(step.mean_norm for step in last)
            history.lam = None if self.control.lam is None else fmean(step.lam or 0.0 for step in last)

    def describe(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to fit."""
        return {
            "weights": {name: list(value.shape) for name, value in self.model.state_dict().items()},
            "data": [len(self.X), *self.X.shape[1:]],
            "defence": self.defence.name,
            "adversary": {name: summary(getattr(self.defence, name, None)) for name in ("cost", "attack", "eps")},
            "inner": self.defence.describe() if isinstance(self.defence, GSAT) else None,
            "rates": self.base_rates,
            "samples": _fingerprint(self.X),
            "lam": self.control.lam if self.control.target is None else "auto",
            "group_size": self.group_size,
            "n_outer": self.n_outer,
            "optimizer": type(self.optimizer).__name__,
            "target": self.control.target,
            "ema": self.ema,
        }

    def checkpoint(self) -> Checkpoint:
        """Weights, optimizer, averages, best weights, generators, the defence's state and λ."""
        optimizer_tensors, optimizer_numbers = optimizer_state(self.optimizer)
        parts: dict[str, dict[str, Tensor]] = {
            "model": dict(self.model.state_dict()),
            "optimizer": optimizer_tensors,
            "averaged": self.averaged,
            "best": self.best,
            "defence": self.defence.state_dict(),
            "random": random_states(self.generator),
        }
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
        self.defence.load_state_dict(parts.get("defence", {}))
        restore_random(self.generator, parts["random"])
        self.base_rates = checkpoint.numbers["base_rates"]
        self.control = Control(**checkpoint.numbers["control"])
        self.best_validation = checkpoint.numbers["best_validation"]
        self.since_best = checkpoint.numbers["since_best"]
        self.t = checkpoint.step

    def check_weights(self, folder: Path) -> None:
        """Refuse to keep weights that are not finite: the last good checkpoint would not be one."""
        if not all(bool(weight.isfinite().all()) for weight in self.model.parameters()):
            raise Diverged(self._advice(f"the weights are not finite after step {self.t - 1}", folder))

    def _advice(self, fault: str, folder: Path | None) -> str:
        # the weights of this very step are where it went wrong
        good = None if folder is None else newest(folder / "checkpoint", before=max(self.t, 1))
        kept = "no checkpoint was kept (out= is not set)" if good is None else f"the last good checkpoint is {good}"
        return (
            f"{fault}; {kept}; take a smaller learning rate, a smaller budget "
            "or a larger lam, and look for values in X that are not finite or not standardised"
        )


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
    kind = type(value).__name__
    if not is_dataclass(value):
        return kind
    return {"kind": kind, **{entry.name: summary(getattr(value, entry.name)) for entry in fields(value) if entry.init}}
