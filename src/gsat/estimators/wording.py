"""What `gsat train` prints: the numbers of metrics.json, the metric and the plan in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gsat import _defaults
from gsat.data import Table
from gsat.estimators.candidates import LDA, LINEAR
from gsat.estimators.from_table import Plan, Trained

SHOWN = 12  # classes, batches and mistakes that are printed


def in_words(metrics: dict[str, Any]) -> dict[str, str]:
    """The lines that `gsat train` prints of metrics.json.

    Parameters
    ----------
    metrics
        Its content.

    Returns
    -------
    dict
        By name, in order.
    """
    found = {"held out": metrics["held_out"]["why"]}
    for name, key in (("training", "training"), ("test", "test"), ("logistic", "logistic")):
        if metrics[key] is not None:
            found[name] = _shares(metrics[key])
    if "logistic" in found and "prepare" in metrics["model"]:
        found["logistic"] += f", prepared alike ({metrics['model']['prepare']})"
    if metrics["test"] is None:
        return found
    found["majority"] = (
        f"the largest training class alone would be right on {metrics['majority']:.1%} of the test samples"
    )
    if len(metrics["test"]["per_batch"]) > 1:
        found["by batch"] = "; ".join(_batch(each) for each in metrics["test"]["per_batch"][:SHOWN])
    recalls = [each for each in metrics["test"]["per_class"] if each["recall"] is not None]
    found["by class"] = "; ".join(f"{each['class']} {_interval(each['recall'])}" for each in recalls[:SHOWN])
    wrong = _mistaken(metrics["test"])
    found["mistaken"] = "; ".join(wrong[:SHOWN]) if wrong else "none"
    found["intervals"] = "95 %, for more samples of the same batches"
    return found


def numbers(metrics: dict[str, Any]) -> dict[str, Any]:
    """What --json prints of metrics.json, which has the rest.

    Parameters
    ----------
    metrics
        Its content.

    Returns
    -------
    dict
        Accuracies, what was held out, and warnings.
    """
    found: dict[str, Any] = {}
    for side in ("training", "test", "logistic"):
        for name in ("accuracy", "balanced_accuracy"):
            share = None if metrics[side] is None else metrics[side][name]
            found[f"{side}_{name}"] = None if share is None else share["value"]
    return {**found, "held_out": metrics["held_out"], "warnings": metrics["warnings"]}


def metric_in_words(trained: Trained, rows: Table) -> dict[str, str]:
    """In which metric the adversary of GSAT moved the samples; nothing for other defences.

    Parameters
    ----------
    trained, rows
        The model, and what it was trained on.

    Returns
    -------
    dict
        A line by its name, or none.
    """
    plan, metric = trained.plan, trained.classifier.metric_
    if plan.defence not in _defaults.STRUCTURES:
        return {}
    if metric is None:
        return {"metric": "isotropic"}
    batches = len(np.unique(np.asarray(rows.batch))) if plan.per_batch else 1
    learnt = f"from {batches} batches" if batches > 1 else "inside the classes"
    return {"metric": f"{len(metric.stretch)} directions, learnt {learnt}, gamma {plan.gamma:g}"}


def plans_in_words(plans: Sequence[Plan]) -> str:
    """What --choose chose: the best, and how many of each kind are averaged.

    Parameters
    ----------
    plans
        With what was chosen in them, the best first.

    Returns
    -------
    str
        Defence, preparation, units and size of the best.
    """
    plan = plans[0]
    sizes = {"erm": "", LDA: f", shrinkage {plan.size:g}", LINEAR: f", C {plan.size:g}, gamma {plan.gamma:g}"}
    adversary = sizes.get(plan.defence, f", budget {plan.size:g}, gamma {plan.gamma:g}")
    units = "" if plan.defence in (LINEAR, LDA) else f", {plan.options['hidden']} hidden units"
    best = f"{plan.defence}, prepare {plan.prepare}{units}{adversary}"
    if len(plans) == 1:
        return best
    counts = ", ".join(f"{count} {name}" for name, count in Counter(one.defence for one in plans).most_common())
    return f"the average of {len(plans)} ({counts}), the best of them {best}"


def _shares(one: dict[str, Any]) -> str:
    accuracy, balanced = _interval(one["accuracy"]), one["balanced_accuracy"]
    if balanced is None:
        return f"accuracy {accuracy}, {one['n']} samples of one class"
    return f"accuracy {accuracy}, balanced {_interval(balanced)}, {one['n']} samples"


def _interval(one: dict[str, float]) -> str:
    return f"{one['value']:.1%} ({100 * one['low']:.1f} to {100 * one['high']:.1f})"


def _batch(one: dict[str, Any]) -> str:
    return f"{one['batch']} {_interval(one['accuracy'])}"


def _mistaken(one: dict[str, Any]) -> list[str]:
    """The pairs of classes that are taken for each other, the most frequent first."""
    names = [each["class"] for each in one["per_class"]]
    table = np.array(one["confusion"])
    np.fill_diagonal(table, 0)
    pairs = sorted(zip(*np.nonzero(table), strict=True), key=lambda pair: -table[pair])
    return [f"{names[i]} as {names[j]} {table[i, j]} time{'s' if table[i, j] > 1 else ''}" for i, j in pairs]
