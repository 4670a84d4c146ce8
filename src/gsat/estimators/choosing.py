"""`gsat train --choose`: what `GSATClassifierCV` chooses, as changes of a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from gsat import _defaults
from gsat.data import Table
from gsat.estimators.candidates import LINEAR, NEEDS_BATCH, chosen
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.cv import GSATClassifierCV
from gsat.estimators.from_table import Plan, classifier_for, samples
from gsat.estimators.gsat import GSATClassifier
from gsat.estimators.linear import LinearClassifier


@dataclass(frozen=True)
class Choice:
    """What `GSATClassifierCV` chose for a plan.

    Parameters
    ----------
    changes
        The fields of the plan that were chosen.
    single
        Those of the best that predicts single samples, where the winner needs whole batches and there is such a one.
    tried
        How every candidate did, the best first.
    """

    changes: dict[str, Any]
    single: dict[str, Any] | None
    tried: pd.DataFrame


def choose(table: Table, plan: Plan, *, prepare: str = "choose", jobs: int = 1) -> Choice:
    """What `GSATClassifierCV` chooses for a plan on the batches of a table.

    Parameters
    ----------
    table
        Training samples, their labels and batches.
    plan
        Everything that is not chosen.
    prepare
        "choose", or the preparation of all candidates.
    jobs
        Models trained at a time.

    Returns
    -------
    Choice
        What to change in the plan, and how every candidate did.
    """
    template = classifier_for(replace(plan, defence=_defaults.STRUCTURE, model=None), table)
    search = GSATClassifierCV(template, prepare=prepare, n_jobs=jobs, random_state=plan.seed)
    candidates, scores, _ = search.search(samples(table), table.y, table.batch)
    best = scores.best()
    alone = [i for i, one in enumerate(candidates) if one.prepare != NEEDS_BATCH]
    single = scores.best(alone) if alone and best not in alone else None
    results = scores.table([chosen(one) for one in candidates])
    frame = pd.DataFrame({name: values for name, values in results.items() if name != "params"})
    frame.columns = frame.columns.str.removeprefix("param_")
    return Choice(
        _changes(candidates[best], plan),
        None if single is None else _changes(candidates[single], plan),
        frame.sort_values(["mean_test_score", "mean_test_loss"], ascending=[False, True]),
    )


def _changes(best: TorchClassifier, plan: Plan) -> dict[str, Any]:
    """The fields of a plan that make it the plan of a candidate."""
    shared = {"prepare": best.prepare, "options": {**plan.options, "hidden": best.hidden}}
    if isinstance(best, LinearClassifier):
        return {**shared, "defence": LINEAR, "size": best.C, "gamma": best.gamma}
    if isinstance(best, GSATClassifier):
        return {**shared, "defence": best.structure, "size": best.budget, "gamma": best.gamma}
    return {**shared, "defence": "erm", "size": plan.size, "gamma": plan.gamma}
