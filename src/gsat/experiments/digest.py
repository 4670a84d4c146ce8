"""Results of all experiments in a few tables in Markdown, for the documentation."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from gsat.experiments.digest_tables import TABLES, markdown
from gsat.experiments.paper import EXPERIMENTS
from gsat.experiments.pictures import NETWORKS, SETS, at_strength, over_eps
from gsat.experiments.pictures import shown as _shown_name
from gsat.experiments.plan import read_config
from gsat.experiments.shift_choice import GSAT_ALL, PREPARED
from gsat.experiments.shift_tables import by_set, over_sets
from gsat.experiments.shift_tasks import TASKS

RESPLITS = [task.name for task in TASKS.values() if task.same_as]  # in no mean over sets
ATTACKS = {
    "universal": ["universal-all"],
    "group-sparse": ["group-sparse"],
    "low-rank": ["low-rank"],
    "pgd": ["pgd"],
    "biology": ["group-sparse, SNPs", "low-rank"],
}  # that the tables of the figures show
SAID = {"universal-all": "one shift for all samples", "pgd": "PGD"}  # of an attack, in the head of a table
FIGURES = ("universal", "group-sparse", "low-rank", "pgd", "biology")
WIDTH = 110  # of a line of the documentation


def paper_sections(out: Path) -> str:
    """A section for each experiment that is there: what the paper reports, the command, what was found, the picture."""
    sections = []
    for name in EXPERIMENTS:
        config = read_config(out / name)
        if "identity" not in config:
            continue
        if name in FIGURES:
            found = _figure_tables(out, name)
        elif name in TABLES:
            found = "\n\n".join(text if text.startswith("|") else _lines(text) for text in TABLES[name](out / name))
        else:
            found = _bullets(config["headline"])
        pictures = [path.name for path in sorted((out / name).glob("*.png")) if path.name != "figure-tuned.png"]
        shown = [f"![{config['title']}](../../results/{name}/{picture})" for picture in pictures]
        said = _lines(f"The paper: {config['paper']}.")
        command = _continued(config["command"])
        sections.append("\n\n".join([f"### {config['title']}", said, f"```sh\n{command}\n```", found, *shown]))
    return "\n\n".join(sections)


def _bullets(headline: str) -> str:
    """The figures of a headline, one line each."""
    return "\n".join(_lines(f"- {part}", "  ") for part in headline.split("; "))


def _lines(text: str, indent: str = "") -> str:
    """The text in lines of at most `WIDTH` characters, all but the first indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _continued(command: str) -> str:
    """The command in lines of at most `WIDTH` characters, which a shell joins; broken at blanks and after commas."""
    lines = [""]
    for piece in re.findall(r"[^ ,]*[ ,]?", command):
        if len(lines[-1] + piece) >= WIDTH:
            lines.append("")
        lines[-1] += piece
    return "\\\n".join(lines)


def _figure_tables(out: Path, name: str) -> str:
    """Accuracy in percent under the attack of a figure, a table for each network, a row for each defence.

    First by the matched rule, in parentheses tuned. Attacks over eps are shown at their reference strength, those over
    counts at the reference count for each eps.
    """
    found = pd.read_csv(out / name / "results.csv")
    found = found[found["attack"].isin(ATTACKS[name]) & (found["strength"] > 0)]
    tables = []
    for model, rows in found.groupby("model", sort=False):
        columns: dict[tuple[str, str, str], pd.DataFrame] = {}
        for (data, attack), part in rows.groupby(["data", "attack"], sort=False):
            shown = list(_shown(str(attack), part))
            for (eps, strength), at in shown[:1] if over_eps(str(attack)) else shown:
                what, size = at_strength(str(attack), eps, strength).split(", ")
                what = SAID.get(what, what)
                columns[SETS[str(data)], what, size] = at
        if len({what for _, what, _ in columns}) == 1:  # said once
            attacked = next(iter(columns))[1]
            head = [f"{NETWORKS[str(model)]}, {attacked}", *(f"{data}, {eps}" for data, _, eps in columns)]
        else:
            head = [NETWORKS[str(model)], *(f"{data}, {what} at {eps.split()[1]}" for data, what, eps in columns)]
        names = dict.fromkeys(rows["defence"])
        tables.append(
            markdown(head, ([_shown_name(one), *(_both(at, one) for at in columns.values())] for one in names))
        )
    return "\n\n".join(tables)


def _both(at: pd.DataFrame, defence: str) -> str:
    """The mean accuracy by both rules, for ERM the one that it has; nothing where the defence was not tried."""
    means = 100 * at[at["defence"] == defence].groupby("rule")["accuracy"].mean()
    if means.empty:
        return ""
    return f"{means['matched']:.1f}" + ("" if defence == "erm" else f" ({means['tuned']:.1f})")


def differences_table(out: Path) -> str:
    """GSAT less PGD and less ERM under the attacks of the figures, by both rules: points ± standard error, by network.

    Of an attack over eps the reference strength and the largest are shown, of one over counts the reference at each
    eps; one shift for all test samples is left out beside one for each group.
    """
    tables: dict[str, list[list[str]]] = {}
    for name in FIGURES:
        found = pd.read_csv(out / name / "differences.csv")
        found = found[found["attack"] != "universal-all"]
        for (data, model, attack), part in found.groupby(["data", "model", "attack"], sort=False):
            rows = tables.setdefault(NETWORKS[str(model)], [])
            for ours in _own(str(attack), part):
                for (eps, strength), at in _shown(str(attack), part[part["ours"] == ours]):
                    gaps = [_gap(at, "pgd", "matched"), _gap(at, "pgd", "tuned"), _gap(at, "erm", "tuned")]
                    attacked = at_strength(str(attack), eps, strength).replace(", eps ", ", ")
                    rows.append([SETS.get(str(data), str(data)), attacked, ours, *gaps])
    head = ("attack, eps", "GSAT", "− PGD, matched", "− PGD, tuned", "− ERM, tuned")
    return "\n\n".join(markdown((model, *head), rows) for model, rows in tables.items())


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


def short_shifts_table(out: Path) -> str:
    """The first two columns of `shifts_table` for the six methods that README shows."""
    names = {
        "logistic": "logistic regression", "LDA": "shrinkage LDA", "erm": "network without an adversary (ERM)",
        "pgd": "network, PGD training", "low-rank": "GSAT low-rank", "low-rank, metric": "GSAT low-rank, in the metric",
    }  # fmt: skip
    cells = [line.strip("| ").split(" | ") for line in shifts_table(out).splitlines()[2:]]
    rows = [[names[name], *values[:2]] for name, *values in cells if name in names]
    return markdown(("method", "as it is", "preparation of batches chosen"), rows)


def sets_table(out: Path) -> str:
    """The same for some methods with the preparation chosen, a row for each set; the last two are averages."""
    taken, means = (pd.read_csv(out / "shifts" / f"{name}.csv") for name in ("taken", "averages"))
    one, several = by_set(taken), by_set(means)
    some, both = ("logistic", "lda", "erm", "low-rank", "low-rank, metric"), ("logistic", GSAT_ALL)
    names = {name.lower(): name for name in one.columns}
    columns = [one[names[name + PREPARED]] for name in some] + [several[name + PREPARED] for name in both]
    rows = [[str(name), *(_percent(column[name]) for column in columns)] for name in one.index]
    head = [names[name] for name in some] + [f"{name}, averaged" for name in both]
    return markdown(("set", *head), rows)


def _percent(value: float | None) -> str:
    return "" if value is None or value != value else f"{round(value, 6):.1f}"  # means of pandas differ by the last bit


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
