"""GDADMM, the paper's Algorithm 1: draw a group, find its worst perturbation, take one descent step of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Generator, nn
from torch.nn.parallel import DistributedDataParallel

from gsat import _checks, _defaults
from gsat._ranks import joined
from gsat.defences import Defence
from gsat.losses import SampleLoss, per_sample_cross_entropy
from gsat.training.ahead import reading_ahead
from gsat.training.budget import control_for
from gsat.training.callbacks import Listener, callbacks_for, folder_of, watched
from gsat.training.checkpoint import MOST
from gsat.training.divergence import Diverged, check_loss, finite_search
from gsat.training.groups import RUN
from gsat.training.history import History, Step
from gsat.training.interrupt import training_mode
from gsat.training.parallel import team_of
from gsat.training.state import Run, adam
from gsat.training.validation import Validation

__all__ = ["Diverged", "Validation", "gdadmm", "iterate"]


def gdadmm(
    model: nn.Module,
    X: Any,
    y: Any,
    defence: Defence,
    *,
    n_outer: int,
    group_size: int = _defaults.GROUP_SIZE,
    optimizer: torch.optim.Optimizer | None = None,
    eta0: float = _defaults.ETA0,
    schedule: Literal["constant", "cosine"] | Callable[[float], float] = "constant",
    lam: float | Literal["paper", "auto"] = "auto",
    budget: float = _defaults.BUDGET,
    batch: Any = None,
    group: str = "own",
    deal: bool = True,
    shuffle: Literal["rows", "block"] = "rows",
    loss: SampleLoss | None = None,
    ema: float | None = None,
    validation: Validation | None = None,
    generator: Generator | None = None,
    callbacks: Sequence[Listener] = (),
    out: str | Path | None = None,
    resume: bool = False,
    checkpoint_every: int = 100,
    log_every: int = 1,
    progress: bool = False,
    tensorboard: str | Path | None = None,
) -> History:
    """Train `model` against `defence`, in place: one descent step on mean_i ℓ(f_w(x_i + δ_i), y_i) for each group.

    Parameters
    ----------
    model
        Maps (m, *features) to outputs (m, ...) that `loss` takes.
    X, y
        Samples (n, *features) and labels (n,): tensors, arrays, memory maps, or what is indexed like them.
    defence
        What perturbs a group: one of `gsat.defences`.
    n_outer, group_size
        The number of groups, and of samples in each.
    optimizer, eta0
        By default Adam with the learning rate eta0; the paper's is 1e-4, with ten times as many groups.
    schedule
        "constant", "cosine", or a function of t/n_outer that multiplies the learning rate.
    lam, budget
        A number, "paper" (0.25·E‖X‖₂), or "auto": λ follows so that the mean ‖δ_i‖ is budget·E‖X‖₂, with the cost in
        units of that length. It is the mean over classes, where one r times smaller than the largest counts r-fold,
        from r = 4/3 on; no group uses more than twice the budget, no sample moves farther than three times. For GSAT
        defences alone.
    batch
        One id for each sample, for costs with one structure per batch.
    group, deal
        For a program of several processes (torch.distributed). group="own": each moves a group of group_size samples,
        and gradients are averaged; "shared": the processes hold parts of one group of group_size samples. deal=True:
        all are given the same X, of which process r of R takes the rows r, r + R, ...; False: each is given its own.
    shuffle
        "rows": a group is drawn sample by sample; "block": in runs of 16 that follow each other in X, for slow disks.
    loss
        (outputs, y) -> (m,); by default the cross-entropy.
    ema
        Decay of an average of the weights, with which the run ends.
    validation
        When to stop early; the run then ends with the weights of the best measurement.
    generator
        Draws the groups; by default one with seed 0.
    callbacks
        Functions, called as callback(step, model) after each recorded step.
    out, resume, checkpoint_every
        A folder for log.jsonl and checkpoints; with resume=True a killed run goes on where it was, and ends with the
        same bits as an unbroken one.
    log_every
        Every log_every-th step is recorded.
    progress, tensorboard
        Whether to show a bar; a folder for TensorBoard.

    Returns
    -------
    History
        The recorded steps, and λ and the mean norm over the last tenth of them.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> table = gsat.data.make_batches(60, 10)
    >>> x, y = torch.as_tensor(table.X).float(), torch.as_tensor(table.codes)
    >>> model = gsat.models.ELUNet(10, 3)
    >>> defence = gsat.defences.GSAT(gsat.LowRank())
    >>> history = gsat.gdadmm(model, x, y, defence, n_outer=20, group_size=50, eta0=0.01)
    >>> len(history), history[-1].loss < history[0].loss
    (20, True)

    Other defences in place of GSAT; `match_norm` makes the perturbations of a baseline as long as those of GSAT:

    >>> d = gsat.defences
    >>> others = [d.ERM(), d.FGM(0.1), d.PGD(0.1), d.UniversalAT(0.1), d.Structured(gsat.attacks.LowRank(0.1, rank=2))]
    >>> [len(gsat.gdadmm(model, x, y, other, n_outer=1, group_size=20)) for other in others]
    [1, 1, 1, 1, 1]
    >>> d.match_norm(others[2], history.mean_norm).attack.eps == history.mean_norm
    True
    """
    if not isinstance(defence, Defence):
        raise TypeError(f"defence must be of gsat.defences, got {defence!r}; a cost goes into gsat.defences.GSAT(cost)")
    with joined() as ranks:  # from here on the others notice where one fails
        eta0 = _checks.number("eta0", eta0, above=0)
        group_size = _checks.count("group_size", group_size, least=1)
        checkpoint_every = _checks.count("checkpoint_every", checkpoint_every, least=1)
        if len(X) == 0 or len(y) != len(X):
            raise ValueError(f"y must have one label per sample of X ({len(X)}, at least 1), got {len(y)}")
        if batch is not None and len(batch) != len(X):
            raise ValueError(f"batch must have one id per sample of X ({len(X)}), got {len(batch)}")
        if resume and out is None:
            raise ValueError("resume=True needs out=, the folder of the run")
        model = model.module if isinstance(model, DistributedDataParallel) else model  # gradients are averaged here
        team, group_size = team_of(ranks, group, group_size, len(X), defence, deal=deal)
        run = Run(
            model=model,
            X=team.dealt(X),
            y=team.dealt(y),
            defence=defence,
            n_outer=_checks.count("n_outer", n_outer, least=1, most=MOST),
            group_size=group_size,
            optimizer=adam(model, eta0) if optimizer is None else optimizer,
            schedule=_schedule(schedule),
            batch=None if batch is None else team.dealt(batch),
            loss=per_sample_cross_entropy if loss is None else loss,
            ema=None if ema is None else _checks.number("ema", ema, above=0, below=1),
            validation=validation,
            generator=team.generator(Generator().manual_seed(0) if generator is None else generator),
            log_every=_checks.count("log_every", log_every, least=1),
            run=RUN if _checks.one_of("shuffle", shuffle, ("rows", "block")) == "block" else 1,
            team=team,
        )
        team.equal(model, defence)
        with team.together():
            run.control = control_for(defence, run.X, lam, budget, run.n_outer)
        with folder_of(run, None if out is None else Path(out), resume=resume):
            watchers = callbacks_for(
                run, callbacks, checkpoint_every=checkpoint_every, tensorboard=tensorboard, progress=progress
            )
            with training_mode(model), watched(run, watchers), reading_ahead(run):
                while not run.over:
                    iterate(run)
                    for watcher in watchers:
                        watcher.after(run)
        return run.finish()


def iterate(run: Run) -> Step:
    """One outer step: draw a group, move it to where the loss is worst, descend; what happened is `run.latest`."""
    model, defence, control, team = run.model, run.defence, run.control, run.team
    run.optimizer.zero_grad()  # first: gradients may be as large as the group
    x, y, batch = run.group()
    with team.together():
        control.price(defence, model, x, y)
    with finite_search(run.t, run.folder, team.ranks), team.one_group(defence):
        x = defence(model, x, y, batch)
        measure = defence.measure()
    objective = defence.objective(model, x, y, run.loss, batch)
    check_loss(value := team.mean(objective.item()), run.t, run.folder)
    objective.backward()  # type: ignore[no-untyped-call]
    team.average(model)
    rate = run.set_rates()
    run.optimizer.step()
    with team.together():
        run.latest = Step(run.t, value, defence.mean_norm, control.lam, team.mean_measure(measure), rate)
        control.update(run.t, defence.norms, y)
    run.t += 1
    return run.latest


def _schedule(name: Any) -> Callable[[float], float]:
    """The factor of the learning rate as a function of t/n_outer."""
    if callable(name):
        return name  # type: ignore[no-any-return]
    known: dict[Any, Callable[[float], float]] = {
        "constant": lambda share: 1.0,
        "cosine": lambda share: 0.5 * (1 + math.cos(math.pi * share)),
    }
    if name not in known:
        raise ValueError(f'schedule must be "constant", "cosine" or a function, got {name!r}')
    return known[name]
