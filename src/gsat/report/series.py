"""Names, colours, dashes and markers of the defences: the same defence looks the same in every figure of a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

# (on a light ground, on a dark ground): each has a contrast of at least 3 to its ground, and any two can be told apart
# with normal sight and without red, green or blue cones; tests/test_report_colours.py measures both.
PALETTE = (
    ("#606772", "#a4a4a4"),  # grey
    ("#966b00", "#d1b511"),  # mustard
    ("#8f2309", "#df5446"),  # brick
    ("#33a286", "#63ebce"),  # teal
    ("#701d70", "#ad68b2"),  # purple
    ("#1c38b7", "#7fa3ff"),  # blue
    ("#7a9d1a", "#cbd686"),  # olive
    ("#197daf", "#79c7e3"),  # sky
)
DASHES = ("7 3", "2 3", "9 3 2 3", "14 4", "4 2 1 2 1 2")
SYMBOLS = (
    "circle",
    "square",
    "triangle",
    "diamond",
    "times",
    "plus",
    "star",
    "wye",
    "square2",
    "diamond2",
    "triangle2",
)


@dataclass(frozen=True)
class Style:
    """How a defence is drawn: a colour of the palette, a dash pattern ("" is solid) and a marker."""

    slot: int
    dash: str
    symbol: str
    ours: bool = False


KNOWN = {
    "erm": Style(0, "2 3", "circle"),
    "fgm": Style(1, "7 3", "square"),
    "pgd": Style(2, "9 3 2 3", "triangle"),
    "universal": Style(3, "", "diamond", True),
    "group-sparse": Style(4, "", "star", True),
    "low-rank": Style(5, "", "circle", True),
    "unstructured": Style(6, "5 3", "wye"),
    "universal-at": Style(7, "14 4", "square"),
    "fgsm": Style(7, "4 2 1 2 1 2", "times"),
    "structured-universal": Style(1, "", "diamond2", True),
    "structured-group-sparse": Style(6, "14 4", "square2", True),
    "structured-low-rank": Style(7, "", "triangle2", True),
    "logistic": Style(0, "9 3 2 3", "square2"),
}
SHORT = {"lr": "low-rank", "gs": "group-sparse", "ind": "universal", "indicator": "universal"}
TITLES = {
    "erm": "ERM",
    "fgm": "FGM",
    "fgsm": "FGSM",
    "pgd": "PGD",
    "universal-at": "Universal AT",
    "universal": "GSAT universal",
    "group-sparse": "GSAT group-sparse",
    "low-rank": "GSAT low-rank",
    "unstructured": "Unstructured",
    "structured-universal": "Structured, universal",
    "structured-group-sparse": "Structured, group-sparse",
    "structured-low-rank": "Structured, low-rank",
    "logistic": "Logistic regression",
}


def title(key: str, names: Mapping[str, str]) -> str:
    """The name to show: that of config.json, ours for a known defence, else the key as it is."""
    return names.get(key) or TITLES.get(key, key)


def styles(keys: Iterable[str]) -> dict[str, Style]:
    """A style for each key: its own for a known defence, else colours, dashes and markers that are not taken yet."""
    keys = list(dict.fromkeys(keys))
    found = {key: KNOWN[_plain(key)] for key in keys if _plain(key) in KNOWN}
    for key in (key for key in keys if key not in found):
        slot = _rarest(range(len(PALETTE)), [style.slot for style in found.values()])
        symbol = _rarest(SYMBOLS, [style.symbol for style in found.values()])
        dash = _rarest(DASHES, [style.dash for style in found.values() if style.slot == slot])
        found[key] = Style(slot, dash, symbol)
    return {key: found[key] for key in keys}


def _rarest(choices: Sequence[T], taken: list[T]) -> T:
    """The choice that was taken least often, the first of those."""
    return min(choices, key=taken.count)


def _plain(key: str) -> str:
    plain = key.lower().replace("_", "-").replace(" ", "-").removeprefix("gsat-")
    return SHORT.get(plain, plain)
