"""Runs of test_parallel_runs.py, each on one of two ranks of a process group."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn

import gsat
from gsat import attacks, defences
from gsat._ranks import RankLeft, joined
from gsat.models import seeded
from gsat.training import History, Step, Validation, gdadmm

D, CLASSES = 10, 3


def samples(n: int = 101, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (n,), generator=generator)
    return torch.randn(n, D, generator=generator) + 2 * nn.functional.one_hot(y, D), y


def net(*, dropout: float = 0.0, norm: bool = False) -> nn.Sequential:
    with seeded(1):
        middle = [nn.BatchNorm1d(6)] if norm else [nn.Dropout(dropout)]
        return nn.Sequential(nn.Linear(D, 6), *middle, nn.ELU(), nn.Linear(6, CLASSES))


def train(model: nn.Module, X: Tensor, y: Tensor, defence: Any = None, **options: Any) -> History:
    defence = defences.GSAT(gsat.LowRank(), n_inner=4) if defence is None else defence
    return gdadmm(model, X, y, defence, **{"n_outer": 8, "group_size": 20, "eta0": 1e-2, **options})


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def with_nan(form: str, defence: str) -> None:
    """Rank 1 has a sample that is not finite, which comes into its first group."""
    X, y = samples(21, seed=dist.get_rank())
    if dist.get_rank() == 1:
        X[3, 4] = torch.nan
    erm, gsat_ = defences.ERM(), defences.GSAT(gsat.Universal(), n_inner=4)
    train(net(), X, y, erm if defence == "erm" else gsat_, lam=0.1, deal=False, group=form, group_size=42)


def with_fault(form: str) -> None:
    """A function of the user's fails on rank 1."""

    def listener(step: Step, model: nn.Module) -> None:
        if dist.get_rank() == 1 and step.t == 2:
            raise KeyError("mine")

    train(net(), *samples(), group=form, callbacks=[listener])


def with_fewer(form: str) -> tuple[dict[str, Tensor], float | None]:
    """Rank 1 is given 3 samples, rank 0 101."""
    model = net()
    history = train(model, *samples(3 if dist.get_rank() else 101), deal=False, group=form)
    return state(model), history.lam


def with_other_samples() -> None:
    """The ranks are to share out samples that are not the same."""
    train(net(), *samples(50 + dist.get_rank()))


def with_wrong_input() -> None:
    """Rank 1 has one label too few."""
    X, y = samples()
    train(net(), X, y[dist.get_rank() :])


def with_one_sample() -> None:
    train(net(), *samples(1))


def with_own_cost() -> None:
    class Own:
        def value(self, delta: Tensor) -> Tensor:
            return delta.square().sum()

        def prox(self, v: Tensor, tau: float) -> Tensor:
            return v / (1 + 2 * tau)

    train(net(), *samples(), defences.GSAT(Own()), lam=0.1, group="shared")


def with_own_attack() -> None:
    class Own(attacks.Attack):
        name = "own"

        def _search(self, *args: Any) -> Any:
            raise NotImplementedError

    train(net(), *samples(), defences.Structured(Own(0.1)), group="shared")


def with_attack_per_batch() -> None:
    X, y = samples()
    train(net(), X, y, defences.Structured(attacks.Universal(0.1)), batch=(y == 0).tolist(), group="shared")


def with_tiny_group() -> None:
    train(net(), *samples(), group="shared", group_size=1)


def with_many_features() -> None:
    X = torch.randn(40, 4097)
    model = nn.Sequential(nn.ELU(), nn.Linear(4097, CLASSES))
    train(model, X, torch.arange(40) % CLASSES, lam=0.1, group="shared")


def with_validation(measure: str) -> tuple[list[Step], float | None, bool]:
    """A run that stops early: the labels are random, so that held-out samples gain nothing."""
    X, y = samples()
    y = y[torch.randperm(len(y), generator=Generator().manual_seed(2))]
    attack = attacks.FGM(0.1) if measure == "accuracy" else None
    rule = Validation(X[:31], y[:31], attack, every=2, patience=2, measure=measure)  # type: ignore[arg-type]
    history = train(net(), X[31:], y[31:], n_outer=60, validation=rule, eta0=0.1)
    return history.steps, history.best_validation, history.stopped_early


def with_batch_norm() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The buffers after a step of this rank alone, and of both together."""
    X, y = samples(21, seed=dist.get_rank())
    together, alone = net(norm=True), net(norm=True)
    train(together, X, y, defences.ERM(), deal=False, n_outer=1, group_size=21)
    alone.train()(X)
    return dict(together.named_buffers()), dict(alone.named_buffers())


DEFENCES: dict[str, Callable[[], Any]] = {
    "own": lambda: defences.UniversalAT(0.3),  # its shift is another on each rank
    "shared": lambda: defences.GSAT(gsat.PerBatch(gsat.GroupSparse(), n_random=3), n_inner=4),
}


def kept(folder: Path, form: str, *, resume: bool = False, fault: Any = None) -> tuple[dict[str, Tensor], list[Step]]:
    """A run with checkpoints, dropout and another random state on each rank; the fault comes on rank 1 after step 6."""

    def listener(step: Step, model: nn.Module) -> None:
        if fault and step.t == 6 and dist.get_rank() == 1:
            if isinstance(fault, int):
                os.kill(os.getpid(), fault)
            else:
                raise fault

    torch.manual_seed(dist.get_rank() + 10 * resume)
    model = net(dropout=0.2)
    history = train(
        model,
        *samples(),
        DEFENCES[form](),
        n_outer=16,
        group=form,
        ema=0.9,
        out=folder / form,
        resume=resume,
        checkpoint_every=3,
        callbacks=[listener],
    )
    return state(model), history.steps


ALL: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "nan own gsat": (with_nan, ("own", "gsat")),
    "nan own erm": (with_nan, ("own", "erm")),
    "nan shared gsat": (with_nan, ("shared", "gsat")),
    "nan shared erm": (with_nan, ("shared", "erm")),
    "fault own": (with_fault, ("own",)),
    "fault shared": (with_fault, ("shared",)),
    "wrong input": (with_wrong_input, ()),
    "fewer own": (with_fewer, ("own",)),
    "fewer shared": (with_fewer, ("shared",)),
    "other samples": (with_other_samples, ()),
    "one sample": (with_one_sample, ()),
    "own cost": (with_own_cost, ()),
    "own attack": (with_own_attack, ()),
    "attack per batch": (with_attack_per_batch, ()),
    "tiny group": (with_tiny_group, ()),
    "many features": (with_many_features, ()),
    "validation accuracy": (with_validation, ("accuracy",)),
    "validation loss": (with_validation, ("loss",)),
    "batch norm": (with_batch_norm, ()),
}


def all_runs(folder: Path) -> dict[str, Any]:
    """What each of these returned or raised, one after the other in one process group."""
    found: dict[str, Any] = {}

    def run(name: str, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        try:
            found[name] = function(*args, **options)
        except (Exception, SystemExit) as error:
            found[name] = error

    for name, (function, args) in ALL.items():
        run(name, function, *args)
    for form in DEFENCES:
        run(f"whole {form}", kept, folder / "whole", form)
        run(f"broken {form}", kept, folder / "broken", form, fault=ValueError("mine"))
        run(f"mended {form}", kept, folder / "broken", form, resume=True)
        run(f"stopped {form}", kept, folder / "stopped", form, fault=int(signal.SIGTERM))
        run(f"again {form}", kept, folder / "stopped", form, resume=True)
    return found


def leave_at_once(times: int) -> list[str]:
    """What this rank is told when all ranks fail in the same way, right after they have joined."""
    told = []
    for _ in range(times):
        try:
            with joined():
                raise ValueError("mine")
        except (ValueError, RankLeft) as error:
            told.append(str(error))
    return told


def slow(folder: Path, pause: float, form: str) -> None:
    """A run to be killed, with a pause after each step; the bits of its weights at the end are left in a file."""
    torch.manual_seed(3 + dist.get_rank())
    model = net(dropout=0.2)
    train(
        model,
        *samples(),
        DEFENCES[form](),
        n_outer=40,
        group=form,
        out=folder,
        resume=True,
        checkpoint_every=4,
        callbacks=[lambda step, model: time.sleep(pause)],
    )
    torch.save(model.state_dict(), folder / f"end{dist.get_rank()}.pt")
