"""One trained model from a table, a defence by its name and a size: the path that every experiment shares."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from gsat import registry
from gsat.data import Table
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.gsat import (
    ERMClassifier,
    FGMClassifier,
    FGSMClassifier,
    GSATClassifier,
    PGDClassifier,
    StructuredATClassifier,
    UniversalATClassifier,
)
from gsat.training.history import History

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
    standardize: bool = False
    per_batch: bool = False  # whether the defence is given the batches of the table
    device: str | None = None  # "auto": a GPU where there is one

    def describe(self) -> dict[str, Any]:
        """The plan as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Trained:
    """A fitted classifier and the plan it comes from."""

    classifier: TorchClassifier
    plan: Plan

    @property
    def module(self) -> nn.Module:
        """The network."""
        return self.classifier.module_

    @property
    def history(self) -> History:
        """How the training went."""
        return self.classifier.history_


def train(
    table: Table, plan: Plan, *, out: Path | None = None, resume: bool = False, progress: bool = False
) -> Trained:
    """Train on the rows of the table.

    With `out` there are log.jsonl and checkpoints in that folder, and resume=True goes on with a run that is there.
    """
    classifier = classifier_for(plan, table).set_params(verbose=int(progress))
    batch = table.batch if plan.per_batch else None
    classifier.fit_run(samples(table), table.y, batch, seed=plan.seed, out=out, resume=resume)
    return Trained(classifier, plan)


def classifier_for(plan: Plan, table: Table) -> TorchClassifier:
    """The classifier of the plan, not fitted, for samples as those of the table."""
    shared: dict[str, Any] = {
        "n_outer": plan.n_outer,
        "group_size": plan.group_size,
        "module": plan.model,
        "module_options": plan.options or None,
        "in_shape": table.X.shape[1:] if table.X.ndim > 2 else None,
        "eta0": plan.eta0,
        "schedule": plan.schedule,
        "ema": plan.ema,
        "standardize": plan.standardize,
        "random_state": plan.seed,
        "device": ("cuda" if torch.cuda.is_available() else None) if plan.device == "auto" else plan.device,
    }
    if plan.defence == "erm":
        return ERMClassifier(**shared)
    shared["n_inner"] = plan.n_inner
    if plan.defence in (
        eps_only := {
            "fgm": FGMClassifier,
            "fgsm": FGSMClassifier,
            "pgd": PGDClassifier,
            "universal-at": UniversalATClassifier,
        }
    ):
        return eps_only[plan.defence](plan.size, **shared)
    if plan.defence not in registry.NAMES:
        raise ValueError(f"defence must be one of {', '.join(registry.NAMES)}, got {plan.defence!r}")
    shared |= {"k": plan.k, "feature_groups": table.feature_groups}
    if plan.defence not in registry.STRUCTURES:
        return StructuredATClassifier(plan.defence.removeprefix("structured-"), eps=plan.size, **shared)
    alpha = RECOMMENDED_ALPHA.get(plan.defence, 0.2) if plan.alpha is None else plan.alpha
    return GSATClassifier(plan.defence, lam=plan.lam, budget=plan.size, alpha=alpha, solver=plan.solver, **shared)


def samples(table: Table) -> Any:
    """X as the classifiers take it: a frame where the features have names, which are then kept with the model."""
    if table.feature_names is None or table.X.ndim > 2:
        return table.X
    return pd.DataFrame(table.X, columns=list(table.feature_names), copy=False)


def known_rows(table: Table, classifier: TorchClassifier) -> Table:
    """The rows whose class the classifier has seen in training."""
    seen = np.isin(table.y, classifier.classes_)  # type: ignore[arg-type]
    return table if seen.all() else table.subset(seen)
