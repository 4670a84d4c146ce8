"""Tables as HTML: sortable by their headers, long ones scrolled in their frame, best values in bold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gsat.report.markup import Markup, join, tag

MOST_ROWS = 1000
MOST_SHOWN = 40  # rows of a table that is shown at its full height; more are scrolled in their frame


@dataclass(frozen=True)
class Cell:
    """What a cell shows, what it is sorted by, and, for a shaded one, how full it is (0 to 1)."""

    text: str
    value: float | str
    fill: float | None = None
    best: bool = False


def table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[Cell | Markup]], *, note: str = "", class_: str = ""
) -> Markup:
    """A sortable table; the first column names the row."""
    numeric = [_is_numeric([row[column] for row in rows]) for column in range(len(header))]
    head = [
        tag(
            "th",
            tag("button", name, type="button"),
            scope="col",
            aria_sort="none",
            class_=None if right else "text",
        )
        for name, right in zip(header, numeric, strict=True)
    ]
    body = [tag("tr", *(_cell(cell, column == 0, numeric[column]) for column, cell in enumerate(row))) for row in rows]
    return join(
        tag(
            "div",
            tag(
                "table",
                tag("caption", caption, class_="hidden"),
                tag("thead", tag("tr", *head)),
                tag("tbody", *body),
                class_=f"sortable {class_}".strip(),
            ),
            class_="scroll long" if len(rows) > MOST_SHOWN else "scroll",
            tabindex=0,
            role="region",
            aria_label=caption,
        ),
        tag("p", note, class_="note") if note else None,
    )


def frame_table(caption: str, frame: pd.DataFrame, most: int = MOST_ROWS) -> Markup:
    """The rows of a table as they are in the file, the first `most` of them."""
    rows = [[_plain(value) for value in row] for row in frame.head(most).itertuples(index=False, name=None)]
    note = f"The first {most} of {len(frame)} rows; the file has them all." if len(frame) > most else ""
    return table(caption, [str(column) for column in frame], rows, note=note)


def number(value: float) -> str:
    """Four significant digits, whole numbers in full."""
    if isinstance(value, float) and not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    text = str(value) if isinstance(value, int) else f"{value:.4g}"
    return f"−{text[1:]}" if text.startswith("-") else text


def _plain(value: Any) -> Cell:
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Cell(number(value), value)
    text = ("yes" if value else "no") if isinstance(value, bool) else "" if value is None else str(value)
    return Cell(text, text)


def _cell(cell: Cell | Markup, first: bool, right: bool) -> Markup:
    """Numbers stand on the right, which is the rule for td; data-value only where the text does not say it."""
    name, scope = ("th", "row") if first else ("td", None)
    if isinstance(cell, Markup):
        return tag(name, cell, scope=scope, class_="text")
    value = "" if isinstance(cell.value, float) and math.isnan(cell.value) else str(cell.value)
    plain = isinstance(cell.value, str) or cell.text == number(cell.value)
    return tag(
        name,
        tag("strong", cell.text) if cell.best else cell.text,
        scope=scope,
        class_=" ".join(filter(None, ("" if right else "text", "filled" if cell.fill is not None else ""))) or None,
        data_value=None if plain else value,
        style=None if cell.fill is None else f"--fill:{min(max(cell.fill, 0.0), 1.0):.3f}",
    )


def _is_numeric(cells: Sequence[Cell | Markup]) -> bool:
    return bool(cells) and all(isinstance(cell, Cell) and isinstance(cell.value, int | float) for cell in cells)
