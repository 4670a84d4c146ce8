"""Defences against attacks over seeds, with baselines that are norm-matched or tuned as hard as ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import joblib
import numpy as np
import pandas as pd

from gsat.data import Table
from gsat.estimators.from_table import Plan, known_rows, samples
from gsat.evaluation import evaluate
from gsat.experiments.judging import is_gsat, is_structured, paired_differences, trained
from gsat.experiments.setting import hold_out, some_rows
from gsat.registry import parse_attack
from gsat.training.threads import use_threads

Rule = Literal["matched", "tuned"]


@dataclass(frozen=True)
class Protocol:
    """What is compared, and how sizes are chosen.

    matched: every GSAT defence and the unstructured adversary have the budget `size`; eps of the others is the mean
             ‖δ_i‖ that structured GSAT used, which is the paper's rule
    tuned:   every defence is trained at every size of `grid`; for each attack the size with the best accuracy under
             that attack on validation rows, held out of the training rows, is taken: the same search for each defence
    """

    defences: tuple[str, ...]
    attacks: tuple[str, ...]
    rule: Rule = "matched"
    size: float = 0.05
    grid: tuple[float, ...] = (0.025, 0.05, 0.1, 0.2)
    seeds: tuple[int, ...] = (0, 1, 2)
    n_test: int = 1000
    n_validation: int = 1000
    steps: int = 100
    strength: str = "standard"  # of the attacks on test rows; sizes are chosen with fast ones
    plan: Plan = field(default_factory=lambda: Plan("erm"))
    jobs: int = 1
    threads: int | None = None


@dataclass(frozen=True)
class Comparison:
    """results: one row per seed, defence, size and attack; chosen: those that the rule takes."""

    results: pd.DataFrame
    chosen: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """Accuracy in percent, mean ± standard deviation over seeds; a row per defence, a column per attack."""
        grouped = self.chosen.groupby(["defence", "case"], sort=False)["accuracy"]
        mean, spread = 100 * grouped.mean(), 100 * grouped.std(ddof=1)
        cells = [f"{m:.1f} ± {s:.1f}" if s == s else f"{m:.1f}" for m, s in zip(mean, spread, strict=True)]
        return pd.Series(cells, index=mean.index).unstack("case")[list(dict.fromkeys(self.chosen["case"]))]

    def differences(self) -> pd.DataFrame:
        """For each of our defences and each baseline: the paired difference over seeds, in points."""
        return paired_differences(self.chosen, ["case"])


def compare(table: Table, protocol: Protocol, *, out: Path | None = None, progress: bool = False) -> Comparison:
    """Train and attack everything the protocol names; each seed has its own weights, groups and validation rows."""
    rounds = [_sizes(name, protocol) for name in protocol.defences]
    tasks = [
        (replace(protocol.plan, defence=name, size=size, seed=seed), size)
        for seed in protocol.seeds
        for name, sizes in zip(protocol.defences, rounds, strict=True)
        for size in sizes
        if protocol.rule == "tuned" or is_gsat(name) or name == "erm"
    ]
    results = _run(table, protocol, tasks, out, progress)
    if protocol.rule == "matched":
        names = [name for name in protocol.defences if is_structured(name)] or list(filter(is_gsat, protocol.defences))
        if not names:
            raise ValueError('rule "matched" needs at least one GSAT defence to match, got none')
        norms = results[results["defence"].isin(names)].groupby("seed")["mean_norm_used"].mean()
        units = results.groupby("seed")["unit"].first()
        tasks = [
            (replace(protocol.plan, defence=name, size=float(norms[seed] / units[seed]), seed=seed), protocol.size)
            for seed in protocol.seeds
            for name in protocol.defences
            if not is_gsat(name) and name != "erm"
        ]
        results = pd.concat([results, _run(table, protocol, tasks, out, progress)], ignore_index=True)
    order = {name: i for i, name in enumerate(protocol.defences)}
    results = results.sort_values("defence", key=lambda names: names.map(order), kind="stable", ignore_index=True)
    return Comparison(results, _choose(results))


def _run(
    table: Table, protocol: Protocol, tasks: list[tuple[Plan, float]], out: Path | None, progress: bool
) -> pd.DataFrame:
    calls = [joblib.delayed(_one)(table, protocol, plan, out) for plan, _ in tasks]
    frames = joblib.Parallel(n_jobs=protocol.jobs, verbose=5 if progress else 0)(calls)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _one(table: Table, protocol: Protocol, plan: Plan, out: Path | None) -> pd.DataFrame:
    """Train one model and attack it on validation and test rows."""
    use_threads(1 if protocol.threads is None and protocol.jobs > 1 else protocol.threads)
    train_rows, validation = hold_out(table.train, protocol.n_validation, plan.seed)
    test = some_rows(table.test, protocol.n_test, plan.seed)
    classifier = trained(train_rows, plan, out)
    unit, groups = classifier.mean_norm_, table.feature_groups
    frames = []
    for part, rows in (("validation", validation), ("test", test)):
        known = known_rows(rows, classifier)
        frame = evaluate(
            classifier,
            samples(known),
            known.y,
            {text: parse_attack(text, unit, steps=protocol.steps, feature_groups=groups) for text in protocol.attacks},
            group_size=plan.group_size,
            random_state=plan.seed,
            batch=known.batch if plan.per_batch else None,
            out=None if out is None else out / "evaluations.jsonl",
            strength=protocol.strength if part == "test" else "fast",
        )
        frames.append(frame.assign(part=part))
    result = pd.concat(frames, ignore_index=True).rename(columns={"attack": "case"})
    return result.assign(
        defence=plan.defence,
        size=plan.size,
        seed=plan.seed,
        unit=unit,
        lam=classifier.lam_ or np.nan,  # a number also where there is no price
        mean_norm_used=classifier.history_.mean_norm,
    )


def _choose(results: pd.DataFrame) -> pd.DataFrame:
    """For each seed, defence and attack, the test row of the size that validated best."""
    keys = ["seed", "defence", "case"]
    validated = results[results["part"] == "validation"]
    best = validated.loc[validated.groupby(keys, sort=False)["accuracy"].idxmax(), [*keys, "size"]]
    tested = results[results["part"] == "test"]
    model = ["seed", "defence", "size"]
    clean = tested[tested["case"] == "none"][[*model, "accuracy"]].rename(columns={"accuracy": "clean"})
    return tested.merge(best, on=[*keys, "size"]).merge(clean, on=model)


def _sizes(name: str, protocol: Protocol) -> Sequence[float]:
    if name == "erm":
        return (0.0,)
    return protocol.grid if protocol.rule == "tuned" else (protocol.size,)
