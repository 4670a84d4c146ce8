"""`gsat train --choose`: what `GSATClassifierCV` chooses, as changes of a plan, and the models of several plans."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import pandas as pd

from gsat import _defaults
from gsat.data import Table
from gsat.estimators.average import AverageClassifier, combined
from gsat.estimators.candidates import LDA, LINEAR, chosen, needs_batch
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.cv import GSATClassifierCV
from gsat.estimators.from_table import Plan, classifier_for, samples, train
from gsat.estimators.gsat import GSATClassifier
from gsat.estimators.kept import Kept
from gsat.estimators.lda import LDAClassifier
from gsat.estimators.linear import LinearClassifier


@dataclass(frozen=True)
class Choice:
    """What `GSATClassifierCV` chose for a plan.

    Parameters
    ----------
    members
        The fields of the plan that were chosen, for each model that predicts, the best first; one for combine="best".
    single
        Those of the models that predict single samples, where one of the members needs whole batches and there are
        such ones.
    tried
        How every candidate did, the best first.
    """

    members: list[dict[str, Any]]
    single: list[dict[str, Any]] | None
    tried: pd.DataFrame


def choose(
    table: Table,
    plan: Plan,
    *,
    prepare: str = "choose",
    combine: str = _defaults.COMBINE,
    jobs: int = 1,
    kept: Path | None = None,
    progress: bool = False,
) -> Choice:
    """What `GSATClassifierCV` chooses for a plan on the batches of a table.

    Parameters
    ----------
    table
        Training samples, their labels, batches and groups.
    plan
        Everything that is not chosen.
    prepare
        "choose", or the preparation of all candidates.
    combine
        "average" or "best".
    jobs
        Models trained at a time.
    kept
        A file of scores of an earlier call for the same table, which are not found again; new ones are added.
    progress
        Whether to show a bar.

    Returns
    -------
    Choice
        What to change in the plan, and how every candidate did.
    """
    template = classifier_for(replace(plan, defence=_defaults.STRUCTURE, model=None), table)
    search = GSATClassifierCV(template, prepare=prepare, n_jobs=jobs, random_state=plan.seed)
    candidates, scores, _ = search.search(
        samples(table), table.y, table.batch, table.group, kept=Kept(kept), progress=progress
    )
    places, alone = scores.leading(combine), [i for i, one in enumerate(candidates) if not needs_batch(one)]
    single = scores.leading(combine, alone) if alone and any(needs_batch(candidates[i]) for i in places) else None
    results = scores.table([chosen(one) for one in candidates])
    frame = pd.DataFrame({name: values for name, values in results.items() if name != "params"})
    frame.columns = frame.columns.str.removeprefix("param_")
    return Choice(
        [_changes(candidates[i], plan) for i in places],
        None if single is None else [_changes(candidates[i], plan) for i in single],
        frame.sort_values(["mean_test_score", "mean_test_loss"], ascending=[False, True]),
    )


def _changes(best: TorchClassifier, plan: Plan) -> dict[str, Any]:
    """The fields of a plan that make it the plan of a candidate."""
    shared = {"prepare": best.prepare, "options": {**plan.options, "hidden": best.hidden}}
    if isinstance(best, LinearClassifier):
        return {**shared, "defence": LINEAR, "size": best.C, "gamma": best.gamma}
    if isinstance(best, LDAClassifier):
        return {**shared, "defence": LDA, "size": best.shrinkage, "gamma": plan.gamma}
    if isinstance(best, GSATClassifier):
        return {**shared, "defence": best.structure, "size": best.budget, "gamma": best.gamma}
    return {**shared, "defence": "erm", "size": plan.size, "gamma": plan.gamma}


def train_together(
    table: Table, plans: Sequence[Plan], trained: dict[str, TorchClassifier], *, jobs: int = 1
) -> TorchClassifier | AverageClassifier:
    """What predicts by several plans: the average of their models, or the only one.

    Parameters
    ----------
    table
        As in `train`.
    plans
        What is trained, the best first.
    trained
        The models that are there already, by repr(plan); the others are added. What there is to say of their trainings
        is not said.
    jobs
        Models trained at a time.

    Returns
    -------
    TorchClassifier or AverageClassifier
        The fitted classifier.
    """
    missing = [plan for plan in plans if repr(plan) not in trained]
    calls = (joblib.delayed(_quietly_trained)(table, plan) for plan in missing)
    trained.update(zip(map(repr, missing), joblib.Parallel(n_jobs=jobs)(calls), strict=True))
    return combined([trained[repr(plan)] for plan in plans])


def _quietly_trained(table: Table, plan: Plan) -> TorchClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(table, plan).classifier
