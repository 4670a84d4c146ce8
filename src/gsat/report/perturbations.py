"""What the adversary does: shifts and pixels as images, genes and SNPs as named bars, directions as singular values."""

from __future__ import annotations

from typing import Any

from gsat.report import series as names
from gsat.report.figures import KEYS, Figures, finite
from gsat.report.markup import Markup, join, tag
from gsat.report.tables import number

MOST_BARS = 30
KINDS = {"image": "Images", "bars": "Features", "spectrum": "Singular values"}


def perturbations(entries: list[dict[str, Any]], titles: dict[str, str], figures: Figures, level: int) -> Markup:
    """Entries of one kind and title side by side, on one scale."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in entries:
        groups.setdefault((entry["kind"], str(entry.get("title", KINDS[entry["kind"]]))), []).append(entry)
    return join(*(_group(kind, title, own, titles, figures, level) for (kind, title), own in groups.items()))


def _group(
    kind: str, title: str, entries: list[dict[str, Any]], titles: dict[str, str], figures: Figures, level: int
) -> Markup:
    notes = dict.fromkeys(str(entry["note"]) for entry in entries if entry.get("note"))
    if kind == "spectrum":
        specs = [_spectrum(entries)]
    else:
        specs = (_images if kind == "image" else _bars)(entries, [_caption(entry, titles) for entry in entries])
    return join(
        tag(f"h{level}", title),
        tag("p", " ".join(notes)) if notes else None,
        figures.grid([{**spec, "context": title} for spec in specs], f"grid of-{kind}"),
        _ramp(specs) if kind == "image" else None,
    )


def _images(entries: list[dict[str, Any]], captions: list[str]) -> list[dict[str, Any]]:
    """One scale for all but those with `"scale": "own"`, which are there for comparison and drawn in ink."""
    compared = [entry for entry in entries if entry.get("scale") != "own"]
    largest = _largest(*compared)
    signed = any(value < 0 for entry in compared for value in entry["values"])
    specs = []
    for entry, caption in zip(entries, captions, strict=True):
        height, width, channels, values = _channels_last(entry["shape"], entry["values"])
        own = entry.get("scale") == "own"
        extent = f"{height} by {width}, from {number(min(values))} to {number(max(values))}"
        specs.append(
            {
                "kind": "image",
                "title": caption,
                "hint": f"Image of {extent}. Arrows read the values.",
                "series": _series(entry),
                "height": height,
                "width": width,
                "channels": channels,
                "limit": finite(_largest(entry) if own else largest, 4),
                "signed": signed,
                "tone": "ink" if own else "colour",
                "values": [finite(value, 4) for value in values],
            }
        )
    return specs


def _largest(*entries: dict[str, Any]) -> float:
    return max((abs(value) for entry in entries for value in entry["values"]), default=0.0) or 1.0


def _ramp(specs: list[dict[str, Any]]) -> Markup | None:
    """What the colours stand for."""
    shown = next((spec for spec in specs if spec["tone"] == "colour" and spec["channels"] == 1), None)
    if shown is None:
        return None
    low = number(-shown["limit"]) if shown["signed"] else "0"
    high = number(shown["limit"])
    return tag(
        "div", tag("span", low), tag("i"), tag("span", high), class_="ramp signed" if shown["signed"] else "ramp"
    )


def _bars(entries: list[dict[str, Any]], captions: list[str]) -> list[dict[str, Any]]:
    specs = []
    for entry, caption in zip(entries, captions, strict=True):
        pairs = sorted(zip(map(str, entry["names"]), entry["scores"], strict=True), key=lambda pair: -abs(pair[1]))
        few = f" (the {MOST_BARS} largest of {len(pairs)})" if len(pairs) > MOST_BARS else ""
        specs.append(
            {
                "kind": "bars",
                "title": caption,
                "hint": KEYS,
                "x_label": str(entry.get("x_label", "score")) + few,
                "series": _series(entry),
                "bars": [{"name": name, "value": finite(score, 5)} for name, score in pairs[:MOST_BARS]],
            }
        )
    return specs


def _spectrum(entries: list[dict[str, Any]]) -> dict[str, Any]:
    lines = []
    for entry in entries:
        values = sorted(entry["values"], reverse=True)
        points = [[k, finite(value, 5), None, 1] for k, value in enumerate(values, 1)]
        lines.append({"series": _series(entry) or "model", "points": points})
    return {
        "kind": "line",
        "title": "Singular values",
        "hint": f"Largest first. {KEYS}",
        "x_label": "number",
        "y_label": "singular value",
        "markers": max(len(line["points"]) for line in lines) <= 30,
        "from_zero": True,
        "lines": lines,
    }


def _channels_last(shape: list[int], values: list[float]) -> tuple[int, int, int, list[float]]:
    if len(shape) == 2:
        return shape[0], shape[1], 1, values
    if shape[2] in (1, 3):
        return shape[0], shape[1], shape[2], values
    channels, height, width = shape
    size = height * width
    return height, width, channels, [values[c * size + i] for i in range(size) for c in range(channels)]


def _series(entry: dict[str, Any]) -> str | None:
    return str(entry["defence"]) if entry.get("defence") is not None else None


def _caption(entry: dict[str, Any], titles: dict[str, str]) -> str:
    if entry.get("label"):
        return str(entry["label"])
    key = _series(entry)
    return str(entry.get("title", KINDS[entry["kind"]])) if key is None else names.title(key, titles)
