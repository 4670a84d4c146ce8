"""The recipe of a defence besides its size: as many are tried for each, on rows held out of the training rows.

The inner gradients set the length of a step of PGD too, 2·eps/gradients. A defence of one gradient, and ERM, have the
learning rate instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from gsat.estimators.from_table import Plan, known_rows, samples
from gsat.evaluation import evaluate
from gsat.experiments.judging import trained
from gsat.experiments.plan import Piece, Place
from gsat.experiments.setting import Arena, any_price
from gsat.experiments.strengths import by_name

ATTACKS = ("universal", "group-sparse:50", "low-rank:5")  # at the larger eps of the arena; their mean decides
STEPS: tuple[dict[str, Any], ...] = ({"n_inner": 5}, {"n_inner": 10}, {"n_inner": 40})
RATES: tuple[dict[str, Any], ...] = ({"rate": 0.5}, {"rate": 2.0}, {"rate": 4.0})
OTHERS: dict[str, tuple[dict[str, Any], ...]] = {  # than the usual one, as many for each defence
    "erm": RATES,
    "fgm": RATES,
    "fgsm": RATES,
    "pgd": STEPS,
    "unstructured": STEPS,
    "universal": STEPS,
    "universal-one": STEPS,
    "group-sparse": ({"alpha": 0.5}, {"alpha": 0.05}, {"n_inner": 5}),
    "low-rank": ({"alpha": 0.5}, {"alpha": 0.1}, {"n_inner": 5}),
}


def recipes(arena: Arena, defence: str) -> list[dict[str, Any]]:
    """What is changed in the plan in each of the trials of an arena, the first of which changes nothing."""
    return [{}, *OTHERS[defence]][: arena.trials]


def tuned(plan: Plan, recipe: dict[str, Any]) -> Plan:
    """The plan with that recipe; λ follows the size, since the paper's λ has none."""
    changes = {name: value for name, value in recipe.items() if name != "rate"}
    eta0 = plan.eta0 * recipe.get("rate", 1.0)
    return replace(plan, lam="auto", solver=any_price(plan.solver), eta0=eta0, **changes)


def choosing(arena: Arena, defence: str, seed: int, effort: float) -> Piece:
    """The trials of one defence; for all seeds on the first where the data set has test rows of its own."""
    own = seed if arena.test_share is not None else 0
    name = f"{arena.name}, {defence}, recipes, seed {own}"
    return Piece(name, tried, {"arena": arena, "defence": defence, "seed": own}, effort * arena.trials)


def tried(place: Place, arena: Arena, defence: str, seed: int) -> pd.DataFrame:
    """A row for each recipe, trained at the middle size of the grid, with its accuracy on the validation rows."""
    train, validation, _, _ = arena.rows(place.data_dir, seed)
    size = arena.grid[len(arena.grid) // 2]
    rows = []
    for recipe in recipes(arena, defence):
        plan = tuned(replace(arena.plan, defence=defence, size=size, seed=seed), recipe)
        model = trained(train, plan, place.work)
        known = known_rows(validation, model)
        attacks = {name: by_name(name, arena.counts[-1], model.mean_norm_, arena.steps) for name in ATTACKS}
        found = evaluate(
            model, samples(known), known.y, attacks, group_size=arena.plan.group_size, random_state=seed,
            out=place.work / "evaluations.jsonl",
        ).set_index("attack")["accuracy"]  # fmt: skip
        words = ", ".join(f"{name} {value:g}" for name, value in recipe.items()) or "usual"
        rows.append({"recipe": words, "clean": found["none"], "accuracy": found[list(ATTACKS)].mean()})
    table = pd.DataFrame(rows)
    about = {"part": "recipe", "data": arena.data, "model": arena.plan.model, "defence": defence, "seed": seed}
    return table.assign(taken=table.index == table["accuracy"].idxmax(), size=size, **about)


def taken(place: Place, arena: Arena, defence: str, seed: int) -> dict[str, Any]:
    """The recipe that was best on the validation rows, the first of equal ones; nothing is run where one is tried."""
    among = recipes(arena, defence)
    if len(among) == 1:
        return among[0]
    return among[int(choosing(arena, defence, seed, 0.0).run(place)["accuracy"].idxmax())]
