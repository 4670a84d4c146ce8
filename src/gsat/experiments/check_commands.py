"""How the method that `check` advises is trained on all samples: options of `gsat train`, or a line of Python."""

from __future__ import annotations

from typing import Any

import pandas as pd

from gsat import _defaults
from gsat.experiments.check_methods import REFERENCE
from gsat.experiments.shift_candidates import NONE, Candidate, Setting
from gsat.experiments.shift_choice import CANDIDATE, GSAT_ALL, PREPARED

LDA = _defaults.LDA
WITHIN, BATCHES = "within", "batches"


def usual_choice(choice: pd.DataFrame, method: str) -> Candidate:
    """What the method took most often over the tested units, of equals that with the best inner score."""
    rows = choice[choice["method"] == method]
    votes = rows.groupby(CANDIDATE, sort=False)["inner"].agg(["size", "mean"]).reset_index()
    row = votes.sort_values(["size", "mean"], ascending=False, kind="stable").iloc[0]
    return Candidate(**row[CANDIDATE].to_dict())


def advised(choice: pd.DataFrame, method: str) -> Candidate | None:
    """What is trained: the usual choice of the method; None where everything is chosen anew, by `--choose`."""
    if method.removesuffix(PREPARED) == GSAT_ALL:
        return None
    return usual_choice(choice, method)


def options(one: Candidate | None, setting: Setting, *, learnt: str) -> list[str]:
    """The options of `gsat train` for a candidate.

    learnt: from what a metric was learnt, "batches" or "within"
    """
    if one is None:
        return ["--choose", "--combine", "best", *_training(setting, inner=True)]
    shared = ["--class-weight", "balanced", *([] if one.prepare == NONE else ["--prepare", one.prepare])]
    if one.family == REFERENCE:
        return ["--defence", "linear", "--c", f"{one.strength:g}", "--metric", "none", *shared]
    if one.family == LDA:
        return ["--defence", LDA, "--shrinkage", f"{one.strength:g}", *shared]
    if one.family == "erm":
        return ["--defence", "erm", *shared, *_training(setting, length=one.strength)]
    if one.family == "pgd":
        return ["--defence", "pgd", "--eps", f"{one.strength:g}", *shared, *_training(setting, inner=True)]
    isotropic = one.metric == NONE  # with gamma 0; batches it is, so that the adversary is told of them
    metric = [learnt, "--gamma", f"{0 if isotropic else one.gamma:g}"]
    adversary = ["--defence", one.family, "--budget", f"{one.strength:g}", "--metric", *metric]
    return [*adversary, *shared, *_training(setting, inner=True)]


def in_python(one: Candidate | None, setting: Setting, *, by_batch: bool, learnt: str) -> str:
    """The line of Python that trains a candidate on arrays X, y and batch."""
    fit = ".fit(X, y, batch=batch)" if by_batch else ".fit(X, y)"
    training = {
        "n_outer": setting.n_outer, "n_inner": setting.n_inner, "group_size": setting.group_size,
        "eta0": setting.eta0, "schedule": setting.schedule,
    }  # fmt: skip
    if one is None:
        template = _call("gsat.GSATClassifier", **training)
        return f"gsat.GSATClassifierCV({template}, combine='best'){fit}"
    shared: dict[str, Any] = {"class_weight": "balanced", "prepare": one.prepare}
    if one.family == REFERENCE:
        return _call("gsat.LinearClassifier", one.strength, metric=None, **shared) + fit
    if one.family == LDA:
        return _call("gsat.LDAClassifier", one.strength, **shared) + fit
    if one.family == "erm":
        training = {name: value for name, value in training.items() if name != "n_inner"}
        training["n_outer"] = max(1, round(one.strength * setting.n_outer))
        return _call("gsat.ERMClassifier", **shared, **training) + fit
    if one.family == "pgd":
        return _call("gsat.PGDClassifier", one.strength, **shared, **training) + fit
    metric = {"metric": None} if one.metric == NONE else {"metric": learnt, "gamma": one.gamma}
    return _call("gsat.GSATClassifier", one.family, budget=one.strength, **metric, **shared, **training) + fit


def _call(name: str, *values: Any, **named: Any) -> str:
    return f"{name}({', '.join([*map(repr, values), *(f'{key}={value!r}' for key, value in named.items())])})"


def _training(setting: Setting, *, length: float = 1.0, inner: bool = False) -> list[str]:
    steps = max(1, round(length * setting.n_outer))
    return [
        "--n-outer", str(steps), *(["--n-inner", str(setting.n_inner)] if inner else []),
        "--group-size", str(setting.group_size), "--eta0", f"{setting.eta0:g}", "--schedule", setting.schedule,
    ]  # fmt: skip
