"""Accuracy against the strength of an attack: every defence trained, its size chosen, and attacked, by both rules.

matched: GSAT and the unstructured adversary have the budget 0.05·E‖X‖ (on CIFAR-10 a quarter of it but at paper
         scale); eps of the other baselines is the mean norm that GSAT used, which is the paper's rule
tuned:   every defence gets the recipe that is best on validation rows (`recipes`: as many tries for each) and is
         trained at every size of one grid; for each attack the size is taken that is best under it on
         validation rows, at the reference strength; the rows are held out of the training rows, of the same for all
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gsat import _defaults
from gsat.data import Table
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.from_table import known_rows, samples
from gsat.evaluation import evaluate
from gsat.experiments.judging import is_gsat, trained
from gsat.experiments.pictures import shown
from gsat.experiments.plan import Piece, Place
from gsat.experiments.recipes import choosing, taken, tuned
from gsat.experiments.setting import Arena, Scale
from gsat.experiments.strengths import Sweep

RULES = ("matched", "tuned")
SEARCHES = 3  # of an attack on test rows, which is of strength "standard"; sizes and recipes are chosen with fast ones
SLOWER = {"group-sparse": 4.0, "low-rank": 3.5}  # attacks on the ELU net, where columns and subspaces take the time
BASELINES = ("erm", "fgsm", "fgm", "pgd", "unstructured")
CASE = ["data", "model", "rule", "attack", "eps", "strength"]
Stage = tuple[Arena, list[Sweep], tuple[str, ...]]  # where, which attacks, which structures of GSAT


def pieces(stages: Sequence[Stage], scale: Scale, seeds: int | None) -> list[Piece]:
    """For each arena and seed the training of every model, then the attacks on those of each defence."""
    found = []
    for arena, sweeps, structures in stages:
        size = scale.alexnet if arena.plan.model == "alexnet" else scale.elu
        for seed in range(size.seeds if seeds is None else seeds):
            found += _recipes(arena, (*structures, *BASELINES), seed)
            found += _training(arena, (*structures, *BASELINES), seed)
            found += [_attacking(arena, sweeps, defence, seed) for defence in (*structures, *BASELINES)]
    return found


def _recipes(arena: Arena, defences: Sequence[str], seed: int) -> list[Piece]:
    """The trials of each defence, where there are any."""
    return [choosing(arena, name, seed, _effort(arena, name)) for name in defences if arena.trials > 1]


def _training(arena: Arena, defences: Sequence[str], seed: int) -> list[Piece]:
    """GSAT at the budget comes first and the baselines that have its norm last: they need those models."""
    matching = [("matched", arena.budget, structure) for structure in dict.fromkeys((*arena.structures, *defences))]
    tuned = [("tuned", size, defence) for defence in defences for size in arena.grid if defence != "erm"]
    models = [model for model in matching if is_gsat(model[2])] + tuned
    models += [model for model in matching if not is_gsat(model[2])]
    known = {(size, defence) for _, size, defence in matching if is_gsat(defence) and arena.plan.lam == "auto"}
    about = {"arena": arena, "seed": seed}
    return [
        Piece(
            f"{arena.name}, {shown(defence)}, {rule}, seed {seed}",
            fit,
            {**about, "rule": rule, "size": size, "defence": defence},
            1.0 if rule == "tuned" and (size, defence) in known else _effort(arena, defence),
        )
        for rule, size, defence in models
    ]


def _effort(arena: Arena, defence: str) -> float:
    inner = {"erm": 0, "fgm": 1, "fgsm": 1}.get(defence, arena.plan.inner)
    return arena.plan.n_outer * (inner + 1) * _gradient(arena) * arena.plan.group_size / 200


def _gradient(arena: Arena) -> float:
    """Seconds of one for 200 samples; in the row space of a linear first layer it takes a fraction of them."""
    return arena.gradient * (0.25 if arena.plan.model == "elu" else 1.0)


def _times(arena: Arena, sweep: Sweep) -> float:
    """What an attack takes in units of as many gradients; on images through the AlexNet the gradients decide."""
    return SLOWER.get(sweep.attack, 1.0) if arena.plan.model == "elu" else 1.0


def _attacking(arena: Arena, sweeps: list[Sweep], defence: str, seed: int) -> Piece:
    times = [_times(arena, sweep) for sweep in sweeps]
    attacked = sum(time * len(sweep.strengths) for time, sweep in zip(times, sweeps, strict=True))
    chosen = SEARCHES * len(RULES) * arena.n_test * attacked
    tried = 0 if defence == "erm" else len(arena.grid) * arena.n_validation * sum(times)
    effort = (chosen + tried) / 200 * arena.steps * _gradient(arena)
    arguments = {"arena": arena, "sweeps": sweeps, "defence": defence, "seed": seed}
    return Piece(f"{arena.name}, {shown(defence)}, attacks, seed {seed}", defend, arguments, effort)


def fit(place: Place, arena: Arena, defence: str, rule: str, size: float, seed: int) -> pd.DataFrame:
    """Train one model; with the rule "matched" a baseline has the norm of GSAT, whatever size is given."""
    fight = _Fight(place, arena, defence, seed)
    size = fight.sizes(rule)[0] if rule == "matched" else size
    model = fight.model(size, rule)
    row = {
        "part": "training", "data": arena.data, "model": arena.plan.model, "defence": defence, "rule": rule,
        "seed": seed, "size": size, "lam": model.lam_ or np.nan, "mean_norm_used": _used(model),
    }  # fmt: skip
    return pd.DataFrame([row])


def _used(model: TorchClassifier) -> float | None:
    """The mean norm of the perturbations of training, as a fraction of E‖X‖."""
    used = model.history_.mean_norm
    return None if used is None else used / model.mean_norm_


def defend(place: Place, arena: Arena, sweeps: list[Sweep], defence: str, seed: int) -> pd.DataFrame:
    """Train one defence at every size, choose, attack: a row for each rule, attack and strength, and each choice."""
    fight = _Fight(place, arena, defence, seed)
    frames = []
    for rule in RULES:
        sizes = fight.sizes(rule)
        chosen: dict[float, list[Sweep]] = {}
        for sweep in sweeps:
            found = [fight.at_reference(sweep, size, rule) for size in sizes] if len(sizes) > 1 else [float("nan")]
            best = sizes[int(np.argmax(found))]
            chosen.setdefault(best, []).append(sweep)
            frames.append(_choice(sweep, rule, sizes, found, best))
        frames += [fight.judged(size, rule, which).assign(rule=rule) for size, which in chosen.items()]
    rows = pd.concat(frames, ignore_index=True)
    return rows.assign(data=arena.data, model=arena.plan.model, defence=defence, seed=seed)


def _choice(sweep: Sweep, rule: str, sizes: Sequence[float], found: list[float], best: float) -> pd.DataFrame:
    """What was seen on the validation rows, a row for each size."""
    rows = [{"size": size, "accuracy": seen, "taken": size == best} for size, seen in zip(sizes, found, strict=True)]
    eps = sweep.reference if sweep.eps is None else sweep.eps
    about = {"attack": sweep.name, "strength": sweep.reference, "eps": eps}
    return pd.DataFrame(rows).assign(part="validation", rule=rule, **about)


class _Fight:
    """One defence in one arena on one seed: its models and the samples on which they are attacked."""

    def __init__(self, place: Place, arena: Arena, defence: str, seed: int) -> None:
        self.place, self.arena, self.defence, self.seed = place, arena, defence, seed
        self.train, self.validation, self.test, self.blocks = arena.rows(place.data_dir, seed)

    def sizes(self, rule: str) -> tuple[float, ...]:
        """As fractions of E‖X‖."""
        if self.defence == "erm":
            return (0.0,)
        if rule == "tuned":
            return self.arena.grid
        return (self.arena.budget,) if is_gsat(self.defence) else (self._used(),)

    def _used(self) -> float:
        """The mean norm that GSAT used on this seed."""
        models = [self.model(self.arena.budget, "matched", structure) for structure in self.arena.structures]
        return statistics.fmean(_used(model) or 0.0 for model in models)

    def model(self, size: float, rule: str, defence: str | None = None) -> TorchClassifier:
        """The trained model of that size, from the folder where it was trained before."""
        plan = replace(self.arena.plan, defence=defence or self.defence, size=size, seed=self.seed)
        if rule == "tuned":
            plan = tuned(plan, taken(self.place, self.arena, plan.defence, self.seed))
        return trained(self.train, plan, self.place.work)

    def at_reference(self, sweep: Sweep, size: float, rule: str) -> float:
        """Accuracy on the validation rows."""
        found = self._evaluated(self.model(size, rule), self.validation, [(sweep, sweep.reference)], "fast")
        return float(found.loc[found["attack"] == sweep.name, "accuracy"].iloc[0])

    def judged(self, size: float, rule: str, sweeps: list[Sweep]) -> pd.DataFrame:
        """Accuracy on the test rows at every strength."""
        model = self.model(size, rule)
        cases = [(s, strength) for s in sweeps for strength in s.strengths]
        found = self._evaluated(model, self.test, cases, _defaults.STRENGTH)
        return found.assign(part="test", size=size, lam=model.lam_ or np.nan, mean_norm_used=_used(model))

    def _evaluated(
        self, model: TorchClassifier, rows: Table, cases: list[tuple[Sweep, float]], search: str
    ) -> pd.DataFrame:
        known = known_rows(rows, model)
        attacks = {
            f"{i}": sweep.at(strength, model.mean_norm_, self.arena.steps, self.blocks)
            for i, (sweep, strength) in enumerate(cases)
        }
        found = evaluate(
            model, samples(known), known.y, attacks, group_size=self.arena.plan.group_size, random_state=self.seed,
            out=self.place.work / "evaluations.jsonl", strength=search,
        )  # fmt: skip
        clean = float(found.loc[found["attack"] == "none", "accuracy"].iloc[0])
        return _curves(found, cases).assign(clean=clean)


def _curves(found: pd.DataFrame, cases: list[tuple[Sweep, float]]) -> pd.DataFrame:
    """The rows of evaluate() with attack, strength and eps as the figures show them, and strength 0 of each sweep."""
    clean = found[found["attack"] == "none"].iloc[0].to_dict()
    rows: list[dict[str, Any]] = []
    for _, row in found[found["attack"] != "none"].iterrows():
        number, _, whole = str(row["attack"]).partition("-")
        sweep, strength = cases[int(number)]
        about = {"attack": sweep.name + (f"-{whole}" if whole else ""), "eps": sweep.eps}
        eps = strength if sweep.eps is None else sweep.eps
        if strength == sweep.strengths[0]:
            rows.append({**clean, **about, "strength": 0.0, "eps": 0.0 if sweep.eps is None else eps})
        rows.append({**row.to_dict(), **about, "strength": float(strength), "eps": eps})
    return pd.DataFrame(rows)
