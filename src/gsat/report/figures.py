"""The figures of a page: each has a specification, which the script draws, and an element, which it is drawn into."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gsat.report.markup import Markup, tag

KEYS = "Left and right arrows read the values."


@dataclass
class Figures:
    """The specifications by the id of the element.

    A specification is plain data for JSON: kind (line, scatter, forest, bars, image or map), title, hint for screen
    readers, and what its file in assets/charts/ reads.
    """

    specs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, spec: dict[str, Any]) -> Markup:
        """Keep a specification; the element with its caption, its tools and room for the drawing."""
        key, title = f"figure-{len(self.specs) + 1}", spec["title"]
        self.specs[key] = spec
        buttons = [
            tag("button", kind.upper(), type="button", data_save=kind, aria_label=f"Save as {kind.upper()}: {title}")
            for kind in ("svg", "csv")
        ]
        return tag(
            "figure",
            tag(
                "figcaption",
                tag("span", title, class_="title"),
                tag("span", _choice(spec), tag("span", buttons[0], " ", buttons[1]), class_="tools"),
            ),
            tag("div", class_="plot", tabindex=0, role="group", aria_label=f"{title}. {spec['hint']}"),
            id=key,
            class_=f"chart {spec['kind']}",
        )

    def grid(self, specs: Iterable[dict[str, Any] | None], class_: str = "grid") -> Markup:
        """Figures side by side; nothing for none."""
        shown = [self.add(spec) for spec in specs if spec is not None]
        return tag("div", *shown, class_=class_) if shown else Markup()

    def series(self) -> list[str]:
        """Every defence that a figure shows, in the order of their first figures."""
        return list(dict.fromkeys(key for spec in self.specs.values() for key in _series(spec)))


def finite(value: Any, digits: int) -> float | None:
    """A number for JSON, rounded to so many significant digits; None where it is not finite."""
    value = float(value)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _choice(spec: dict[str, Any]) -> Markup | None:
    choices = spec.get("choices", [])
    if len(choices) < 2:
        return None
    options = [tag("option", choice["label"], value=index) for index, choice in enumerate(choices)]
    return tag("label", spec["choose"], " ", tag("select", *options))


def _series(spec: dict[str, Any]) -> Iterable[str]:
    entries = [*spec.get("lines", []), *spec.get("bars", []), spec]
    entries += [point for choice in spec.get("choices", []) for point in choice["points"]]
    return (entry["series"] for entry in entries if entry.get("series") is not None)
