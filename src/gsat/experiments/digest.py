"""Results of all experiments in a few tables in Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from gsat.experiments.paper import EXPERIMENTS
from gsat.experiments.pictures import at_strength, over_eps, where
from gsat.experiments.plan import read_config

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


def summary_table(out: Path, name: str = "shifts") -> str:
    """The table of methods and tasks of the real shifts."""
    frame = pd.read_csv(out / name / "summary.csv", dtype=str, keep_default_na=False)
    return markdown(frame.columns, frame.itertuples(index=False, name=None))


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
