"""The specifications of the plots that come from tables: curves, trade-off, differences, training, timing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from gsat.report import series as names
from gsat.report.curves import Panel, means
from gsat.report.figures import KEYS, finite
from gsat.report.placing import case_title

BINS = 100  # points of a training curve
PAIRED = ("ours", "baseline", "difference")
LABELS = ("data", "dataset", "model", "rule", "attack", "case", "strength")  # what tells paired differences apart


def curve(panel: Panel, domain: Sequence[float]) -> dict[str, Any]:
    """Accuracy against strength, with a band of ± one standard deviation over seeds."""
    return {
        "kind": "line",
        "title": panel.name,
        "hint": f"{panel.y_label} against {panel.x_label}. {KEYS}",
        "x_label": panel.x_label,
        "y_label": panel.y_label,
        "domain": list(domain),
        "log_x": panel.log_x,
        "markers": True,
        "lines": _lines(panel.means()),
    }


def domain(panels: Sequence[Panel]) -> list[float]:
    """The range of y that panels side by side share: from 0 where accuracies go below 40 %, else zoomed in."""
    values = pd.concat([panel.means() for panel in panels])
    spread = values["std"].fillna(0)
    low, high = float((values["mean"] - spread).min()), float((values["mean"] + spread).max())
    if panels[0].percent:
        low, high = max(low, 0.0), min(high, 100.0)
        return [0.0 if low < 40 else 5.0 * math.floor(low / 5), 5.0 * math.ceil(high / 5) or 5.0]
    margin = 0.05 * (high - low) or 1.0
    return [0.0 if 0 <= low < 0.5 * high else low - margin, high + margin]


def steps(log: pd.DataFrame, column: str, title: str) -> dict[str, Any] | None:
    """A quantity along training: means of bins of steps, then mean and spread over seeds."""
    rows = log.assign(y=pd.to_numeric(log[column], errors="coerce"))
    rows = rows[rows["y"].map(math.isfinite)]
    if rows["y"].nunique() < 2:
        return None
    width = math.ceil((int(rows["t"].max()) + 1) / BINS)
    rows["x"] = rows["t"] // width * width
    binned = means(rows.groupby(["series", "seed", "x"], sort=False)["y"].mean().reset_index())
    low, high = float(binned["mean"].min()), float(binned["mean"].max())
    return {
        "kind": "line",
        "title": title,
        "hint": f"{title} along training. {KEYS}",
        "x_label": "step" if width == 1 else f"step (means of {width})",
        "log": low > 0 and high / low > 50,
        "markers": False,
        "lines": _lines(binned),
    }


def trade_off(panels: Sequence[Panel]) -> dict[str, Any] | None:
    """Clean accuracy against that at the largest strength, for each attack and for the mean of a setting's attacks."""
    found = [(panel, panel.trade_off()) for panel in panels if panel.is_curve]
    found = [(panel, rows) for panel, rows in found if rows["series"].nunique() > 1]  # one alone trades nothing
    choices = []
    for facet in dict.fromkeys(panel.facet for panel, _ in found):
        own = [rows for panel, rows in found if panel.facet == facet]
        if len(own) > 1:
            mean = pd.concat(own).groupby(["series", "seed"], sort=False)[["x", "y"]].mean().reset_index()
            label = " · ".join(text for text in (f"mean of {len(own)} attacks", facet) if text)
            choices.append({"label": label, "points": _points(mean)})
    choices += [{"label": f"{panel.name}, {panel.at_most}", "points": _points(rows)} for panel, rows in found]
    if not choices:
        return None
    return {
        "kind": "scatter",
        "title": "Clean against robust accuracy",
        "hint": f"Up and to the right is better. {KEYS}",
        "x_label": "clean accuracy, %",
        "y_label": "accuracy under attack, %",
        "choose": "Attack",
        "choices": choices,
    }


def differences(frame: pd.DataFrame, titles: Mapping[str, str]) -> dict[str, Any] | None:
    """Paired differences with their 95 % interval, a row per case, a mark per defence of ours.

    Files of earlier versions have no interval: there it is twice the standard error.
    """
    missing = [column for column in PAIRED if column not in frame]
    if missing:
        have = ", ".join(map(str, frame)) or "none"
        raise ValueError(f"must have the columns {', '.join(PAIRED)}, got {have}")
    if frame["difference"].isna().all():
        return None
    for column in ("difference", "standard_error", "low", "high"):
        given = frame[column] if column in frame else pd.Series(dtype=float)
        wrong = given[pd.to_numeric(given, errors="coerce").isna() & given.notna()]
        if len(wrong):
            raise ValueError(f"{column} must be numbers, got {wrong.iloc[0]!r}")
    labels = [column for column in LABELS if column in frame and frame[column].nunique() > 1]
    has_limits = {"low", "high"} <= set(frame)
    if has_limits:
        reaches = (frame["high"] - frame["low"]) / 2
    else:
        reaches = 2 * frame.get("standard_error", pd.Series(float("nan"), frame.index))
    points: dict[str, list[dict[str, Any]]] = {}
    for ours, baseline, difference, reach, key in zip(
        frame["ours"],
        frame["baseline"],
        frame["difference"],
        reaches,
        frame[labels].itertuples(index=False, name=None) if labels else [()] * len(frame),
        strict=True,
    ):
        texts = [case_title(str(v)) if column == "case" else str(v) for column, v in zip(labels, key, strict=True)]
        if (x := finite(difference, 4)) is not None:
            point = {"series": str(ours), "row": " · ".join(texts) or "all", "x": x, "reach": finite(reach, 3)}
            points.setdefault(str(baseline), []).append(point)
    return {
        "kind": "forest",
        "title": "Paired differences",
        "hint": f"Points to the right of zero: ours is ahead. {KEYS}",
        "x_label": f"points of accuracy, {'95 % interval' if has_limits else '± 2 standard errors'}",
        "reach": "half of the 95 % interval" if has_limits else "2 standard errors",
        "choose": "Baseline",
        "choices": [
            {"label": names.title(baseline, titles), "points": points[baseline]}
            for baseline in sorted(points, key=lambda name: name != "pgd")
        ],
    }


def seconds(title: str, values: pd.Series, reference: str = "pgd") -> dict[str, Any]:
    """Mean seconds, a bar per defence, each also as a ratio to the reference where that is there."""
    base = float(values.get(reference, 0.0))
    return {
        **_durations(title),
        "bars": [
            {"series": str(key), "value": finite(value, 4), "ratio": finite(value / base, 3) if base > 0 else None}
            for key, value in values.items()
        ],
        "reference": reference if base > 0 else None,
    }


def attack_seconds(values: pd.Series) -> dict[str, Any]:
    """Mean seconds of the attacks, a bar each."""
    bars = [{"name": str(key), "value": finite(value, 4), "ratio": None} for key, value in values.items()]
    return {**_durations("An attack on all test samples"), "bars": bars, "reference": None}


def _durations(title: str) -> dict[str, Any]:
    return {"kind": "bars", "title": title, "hint": KEYS, "x_label": "seconds", "seconds": True}


def _lines(table: pd.DataFrame) -> list[dict[str, Any]]:
    """[x, mean, standard deviation, seeds] of each series."""
    return [
        {
            "series": str(key),
            "points": [
                [finite(x, 7), finite(mean, 5), finite(std, 3), int(count)]
                for x, mean, std, count in zip(*(own[c] for c in ("x", "mean", "std", "count")), strict=True)
            ],
        }
        for key, own in table.groupby("series", sort=False)
    ]


def _points(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "series": str(key),
            "x": finite(own["x"].mean(), 5),
            "y": finite(own["y"].mean(), 5),
            "x_spread": finite(own["x"].std(), 3),
            "y_spread": finite(own["y"].std(), 3),
            "seeds": [[finite(x, 5), finite(y, 5)] for x, y in zip(own["x"], own["y"], strict=True)],
        }
        for key, own in rows.groupby("series", sort=False)
    ]
