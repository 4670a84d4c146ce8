"""The page of `gsat check`: the verdict, accuracy on every batch, paired differences, what was chosen, the samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from gsat._files import read_json
from gsat.report import plots
from gsat.report.figures import Figures
from gsat.report.markup import Markup, join, tag
from gsat.report.tables import Cell, number, table

TEXTS = ("verdict", "outlook", "command")
TABLES = {
    "table": ("method", "mean", "difference", "low", "high", "beats", "whole_batch", "candidates"),
    "batches": ("method",),
    "choices": ("tested", "method", "strength", "metric", "prepare", "inner", "balanced_accuracy", "n_test"),
    "counts": ("batch",),
}
REFERENCE = "logistic regression"
AS_IT_IS, PREPARED = "as they are", ", prepared"  # the samples
READING = (
    "Balanced accuracy in percent: the mean over the classes of the share that is right. The best of each column is in "
    "bold. Difference: to logistic regression, in points, with the 95 % interval by Student's t over what was left "
    "out; a star: above zero at 5 % over the table (Holm). Prepared: with the preparation of samples that left-out "
    "batches choose. Whole batch: how often that was to take the mean of the batch away, which needs all of it at once."
)


@dataclass(frozen=True)
class Checked:
    """metrics.json of `gsat check`: texts, and tables as frames."""

    texts: dict[str, str]
    notes: list[str]
    by_batch: bool
    table: pd.DataFrame
    batches: pd.DataFrame
    choices: pd.DataFrame
    counts: pd.DataFrame


def read_check(folder: Path) -> Checked | None:
    """metrics.json of a check; None where there is none, or one of another command."""
    path = folder / "metrics.json"
    if not path.is_file():
        return None
    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") != "check":
        return None
    frames = {name: _frame(path, content.get(name), name, columns) for name, columns in TABLES.items()}
    notes = content.get("notes")
    return Checked(
        {name: str(content.get(name) or "") for name in TEXTS},
        [str(note) for note in notes] if isinstance(notes, list) else [],
        bool(content.get("by_batch")),
        **frames,
    )


def opening(check: Checked) -> Markup:
    """What stands at the top of the page."""
    command = check.texts["command"]
    shown = tag("pre", tag("code", command), tabindex=0, role="region", aria_label="Command")
    return join(
        tag("p", tag("strong", check.texts["verdict"]), class_="lead"),
        tag("p", check.texts["outlook"], class_="lead") if check.texts["outlook"] else None,
        join(tag("p", "To train it on all samples:"), shown) if command else None,
    )


def check_parts(check: Checked, figures: Figures) -> list[tuple[str, str, Markup, bool]]:
    """Id, title and body of the parts, and whether they are folded."""
    notes = tag("ul", *(tag("li", note) for note in check.notes)) if check.notes else Markup()
    what = "batch" if check.by_batch else "random fold"
    counts = join(notes, _plain(f"Samples of each class in each {what}", check.counts))
    return [
        ("methods", f"Accuracy on each {what} that was left out", _methods(check), False),
        ("differences", "Against logistic regression", _differences(check, figures), False),
        ("samples", "The samples, and what to know of them", counts, False),
        ("choices", "What was chosen", _choices(check), True),
    ]


def _methods(check: Checked) -> Markup:
    about = check.table.set_index("method")
    units = [str(column) for column in check.batches if column != "method"]
    best = {unit: float(check.batches[unit].max()) for unit in units}
    n, highest = len(units), float(about["mean"].max())
    rows: list[list[Cell | Markup]] = []
    for values in check.batches.to_dict("records"):
        name = str(values["method"])
        row = about.loc[name]
        gap = row["difference"]
        cells = [_share(float(values[unit]), best[unit]) for unit in units]
        rows.append(
            [
                Markup(tag("span", name)),
                _share(float(row["mean"]), highest),
                Cell("", float("nan")) if pd.isna(gap) else Cell(_points(row), float(gap)),
                *cells,
                Cell(f"{int(row['whole_batch'])} of {n}" if row["whole_batch"] else "", float(row["whole_batch"])),
            ]
        )
    what = "batch" if check.by_batch else "fold"
    titles = [f"{what} {unit}" if unit.isdecimal() else unit for unit in units]
    return table("Balanced accuracy", ["method", "mean", "difference", *titles, "whole batch"], rows, note=READING)


def _differences(check: Checked, figures: Figures) -> Markup:
    rows = check.table.dropna(subset=["difference"])
    names = [str(name) for name in rows["method"]]
    frame = pd.DataFrame(
        {
            "ours": [PREPARED[2:] if name.endswith(PREPARED) else AS_IT_IS for name in names],
            "baseline": REFERENCE,
            "case": [name.removesuffix(PREPARED) for name in names],
            **{name: rows[name].astype(float) for name in ("difference", "low", "high")},
        }
    )
    return figures.grid([plots.differences(frame, {})], "grid wide")


def _choices(check: Checked) -> Markup:
    shown = check.choices[list(TABLES["choices"])]
    accuracy = 100 * shown[["inner", "balanced_accuracy"]].astype(float)
    shown = shown.assign(inner=accuracy["inner"].round(1), balanced_accuracy=accuracy["balanced_accuracy"].round(1))
    names = {
        "tested": "left out", "inner": "on training batches, %", "balanced_accuracy": "on the one left out, %",
        "n_test": "samples tested",
    }  # fmt: skip
    return _plain("What each method chose", shown.rename(columns=names))


def _plain(caption: str, frame: pd.DataFrame) -> Markup:
    rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    return table(caption, [str(column) for column in frame], rows)


def _cell(value: Any) -> Cell:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Cell(number(value), value)
    return Cell(str(value), str(value))


def _share(value: float, best: float) -> Cell:
    return Cell(f"{value:.1f}", value, fill=value / 100, best=value >= best - 1e-9)


def _points(row: Any) -> str:
    """The difference, with its interval where there is one: of a single unit there is none."""
    known = [name for name in ("difference", "low", "high") if not pd.isna(row[name])]
    gap, *ends = (f"{round(float(row[name]), 1) + 0.0:+.1f}" for name in known)  # no "-0.0"
    interval = f" [{', '.join(ends)}]" if ends else ""
    return f"{gap}{interval}{' *' if row['beats'] else ''}"


def _frame(path: Path, rows: Any, name: str, columns: Iterable[str]) -> pd.DataFrame:
    """The rows of a table, with the columns that are needed."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path} must have {name} as a list of objects")
    frame = pd.DataFrame(rows)
    if missing := [column for column in columns if column not in frame]:
        raise ValueError(f"{path} must have {', '.join(missing)} in the rows of {name}")
    return frame
