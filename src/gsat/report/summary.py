"""The table at the top: every defence without attack and under each attack at its largest strength."""

from __future__ import annotations

import math

import pandas as pd

from gsat.report import series as names
from gsat.report.curves import Panel
from gsat.report.markup import Markup, join, tag
from gsat.report.reading import Result
from gsat.report.tables import Cell, table


def summary(drawn: list[Panel], result: Result) -> Markup:
    """Mean ± standard deviation over seeds, in percent; the best of each column in bold."""
    curves = [panel for panel in drawn if panel.percent and panel.strength]
    if not curves:
        return Markup()
    columns = []
    for facet in dict.fromkeys(panel.facet for panel in curves):
        clean = pd.concat([panel.clean() for panel in curves if panel.facet == facet])
        if not clean.empty:
            title = join("clean", tag("small", facet) if facet else None)
            columns.append((title, clean.drop_duplicates(["series", "seed"])))
    for panel in curves:
        if panel.is_curve:
            detail = tag("small", panel.detail) if panel.detail else None
            columns.append((join(panel.title, detail, tag("small", panel.at_most)), panel.strongest()))
    keys = list(dict.fromkeys(key for panel in curves for key in panel.rows["series"]))
    cells = [_column(rows, keys) for _, rows in columns]
    rows: list[list[Cell | Markup]] = [
        [tag("span", names.title(key, result.names), class_="key", data_key=key), *(column[i] for column in cells)]
        for i, key in enumerate(keys)
    ]
    header = [Markup("trained with"), *(title for title, _ in columns)]
    return table("Accuracy in percent", header, rows, note=_note(curves, result))


def _column(rows: pd.DataFrame, keys: list[str]) -> list[Cell]:
    grouped = rows.groupby("series")["y"]
    means, spreads = grouped.mean(), grouped.std()
    cells = []
    for key in keys:
        if key not in means:
            cells.append(Cell("–", float("nan")))
            continue
        mean, spread = float(means[key]), float(spreads[key])
        text = f"{mean:.1f}" + (f" ± {spread:.1f}" if spread == spread else "")
        cells.append(Cell(text, mean, fill=mean / 100, best=len(keys) > 1 and mean >= means.max() - 1e-9))
    return cells


def _note(curves: list[Panel], result: Result) -> str:
    seeds = max(int(panel.means()["count"].max()) for panel in curves)
    spread = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "one seed"
    frame = result.tables.get("results", pd.DataFrame())
    samples = pd.to_numeric(frame["n"], errors="coerce") if "n" in frame else pd.Series(dtype=float)
    if seeds == 1 and 1 <= samples.min() < math.inf:
        n = int(samples.min())
        spread += f", {n} test samples (standard error up to {50 / n**0.5:.1f} points)"
    return f"Accuracy in percent, {spread}; each attack at its largest strength; the best of each column in bold."
