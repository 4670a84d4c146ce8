"""One model trained, or taken from where it was kept, attacked, and compared with others seed by seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gsat import _defaults, registry
from gsat.data import Table
from gsat.estimators import load
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.from_table import Plan, samples, train
from gsat.evaluation import evaluate
from gsat.experiments.paired import summed_up, with_verdicts, with_wins
from gsat.registry import parse_attack

if TYPE_CHECKING:
    from gsat.experiments.plan import Place


def trained(rows: Table, plan: Plan, out: Path | None) -> TorchClassifier:
    """The trained model, kept in the folder of the comparison, which does not train it again after a stop."""
    if out is None:
        return train(rows, plan).classifier
    key = hashlib.sha256(json.dumps([plan.describe(), rows.checksum, len(rows)]).encode()).hexdigest()[:16]
    folder = out / "models" / f"{plan.defence}-{key}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        train(rows, plan).classifier.save(folder)
    return load(folder)  # type: ignore[no-any-return]


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
        strength=_defaults.STRENGTH,
    )
    used = model.history_.mean_norm
    return found.assign(
        attack=found["attack"].str.partition(":")[0].str.partition("@")[0],
        eps=found["eps"] / unit,
        clean=found["accuracy"].iloc[0],
        defence=plan.defence,
        seed=plan.seed,
        lam=model.lam_ or np.nan,
        used=None if used is None else used / unit,
        unit=unit,
    ).drop(columns=["loss", "mean_norm", "seconds"])


def of_seed(plan: Plan, defence: str, seed: int, **changes: Any) -> Plan:
    """The plan for that defence and seed."""
    return replace(plan, defence=defence, seed=seed, **changes)


def training_in_words(plan: Plan, seeds: int) -> str:
    """How the models were trained, for the protocol."""
    return (
        f"ELU net with 100 units, {plan.n_outer:,} groups of {plan.group_size}, at most {plan.inner} inner "
        f"gradients, Adam {plan.eta0:g} ({plan.schedule}), {seeds} seed{'s' if seeds != 1 else ''} of weights, "
        "groups, validation and test rows."
    )


def paired_differences(chosen: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Accuracy of each of our defences minus that of each baseline, seed by seed, for each combination of `by`.

    One row each: what `summed_up` says of the differences in points, `beats` and `verdict`, and `clean`, the mean
    difference without attack between the same models, those chosen for that attack.
    """
    found = []
    for keys, rows in chosen.groupby(list(by), sort=False):
        wide = rows.pivot_table(index="seed", columns="defence", values=["accuracy", "clean"], sort=False)
        names = list(dict.fromkeys(rows["defence"]))
        for ours in filter(is_ours, names):
            for baseline in (name for name in names if not is_ours(name)):
                gap, clean = (100 * (wide[value, ours] - wide[value, baseline]) for value in ("accuracy", "clean"))
                found.append(
                    {
                        "ours": ours,
                        "baseline": baseline,
                        **dict(zip(by, keys, strict=True)),
                        **summed_up(gap),
                        "clean": clean.mean(),
                    }
                )
    return with_verdicts(with_wins(found))


def is_gsat(name: Any) -> bool:
    """Whether the defence is GSAT with one of its structures."""
    return name in registry.STRUCTURES


def is_structured(name: Any) -> bool:
    """Whether the defence is GSAT with a structure that samples share: not the unstructured adversary, a rival."""
    return is_gsat(name) and name != "unstructured"


def is_ours(name: str) -> bool:
    """Whether the defence has shared structure: GSAT, or training on structured attacks."""
    return is_structured(name) or name.startswith("structured-")
