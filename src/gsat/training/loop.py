"""GDADMM, the paper's Algorithm 1: draw a group, find its worst perturbation, take one descent step of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Generator, nn
from tqdm.auto import tqdm

from gsat import _checks
from gsat.defences import Defence
from gsat.losses import SampleLoss, per_sample_cross_entropy
from gsat.training.budget import control_for
from gsat.training.checkpoint import latest, newest, save
from gsat.training.history import History, Log, Step
from gsat.training.interrupt import signals_wait, training_mode
from gsat.training.state import Diverged, Run, Validation, adam

__all__ = ["Diverged", "Validation", "gdadmm"]

Callback = Callable[[Step, nn.Module], None]


def gdadmm(
    model: nn.Module,
    X: Any,
    y: Any,
    defence: Defence,
    *,
    n_outer: int,
    group_size: int = 200,
    optimizer: torch.optim.Optimizer | None = None,
    eta0: float = 1e-4,
    schedule: Literal["constant", "cosine"] | Callable[[float], float] = "constant",
    lam: float | Literal["paper", "auto"] = "auto",
    budget: float = 0.05,
    batch: Any = None,
    loss: SampleLoss | None = None,
    ema: float | None = None,
    validation: Validation | None = None,
    generator: Generator | None = None,
    callbacks: Sequence[Callback] = (),
    out: str | Path | None = None,
    resume: bool = False,
    checkpoint_every: int = 100,
    log_every: int = 1,
    progress: bool = False,
    tensorboard: str | Path | None = None,
) -> History:
    """Train `model` on X (n, *features), y (n,) against `defence`, in place; n_outer groups of group_size samples.

    optimizer:  by default Adam with learning rate eta0; schedule: "constant", "cosine", or a function of t/n_outer
                that multiplies the learning rate
    lam:        a number, "paper" (0.25·E‖X‖₂), or "auto": λ follows so that the mean ‖δ_i‖ is budget·E‖X‖₂, with the
                cost in units of that length; only for GSAT defences
    ema:        decay of an average of the weights, with which the run ends
    out:        a folder for log.jsonl and checkpoints; with resume=True a killed run goes on where it was, and ends
                with the same bits as an unbroken one
    callbacks:  called as callback(step, model) after each recorded step
    """
    if not isinstance(defence, Defence):
        raise TypeError(f"defence must be of gsat.defences, got {defence!r}; a cost goes into gsat.defences.GSAT(cost)")
    eta0 = _checks.number("eta0", eta0, above=0)
    run = Run(
        model=model,
        X=X,
        y=y,
        defence=defence,
        n_outer=_checks.count("n_outer", n_outer, least=1),
        group_size=min(_checks.count("group_size", group_size, least=1), len(X)),
        optimizer=adam(model, eta0) if optimizer is None else optimizer,
        schedule=_schedule(schedule),
        batch=batch,
        loss=per_sample_cross_entropy if loss is None else loss,
        ema=None if ema is None else _checks.number("ema", ema, above=0, below=1),
        validation=validation,
        generator=Generator().manual_seed(0) if generator is None else generator,
    )
    if len(X) == 0 or len(y) != len(X):
        raise ValueError(f"y must have one label per sample of X ({len(X)}, at least 1), got {len(y)}")
    if batch is not None and len(batch) != len(X):
        raise ValueError(f"batch must have one id per sample of X ({len(X)}), got {len(batch)}")
    run.control = control_for(defence, X, lam, budget, run.n_outer)
    folder = None if out is None else Path(out)
    every = _checks.count("checkpoint_every", checkpoint_every, least=1)
    _checks.count("log_every", log_every, least=1)
    history = _open(run, folder, resume)
    log = None if folder is None else Log(folder / "log.jsonl")
    board = _board(tensorboard)
    bar = tqdm(total=run.n_outer, initial=run.t, disable=not progress, desc=defence.name, unit="group")
    try:
        with training_mode(model), signals_wait(folder is not None) as stop:
            while run.t < run.n_outer and not history.stopped_early:
                asked = bool(callbacks) or validation is not None or run.t + 1 == run.n_outer
                step = run.step(record=run.t % log_every == 0, folder=folder, keep=asked)
                if step is not None:
                    history.steps.append(step)
                    for listener in (log.write if log else None, board):
                        if listener is not None:
                            listener(step)
                    for callback in callbacks:
                        callback(step, model)
                    bar.set_postfix(_postfix(step), refresh=False)
                bar.update()
                history.stopped_early = run.patience_is_over()
                last = run.t == run.n_outer or history.stopped_early or stop.signal is not None
                if folder is not None and (run.t % every == 0 or last):
                    run.check_weights(folder)
                    save(folder / "checkpoint", run.checkpoint(), run.describe())
                stop.raise_if_asked()
    finally:
        bar.close()
        if log is not None:
            log.close()
    run.finish(history)
    return history


def _open(run: Run, folder: Path | None, resume: bool) -> History:
    """The history to go on with: empty, or that of the run in the folder."""
    if folder is None:
        if resume:
            raise ValueError("resume=True needs out=, the folder of the run")
        return History()
    if not resume:
        if newest(folder / "checkpoint") is not None or (folder / "log.jsonl").exists():
            raise FileExistsError(f"out must be a folder without a run, got {folder}; take another, or resume=True")
        folder.mkdir(parents=True, exist_ok=True)
        save(folder / "checkpoint", run.checkpoint(), run.describe())
        return History()
    found = latest(folder / "checkpoint", run.describe())
    if found is None:
        folder.mkdir(parents=True, exist_ok=True)
        save(folder / "checkpoint", run.checkpoint(), run.describe())
    else:
        run.restore(found)
    history = History(Log.cut_back(folder / "log.jsonl", run.t))
    history.stopped_early = run.patience_is_over()
    return history


def _schedule(name: Any) -> Callable[[float], float]:
    if callable(name):
        return name  # type: ignore[no-any-return]
    if name == "constant":
        return lambda share: 1.0
    if name == "cosine":
        return lambda share: 0.5 * (1 + math.cos(math.pi * share))
    raise ValueError(f'schedule must be "constant", "cosine" or a function, got {name!r}')


def _postfix(step: Step) -> dict[str, str]:
    shown = {"loss": f"{step.loss:.3f}", "norm": f"{step.mean_norm:.3g}"}
    if step.measure is not None:
        shown["structure"] = f"{step.measure:.0f}"
    if step.lam is not None:
        shown["lam"] = f"{step.lam:.3g}"
    return shown


def _board(folder: str | Path | None) -> Callable[[Step], None] | None:
    if folder is None:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError("tensorboard= needs the package tensorboard: pip install tensorboard") from error
    writer = SummaryWriter(str(folder))

    def write(step: Step) -> None:
        for name in ("loss", "mean_norm", "lam", "measure", "learning_rate", "validation"):
            if (value := getattr(step, name)) is not None:
                writer.add_scalar(name, value, step.t)
        writer.flush()

    return write
