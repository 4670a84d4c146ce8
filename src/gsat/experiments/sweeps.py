"""What sweeps over a training parameter share: the ELU net, one model after the other, the same attacks for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from gsat.data import Table
from gsat.estimators.from_table import Plan, samples
from gsat.evaluation import evaluate
from gsat.experiments.arenas import Arena, arena
from gsat.experiments.comparing import trained
from gsat.experiments.pieces import Place
from gsat.experiments.scales import Scale
from gsat.registry import parse_attack

STRUCTURES = ("group-sparse", "low-rank")
SHORTER = {"cpu": 3, "overnight": 3}  # a sweep trains many models: each on so many times fewer groups than elsewhere


def elu_on(scale: Scale, data: str = "mnist", *, full: bool = False, **changes: Any) -> Arena:
    """The ELU net on a data set, trained on fewer groups than elsewhere unless `full`."""
    plan = scale.elu.plan
    n_outer = plan.n_outer if full else plan.n_outer // SHORTER.get(scale.name, 1)
    return arena(scale, scale.elu, f"{data}-elu", data, plan={"n_outer": n_outer, **changes})


def number_of_seeds(scale: Scale, seeds: int | None) -> int:
    """Those that were asked for, or those of the scale."""
    return scale.elu.seeds if seeds is None else seeds


def judged(
    place: Place, plan: Plan, rows: Table, judges: Table, attacks: Sequence[str], *, steps: int, group_size: int = 200
) -> pd.DataFrame:
    """Train on `rows`, or take the model that is there, and attack it on `judges` with "name:count@eps" texts.

    One row per attack and one without: defence, seed, attack (its name), strength, eps (a fraction of E‖X‖), accuracy,
    clean (the accuracy without attack), n, lam, and used, the mean norm of the perturbations in training / E‖X‖.
    """
    model = trained(rows, plan, place.work)
    unit = model.mean_norm_
    found = evaluate(
        model,
        samples(judges),
        judges.y,
        {text: parse_attack(text, unit, steps=steps) for text in attacks},
        group_size=group_size,
        random_state=plan.seed,
    )
    used = model.history_.mean_norm
    return found.assign(
        attack=found["attack"].str.partition(":")[0].str.partition("@")[0],
        eps=found["eps"] / unit,
        clean=found["accuracy"].iloc[0],
        defence=plan.defence,
        seed=plan.seed,
        lam=model.lam_,
        used=None if used is None else used / unit,
        unit=unit,
    ).drop(columns=["loss", "mean_norm", "seconds"])


def of_seed(plan: Plan, defence: str, seed: int, **changes: Any) -> Plan:
    """The plan for that defence and seed."""
    return replace(plan, defence=defence, seed=seed, **changes)


def training_in_words(plan: Plan, seeds: int) -> str:
    """How the models were trained, for the protocol."""
    return (
        f"ELU net with 100 units, {plan.n_outer:,} groups of {plan.group_size}, at most {plan.n_inner} inner "
        f"gradients, Adam {plan.eta0:g} ({plan.schedule}), {seeds} seed{'s' if seeds != 1 else ''} of weights, "
        "groups, validation and test rows."
    )
