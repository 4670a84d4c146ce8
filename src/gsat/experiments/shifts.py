"""Beyond the paper: train on some batches and test on one that was never seen, for real shifts between batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from gsat.experiments.paired import EQUAL, in_words, summed_up, with_wins
from gsat.experiments.pictures import Panel, curves, lines
from gsat.experiments.plan import Experiment, Outcome, Piece
from gsat.experiments.setting import Scale
from gsat.experiments.shift_folds import METHODS, Method, Setting, one_fold
from gsat.experiments.shift_tasks import TASKS, Task

OURS = ("universal", "universal, per batch", "group-sparse", "low-rank")
BASELINES = ("erm", "pgd", "logistic")
LONG = Setting(
    sizes=(0.2, 0.1, 0.05, 0.02), cs=(1e-3, 1e-2, 1e-1, 1.0), n_outer=200, validation_batches=3, test_all=True
)
SETTINGS = {
    "quick": Setting(sizes=(0.2, 0.02), cs=(1e-3, 1e-1), n_outer=10, validation_batches=1),
    "cpu": Setting(),
    "overnight": LONG,
    "paper": LONG,
}
SEEDS = {"quick": 1}  # 5 elsewhere
SECONDS = {"erm": 0.003, "pgd": 0.006, "universal": 0.01, "group-sparse": 0.008, "low-rank": 0.01}  # of a step


def pieces(scale: Scale, seeds: int | None) -> list[Piece]:
    """One for each task, held-out batch, method and seed.

    Logistic regression has no seed but that of a random validation split: it runs once where batches validate. A
    defence that is told the batches has nothing to learn from one batch, and is left out there.
    """
    setting = SETTINGS[scale.name]
    n_seeds = SEEDS.get(scale.name, 5) if seeds is None else seeds
    found = []
    for task in _tasks(scale):
        for held_out in task.held_out:
            for method, how in METHODS.items():
                if how.per_batch and task.one_batch:
                    continue
                for seed in range(1 if how.defence is None and not task.one_batch else n_seeds):
                    found.append(
                        Piece(
                            f"{task.name} without {held_out}, {method}, seed {seed}",
                            one_fold,
                            {"task": task, "held_out": held_out, "seed": seed, "method": method, "setting": setting},
                            effort=_effort(how, setting),
                        )
                    )
    return found


def by_fold(results: pd.DataFrame, value: str = "balanced_accuracy") -> pd.DataFrame:
    """The mean over the seeds in percent, a row per task and held-out batch, a column per method."""
    means = results[results["chosen"]].groupby(["data", "held_out", "defence"], sort=False)[value].mean()
    return 100 * means.unstack("defence")[list(dict.fromkeys(results["defence"]))]


def summary(results: pd.DataFrame, value: str = "balanced_accuracy") -> pd.DataFrame:
    """Percent, mean ± standard deviation over the folds; a row per method, a column per task.

    The last column is the mean over the tasks, of the methods that were tried on all of them.
    """
    grouped = by_fold(results, value).groupby("data", sort=False)
    mean, spread = grouped.mean().T, grouped.std(ddof=1).T
    cells = mean.round(1).astype(str) + " ± " + spread.round(1).astype(str)
    cells = cells.where(spread.notna(), mean.round(1).astype(str)).where(mean.notna(), "")
    overall = mean.mean(axis=1, skipna=False)
    return cells.assign(mean=overall.round(1).astype(str).where(overall.notna(), ""))


def differences(
    results: pd.DataFrame,
    ours: Iterable[str] = OURS,
    baselines: Iterable[str] = BASELINES,
    value: str = "balanced_accuracy",
) -> pd.DataFrame:
    """Paired differences in points of percent, ours less the baseline; the folds are the units, not the seeds.

    A fold's difference is that of the means over its seeds. Standard error, interval and p (`summed_up`) are those of
    the mean over the folds of a task; better and worse count the folds. In the rows "all tasks" the units are the
    tasks, each with its mean over folds. Folds share training rows, so that errors are rather too small.
    """
    folds = by_fold(results, value)
    rows = []
    for our in (name for name in ours if name in folds):
        for baseline in (name for name in baselines if name in folds):
            gap = (folds[our] - folds[baseline]).dropna()
            for task, part in gap.groupby("data", sort=False):
                rows.append({"case": task, "ours": our, "baseline": baseline, **_of_units(part)})
            of_tasks = gap.groupby("data", sort=False).mean()
            rows.append({"case": "all tasks", "ours": our, "baseline": baseline, **_of_units(of_tasks)})
    return with_wins(rows)


def finish(found: pd.DataFrame, scale: Scale) -> Outcome:
    """All rows, the table of methods and tasks, each fold, and the paired differences."""
    found = found.assign(held_out=found["held_out"].astype(str))  # a file of studies 1 to 4 reads as numbers
    tasks = _tasks(scale)
    place = {(task.name, name): i + 1 for task in tasks for i, name in enumerate(task.held_out)}
    found = found.assign(fold=[place[pair] for pair in zip(found["data"], found["held_out"], strict=True)])
    tested = found[found["chosen"]]
    gaps = differences(found)
    notes = [f"{t.name}: {t.note}. Folds {', '.join(f'{place[t.name, h]} = {h}' for h in t.held_out)}." for t in tasks]
    return Outcome(
        tables={
            "results": found,
            "summary": summary(found).rename_axis("defence").reset_index(),
            "summary_accuracy": summary(found, "accuracy").rename_axis("defence").reset_index(),
            "folds": by_fold(found).round(2).reset_index(),
            "differences": gaps.round(3),
        },
        headline=_headline(found, gaps),
        config={
            "protocol": _protocol(SETTINGS[scale.name], int(found["seed"].nunique())),
            "notes": [*notes, "Logistic regression, centred, uses unlabelled samples of the test batch."],
            "report": {
                "table": "results", "x": "fold", "y": "balanced_accuracy", "series": "defence", "facets": ["data"],
                "x_label": "batch held out", "y_label": "balanced accuracy",
            },
        },
        pictures={"shifts.png": curves(_panels(tested), y_label="balanced accuracy, %")},
    )  # fmt: skip


def _tasks(scale: Scale) -> list[Task]:
    return [TASKS["stemcells"]] if scale.name == "quick" else list(TASKS.values())


def _panels(tested: pd.DataFrame) -> list[Panel]:
    return [
        Panel(str(name), "batch held out", lines(rows, "fold", y="balanced_accuracy"))
        for name, rows in tested.groupby("data", sort=False)
    ]


def _headline(found: pd.DataFrame, gaps: pd.DataFrame) -> str:
    """The mean over the tasks of each method, and ours against the baselines."""
    means = by_fold(found).groupby("data").mean()
    cells = ", ".join(f"{name} {mean:.1f}" for name, mean in means.mean(skipna=False).dropna().items())
    rows = gaps[(gaps["case"] == "all tasks") & (gaps["ours"] == "low-rank")]
    versus = ", ".join(f"{row.baseline} {in_words(row)}" for row in rows.itertuples())
    return f"balanced accuracy, mean of {len(means)} tasks: {cells}; low-rank less the baselines: {versus}"


def _protocol(setting: Setting, seeds: int) -> str:
    return (
        f"ELU net with 100 units on standardised columns, {setting.n_outer} groups of {setting.group_size}, at most "
        f"{setting.n_inner} inner gradients, Adam {setting.eta0:g} ({setting.schedule}), classes weighted to be equal, "
        f"{seeds} seed{'s' if seeds != 1 else ''}. Sizes {setting.sizes}, C of logistic regression {setting.cs}: the "
        "one with the best mean balanced accuracy on training batches left out in turn "
        f"(the {setting.validation_batches} largest that hold two classes), or on as many random quarters where all "
        "training rows are of one batch; of equals that with the least cross-entropy there. Columns are chosen and "
        "standardised on training rows. The range of the sizes, the length of training, the rule for equals and the "
        "number of random quarters were set, and two tasks added, while looking at test batches, with other seeds."
    )


def _of_units(gap: pd.Series) -> dict[str, Any]:
    counts = {"units": len(gap), "better": int((gap > EQUAL).sum()), "worse": int((gap < -EQUAL).sum())}
    return {**summed_up(gap), **counts}


def _effort(how: Method, setting: Setting) -> float:
    grid = len(setting.strengths(how))
    validations = 0 if grid == 1 else grid * setting.validation_batches
    fit = 0.1 if how.defence is None else setting.n_outer * (0.3 + 0.14 * setting.n_inner) * SECONDS[how.defence]
    return fit * (validations + (grid if setting.test_all else 1))


EXPERIMENT = Experiment(
    "shifts",
    "Train on some batches, test on one that was never seen",
    "not tried: the paper attacks, it does not test on real shifts between batches",
    pieces,
    finish,
)
