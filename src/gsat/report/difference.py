"""How the batches differ: the part of the page that shows the diagnosis.json of `gsat diagnose`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from gsat._files import read_json
from gsat.report.figures import KEYS, Figures, finite
from gsat.report.markup import Markup, join, tag
from gsat.report.tables import Cell, number, table

FILE = "diagnosis.json"
NUMBERS = ("size", "p_value", "excess")  # and a table, pairs and texts
MOST_PAIRS = 20
MOST_FEATURES = 30


def read_diagnosis(path: Path) -> dict[str, Any] | None:
    """diagnosis.json, checked for what is shown; None where it is missing."""
    if not path.is_file():
        return None
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("structure"), str):
        raise ValueError(f"{path} must be what `gsat diagnose --out` writes, got {repr(content)[:80]}")
    for name in NUMBERS:
        if not isinstance(content.get(name), int | float):
            raise ValueError(f"{path} must have {name} as a number, got {content.get(name)!r}")
    for name in ("table", "pairs"):
        rows = content.get(name)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"{path} must have {name} as a list of objects, got {repr(rows)[:80]}")
    return content


def title(found: dict[str, Any]) -> str:
    """What a page is called that shows a diagnosis alone."""
    name = Path(str(found.get("data", "the data"))).name
    return f"How the batches of {name} differ"


def summary(found: dict[str, Any]) -> Markup:
    """The plain words of the diagnosis, and the command that comes next."""
    texts = found.get("summary")
    if not isinstance(texts, list):  # written by an earlier version
        shown = "nothing beyond chance" if found["structure"] == "none" else f"{number(found['size'])} times E‖X‖"
        texts = [f"The structure of the shift between the batches: {found['structure']}; its size: {shown}."]
    command = found.get("next")
    return join(
        *(tag("p", str(text)) for text in texts),
        tag("p", "How well models do on batches that are left out is told by:") if command else None,
        tag("pre", tag("code", str(command)), tabindex=0, role="region", aria_label="The next command")
        if command
        else None,
    )


def difference(found: dict[str, Any] | None, figures: Figures, *, alone: bool) -> Markup:
    """Shares of the difference with their intervals, the pairs of batches, and the features that move most."""
    if found is None:
        return Markup()
    specs = [_shares(found), _features(found)]
    return join(None if alone else summary(found), figures.grid(specs, "grid loose"), _pairs(found))


def _shares(found: dict[str, Any]) -> dict[str, Any] | None:
    points, ends = [], [0.0, 100.0]
    for row in found["table"]:
        shares = [_number(row.get(key)) for key in ("share", "share_low", "share_high")]
        value, low, high = (None if share is None else finite(100 * share, 4) for share in shares)
        if value is not None and low is not None and high is not None:
            name = str(row.get("what") or row.get("structure"))
            points.append({"series": None, "row": name, "x": value, "low": low, "high": high})
            ends += [low, high]
    if not points:
        return None
    return {
        "kind": "forest",
        "title": "How much of the difference has which form",
        "hint": f"Shares with their intervals of 95 %; forms may contain each other. {KEYS}",
        "x_label": "share of the difference, % (interval of 95 %)",
        "percent": True,
        "domain": [min(ends), max(ends)],
        "reach": "interval of 95 %",
        "choose": "",
        "choices": [{"label": "", "points": points}],
    }


def _features(found: dict[str, Any]) -> dict[str, Any] | None:
    """The features that move most hold the first so many shares of the difference."""
    names, shares = found.get("features"), found.get("curve_features")
    if not isinstance(names, list) or not isinstance(shares, list):
        return None
    values = [value for value in map(_number, shares[:MOST_FEATURES]) if value is not None]
    if not values:
        return None
    bars = [
        {"name": f"{place}. {name}", "value": finite(100 * value, 4), "beside": None}
        for place, (name, value) in enumerate(zip(names, values, strict=False), 1)
    ]
    return {
        "kind": "bars",
        "title": "The features that move most",
        "hint": f"Each bar: the share of the difference in this feature and those above it. {KEYS}",
        "x_label": "share of the difference, with those above, %",
        "series": None,
        "bars": bars,
    }


def _pairs(found: dict[str, Any]) -> Markup:
    pairs = sorted(found["pairs"], key=lambda pair: -(_number(pair.get("n")) or 0))
    if len(pairs) < 2:
        return Markup()
    rows = [
        [
            _text(f"{pair.get('first')} and {pair.get('second')}"),
            *(Cell(number(value), value) for value in (_number(pair.get(key)) or 0.0 for key in ("n", "classes"))),
            _text(str(pair.get("what") or pair.get("structure"))),
            *(Cell(number(value), value) for value in (_number(pair.get(key)) or 0.0 for key in ("size", "p_value"))),
        ]
        for pair in pairs[:MOST_PAIRS]
    ]
    about = found.get("about")
    possible = about.get("n_pairs", len(pairs)) if isinstance(about, dict) else len(pairs)
    note = f"The {len(rows)} pairs with the most samples, of {possible:,}." if possible > len(rows) else ""
    header = ["batches", "samples compared", "classes", "they differ by", "distance", "p-value"]
    return table("Two batches at a time", header, rows, note=note, class_="matrix")


def _number(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def _text(text: str) -> Cell:
    return Cell(text, text)
