"""One trained model from a table, a defence by its name and a size: the path that every experiment shares."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gsat import attacks, defences
from gsat._numeric import mean_norm
from gsat.attacks import Attack
from gsat.data import Table
from gsat.history import History
from gsat.models import build
from gsat.oracle import frozen
from gsat.train import gdadmm

RECOMMENDED_ALPHA = {"group-sparse": 0.1}  # 0.2 for the others


@dataclass(frozen=True)
class Plan:
    """How a model is trained. `size` is a fraction of E‖X‖₂: the budget of GSAT, the eps of the others."""

    defence: str
    size: float = 0.05
    lam: float | str = "auto"
    alpha: float | None = None  # None: what docs/choose.md recommends for the structure
    k: int | None = None
    model: str = "elu"
    options: dict[str, Any] = field(default_factory=dict)
    n_outer: int = 1000
    n_inner: int = 20
    group_size: int = 200
    eta0: float = 1e-3
    schedule: str = "constant"
    ema: float | None = None
    solver: str = "proximal"
    seed: int = 0

    def describe(self) -> dict[str, Any]:
        """The plan as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Trained:
    """A model, how its training went, and the plan."""

    module: nn.Module
    history: History
    plan: Plan
    about: dict[str, Any]


def train(
    table: Table, plan: Plan, *, out: Path | None = None, resume: bool = False, progress: bool = False
) -> Trained:
    """Train on the rows of the table as they are."""
    X, y = torch.from_numpy(table.X), torch.from_numpy(table.codes)
    n_classes = len(table.classes)
    module = build(plan.model, table.X.shape[1:], n_classes, seed=plan.seed, **plan.options)
    _probe(module, X, n_classes, plan.model)
    defence = defences.named(
        plan.defence,
        eps=plan.size * mean_norm(X),
        alpha=RECOMMENDED_ALPHA.get(plan.defence, 0.2) if plan.alpha is None else plan.alpha,
        k=plan.k,
        solver=plan.solver,
        n_inner=plan.n_inner,
        group_size=min(plan.group_size, len(X)),
        seed=plan.seed,
    )
    history = gdadmm(
        module,
        X,
        y,
        defence,
        n_outer=plan.n_outer,
        group_size=plan.group_size,
        eta0=plan.eta0,
        schedule=plan.schedule,  # type: ignore[arg-type]
        lam=plan.lam,  # type: ignore[arg-type]
        budget=plan.size,
        ema=plan.ema,
        generator=Generator().manual_seed(plan.seed),
        out=out,
        resume=resume,
        progress=progress,
    )
    about = {
        "model": plan.model,
        "in_shape": list(table.X.shape[1:]),
        "n_classes": n_classes,
        "options": plan.options,
        "classes": table.classes.tolist(),
        "source": table.source,
        "checksum": table.checksum,
        "mean_norm_of_X": mean_norm(X),
        "lam": history.lam,
        "mean_norm": history.mean_norm,
        "plan": plan.describe(),
    }
    return Trained(module.eval(), history, plan, about)


def _probe(module: nn.Module, X: Tensor, n_classes: int, name: str) -> None:
    """A model of the user's may not fit the data: better said before training than by torch in the middle."""
    rule = f"model {name!r} must map samples of shape {tuple(X.shape[1:])} to {n_classes} logits"
    with frozen(module), torch.no_grad():
        try:
            outputs = module(X[:2])
        except RuntimeError as error:
            raise ValueError(f"{rule}, but fails on them: {error}") from error
    if tuple(outputs.shape) != (len(X[:2]), n_classes):
        raise ValueError(f"{rule}, got an output of shape {tuple(outputs.shape)} for {len(X[:2])} samples")


def parse_attack(text: str, unit: float, *, eps: float = 0.05, steps: int = 100) -> Attack:
    """An attack from "name[:strength][@eps]", eps a fraction of `unit` = E‖X‖₂; "low-rank:5@0.2" has rank 5."""
    name, _, size = text.partition("@")
    name, _, strength = name.partition(":")
    try:
        bound = (float(size) if size else eps) * unit
        count = int(strength) if strength else None
    except ValueError:
        raise ValueError(f'an attack must read "name", "name:count" or "name:count@eps", got {text!r}') from None
    if name == "universal":
        return attacks.Universal(bound, steps=steps)
    if name == "group-sparse":
        return attacks.GroupSparse(bound, k=50 if count is None else count, steps=steps)
    if name == "low-rank":
        return attacks.LowRank(bound, rank=5 if count is None else count, steps=steps)
    if name == "pgd":
        return attacks.PGD(bound, steps=steps)
    if name == "fgm":
        return attacks.FGM(bound)
    raise ValueError(f"attack must be one of {', '.join(ATTACKS)}, got {name!r}")


ATTACKS = ("universal", "group-sparse", "low-rank", "pgd", "fgm")
