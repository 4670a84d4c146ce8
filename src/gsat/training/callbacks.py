"""What watches a run: weight average, validation, history, log, board, the user's functions, bar and checkpoints.

All have one protocol, and the loop calls them in the order of `callbacks_for`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

from torch import nn
from tqdm.auto import tqdm

from gsat._files import locked
from gsat.training.checkpoint import latest, newest, save
from gsat.training.divergence import check_weights
from gsat.training.history import Step, cut_back
from gsat.training.interrupt import signals_wait
from gsat.training.state import Run
from gsat.training.validation import Validation

Listener = Callable[[Step, nn.Module], object]


class Callback:
    """What is done beside the steps of a run; a subclass overrides what it needs."""

    def begin(self, run: Run) -> None:
        """Before the first step."""

    def after(self, run: Run) -> None:
        """After each step; `run.latest` says what happened in it, and run.t steps are done."""

    def end(self, run: Run) -> None:
        """After the last step, also where an exception ended the run."""


@contextmanager
def watched(run: Run, callbacks: Sequence[Callback]) -> Iterator[None]:
    """A block in which the callbacks have begun; whatever happens, each that began ends."""
    with ExitStack() as ends:
        for callback in callbacks:
            callback.begin(run)
            ends.callback(callback.end, run)
        yield


class Average(Callback):
    """The exponential average of the weights: a ← ema·a + (1 − ema)·w, kept in run.averaged."""

    def __init__(self, ema: float) -> None:
        self.ema = ema

    def after(self, run: Run) -> None:
        """Take in the weights of this step."""
        for name, value in run.model.state_dict().items():
            if name not in run.averaged:
                run.averaged[name] = value.detach().clone()
            elif value.is_floating_point():
                run.averaged[name].lerp_(value.detach(), 1 - self.ema)
            else:
                run.averaged[name].copy_(value)


class Validate(Callback):
    """Robust accuracy or loss every so many steps; the best weights are kept, run.since_best ends a run early."""

    def __init__(self, rule: Validation) -> None:
        self.rule = rule

    def after(self, run: Run) -> None:
        """Measure, where it is time to."""
        if run.t % self.rule.every != 0:
            return
        of_loss, ranks = self.rule.measure == "loss", run.team.ranks
        size = run.team.most(run.group_size)
        with run.final_weights():
            if of_loss:
                targets = run.control.targets
                found = self.rule.loss(run.model, run.defence, run.loss, run.like, size, targets, ranks)
            else:
                found = self.rule.accuracy(run.model, run.like, size, ranks)
        if self.rule.better(found, run.best_validation):
            weights = run.averaged or run.model.state_dict()
            run.best = {name: value.detach().clone() for name, value in weights.items()}
            run.best_validation, run.since_best = found, 0
        else:
            run.since_best += 1
        accuracy, loss = (None, found) if of_loss else (found, None)
        run.latest = replace(run.latest, validation=accuracy, validation_loss=loss)


class Remember(Callback):
    """The recorded steps in run.history."""

    def after(self, run: Run) -> None:
        """Keep the step."""
        if run.recorded:
            run.history.steps.append(run.latest)


class Log(Callback):
    """The recorded steps in log.jsonl, one line each, written at once."""

    file: TextIO

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, run: Run) -> None:
        """Keep the lines of the steps that are done, which a run that is resumed has in its history."""
        first = run.team.is_first
        steps = cut_back(self.path, run.t, every=run.log_every) if first else None
        run.history.steps = run.team.ranks.first(steps)
        self.file = (self.path if first else Path(os.devnull)).open("a", encoding="utf-8")

    def after(self, run: Run) -> None:
        """Append a line."""
        if run.recorded:
            self.file.write(json.dumps(asdict(run.latest)) + "\n")
            self.file.flush()

    def end(self, run: Run) -> None:
        """Close the file."""
        self.file.close()


class Board(Callback):
    """The recorded steps for TensorBoard."""

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("tensorboard= needs the package tensorboard: pip install tensorboard") from error
        self.writer: Any = SummaryWriter(str(folder))

    def after(self, run: Run) -> None:
        """Write the numbers of the step."""
        if run.recorded:
            for name, value in asdict(run.latest).items():
                if name != "t" and value is not None:
                    self.writer.add_scalar(name, value, run.latest.t)
            self.writer.flush()

    def end(self, run: Run) -> None:
        """Close the writer."""
        self.writer.close()


class Tell(Callback):
    """A function of the user's, called as listener(step, model) after each recorded step."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def after(self, run: Run) -> None:
        """Call it."""
        if run.recorded:
            self.listener(run.latest, run.model)


class Bar(Callback):
    """A progress bar with the numbers of the latest recorded step."""

    bar: Any

    def begin(self, run: Run) -> None:
        """Show it."""
        self.bar = tqdm(total=run.n_outer, initial=run.t, desc=run.defence.name, unit="group")

    def after(self, run: Run) -> None:
        """One group more."""
        if run.recorded:
            step = run.latest
            shown = {"loss": f"{step.loss:.3f}", "norm": f"{step.mean_norm:.3g}"}
            shown |= {} if step.measure is None else {"structure": f"{step.measure:.0f}"}
            shown |= {} if step.lam is None else {"lam": f"{step.lam:.3g}"}
            self.bar.set_postfix(shown, refresh=False)
        self.bar.update()

    def end(self, run: Run) -> None:
        """Leave it where it is."""
        self.bar.close()


class Keep(Callback):
    """Checkpoints every so many steps, at the end, and before SIGINT or SIGTERM ends the run."""

    def __init__(self, folder: Path, every: int) -> None:
        self.folder, self.every = folder, every
        self.handlers = ExitStack()

    def begin(self, run: Run) -> None:
        """From here on signals wait for the end of a step."""
        self.stop = self.handlers.enter_context(signals_wait())

    def after(self, run: Run) -> None:
        """Write one where it is time to, then do what a signal asked for, on all ranks."""
        self.stop.signal = run.team.most(self.stop.signal or 0) or None
        if run.t % self.every == 0 or run.over or self.stop.signal is not None:
            check_weights(run.model, run.t, self.folder)
            _save(run, self.folder)
        self.stop.raise_if_asked()

    def end(self, run: Run) -> None:
        """Signals are the caller's again."""
        self.handlers.close()


def _save(run: Run, folder: Path) -> None:
    """A checkpoint of all ranks, written by the first; the others wait until it is there."""
    checkpoint, description = run.checkpoint(), run.describe()
    if run.team.is_first:
        save(folder / "checkpoint", checkpoint, description)
    run.team.wait()


@contextmanager
def folder_of(run: Run, folder: Path | None, *, resume: bool) -> Iterator[None]:
    """A block in which `folder`, if any, is that of the run alone: a new one, or one whose checkpoint is restored."""
    if folder is None:
        yield
        return
    if run.team.is_first:
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder) if run.team.is_first else nullcontext():
        _open(run, folder, resume=resume)
        yield


def _open(run: Run, folder: Path, *, resume: bool) -> None:
    run.folder = folder
    description, found = run.describe(), None
    if run.team.is_first:
        if not resume and (newest(folder / "checkpoint") is not None or (folder / "log.jsonl").exists()):
            raise FileExistsError(f"out must be a folder without a run, got {folder}; take another, or resume=True")
        found = latest(folder / "checkpoint", description) if resume else None
    found = run.team.ranks.first(found)
    if found is not None:
        run.restore(found)
        return
    _save(run, folder)


def callbacks_for(
    run: Run,
    listeners: Sequence[Listener],
    *,
    checkpoint_every: int,
    tensorboard: str | Path | None = None,
    progress: bool = False,
) -> list[Callback]:
    """The callbacks of a run, in the order in which they are called.

    Average and validation change what is recorded, so they come first; a checkpoint must not be ahead of the log, and
    may end the process, so it comes last.
    """
    found: list[Callback] = []
    found += [] if run.ema is None else [Average(run.ema)]
    found += [] if run.validation is None else [Validate(run.validation)]
    found += [Remember()]
    found += [] if run.folder is None else [Log(run.folder / "log.jsonl")]
    found += [] if tensorboard is None or not run.team.is_first else [Board(tensorboard)]
    found += [Tell(listener) for listener in listeners]
    found += [Bar()] if progress and run.team.is_first else []
    found += [] if run.folder is None else [Keep(run.folder, checkpoint_every)]
    return found
