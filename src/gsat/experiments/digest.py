"""Results of all experiments in a few tables in Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from gsat.experiments.paper import EXPERIMENTS
from gsat.experiments.pictures import at_strength, over_eps, where
from gsat.experiments.plan import read_config
from gsat.experiments.shift_choice import GSAT_ALL, PREPARED
from gsat.experiments.shift_tables import by_set, over_sets
from gsat.experiments.shift_tasks import TASKS

RESPLITS = [task.name for task in TASKS.values() if task.same_as]  # in no mean over sets
FIGURES = ("universal", "group-sparse", "low-rank", "pgd", "biology")


def paper_table(out: Path) -> str:
    """What the paper reports, the command, and what was found; a row for each experiment that is there."""
    configs = [config for name in EXPERIMENTS if "identity" in (config := read_config(out / name))]
    return markdown(
        ("the paper", "command", "here"),
        ([config["paper"], f"`{config['command']}`", config["headline"]] for config in configs),
    )


def differences_table(out: Path) -> str:
    """GSAT less PGD and less ERM under the attacks of the figures, by both rules: points ± standard error.

    Of an attack over eps the reference strength and the largest are shown, of one over counts the reference at each
    eps; one shift for all test samples is left out beside one for each group.
    """
    rows = []
    for name in FIGURES:
        found = pd.read_csv(out / name / "differences.csv")
        found = found[found["attack"] != "universal-all"]
        for (data, model, attack), part in found.groupby(["data", "model", "attack"], sort=False):
            for ours in _own(str(attack), part):
                for (eps, strength), at in _shown(str(attack), part[part["ours"] == ours]):
                    gaps = [_gap(at, "pgd", "matched"), _gap(at, "pgd", "tuned"), _gap(at, "erm", "tuned")]
                    rows.append([where(str(data), str(model)), at_strength(str(attack), eps, strength), ours, *gaps])
    head = ("data, network", "attack", "GSAT", "− PGD, matched", "− PGD, tuned", "− ERM, tuned")
    return markdown(head, rows)


def shifts_table(out: Path) -> str:
    """Balanced accuracy of the methods of the real shifts, in percent, means over the sets.

    Three columns: one candidate without a preparation, one with the preparation that was chosen, and the average of the
    best quarter with it.
    """
    taken, means = (pd.read_csv(out / "shifts" / f"{name}.csv") for name in ("taken", "averages"))
    one, several = over_sets(taken, RESPLITS), over_sets(means, RESPLITS)
    names = [name for name in one.index if not name.endswith(PREPARED)]
    rows = [
        [name, *(_percent(value) for value in (one[name], one.get(name + PREPARED), several.get(name + PREPARED)))]
        for name in names
    ]
    return markdown(("method", "as it is", "preparation chosen", "best quarter averaged"), rows)


def sets_table(out: Path) -> str:
    """The same for some methods with the preparation chosen, a row for each set; the last two are averages."""
    taken, means = (pd.read_csv(out / "shifts" / f"{name}.csv") for name in ("taken", "averages"))
    one, several = by_set(taken), by_set(means)
    some, both = ("logistic", "lda", "erm", "low-rank", "low-rank, metric"), ("logistic", GSAT_ALL)
    names = {name.lower(): name for name in one.columns}
    columns = [one[names[name + PREPARED]] for name in some] + [several[name + PREPARED] for name in both]
    rows = [[str(name), *(f"{column[name]:.1f}" for column in columns)] for name in one.index]
    head = [names[name] for name in some] + [f"{name}, averaged" for name in both]
    return markdown(("set", *head), rows)


def _percent(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.1f}"


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table."""
    head = list(head)
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines])


def _own(attack: str, part: pd.DataFrame) -> list[str]:
    """The structure that the attack has, or all of ours where it has none."""
    names = list(dict.fromkeys(part["ours"]))
    return [name for name in names if attack.startswith(name)] or names


def _shown(attack: str, part: pd.DataFrame) -> Iterator[tuple[tuple[float, float], pd.DataFrame]]:
    strengths = sorted(part["strength"].unique())
    middle = strengths[(len(strengths) - 1) // 2]
    wanted = {middle, strengths[-1]} if over_eps(attack) else {middle}
    yield from part[part["strength"].isin(wanted)].groupby(["eps", "strength"])


def _gap(at: pd.DataFrame, baseline: str, rule: str) -> str:
    """The difference, and in parentheses that of the clean accuracy of the same models."""
    row = at[(at["baseline"] == baseline) & (at["rule"] == rule)].iloc[0]
    error = "" if row["standard_error"] != row["standard_error"] else f" ± {row['standard_error']:.1f}"
    return f"{row['difference']:+.1f}{error} ({row['clean']:+.1f})"
