"""From rows of results to panels: which rows share one, what it is called, means and spreads over seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from gsat.report.placing import RELATIVE, numbers, place
from gsat.report.reading import Result

ALWAYS = ("data", "dataset", "model", "rule", "samples")  # columns that get panels of their own wherever they differ
IF_NEEDED = ("size", "alpha", "lam", "group_size", "scale", "batch", "split")  # where rows would be mixed otherwise
SERIES = ("defence", "method", "model")
KEY = ["facet", "attack", "fixed", "label"]


@dataclass(frozen=True)
class Panel:
    """One plot of a quantity against x: rows of series, x, seed, y. With `strength`, x is that of an attack.

    The column `clean` is the accuracy without attack of the very model of the row, where the table has it: a rule that
    chooses a model for each attack may take another one at strength 0.
    """

    title: str
    detail: str  # what tells it from panels of the same title
    facet: str  # the setting: data, rule, ...
    x_label: str
    y_label: str
    rows: pd.DataFrame
    percent: bool
    strength: bool
    log_x: bool

    @property
    def name(self) -> str:
        """Title and detail."""
        return f"{self.title} · {self.detail}" if self.detail else self.title

    @property
    def at_most(self) -> str:
        """The largest x, in words."""
        return f"{self.x_label}: {self.rows['x'].max():.4g}"

    @property
    def is_curve(self) -> bool:
        """Whether it shows accuracy from strength 0 or more up to some strength."""
        return self.percent and self.strength and bool(self.rows["x"].max() > 0)

    def clean(self) -> pd.DataFrame:
        """The rows at strength 0."""
        return self.rows[self.rows["x"] == 0]

    def trade_off(self) -> pd.DataFrame:
        """Accuracy without attack (x) and at the largest strength (y), for each series and seed."""
        key = ["series", "seed"]
        robust, own = (self.strongest().groupby(key, sort=False)[column].mean() for column in ("y", "clean"))
        clean = own.fillna(self.clean().groupby(key)["y"].mean())
        return pd.DataFrame({"x": clean, "y": robust}).dropna().reset_index()

    def strongest(self) -> pd.DataFrame:
        """The rows at the largest x."""
        return self.rows[self.rows["x"] == self.rows["x"].max()]

    def means(self) -> pd.DataFrame:
        """Mean, standard deviation (nan for one seed) and number of seeds, for each series and x."""
        return means(self.rows)


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """series, x, mean, std, count from rows of series, x, seed, y."""
    grouped = rows.groupby(["series", "x"], sort=False)["y"].agg(["mean", "std", "count"])
    return grouped.reset_index().sort_values("x", kind="stable", ignore_index=True)


def panels(result: Result) -> list[Panel]:
    """The panels of a result: as config.json's "report" says, else one for each attack and setting in the table."""
    hints = result.config.get("report", {})
    found = []
    for hint in hints if isinstance(hints, list) else [hints]:
        where = result.path / "config.json"
        if not isinstance(hint, dict):
            raise ValueError(f'"report" in {where} must be an object or a list of them, got {hint!r}')
        name = str(hint.get("table") or ("chosen" if "chosen" in result.tables else "results"))
        if name in result.tables:
            try:
                found += _panels(result.tables[name], hint, str(result.config.get("defence", "model")))
            except ValueError as error:
                raise ValueError(f"{result.path / name}.csv: {error}") from None
        elif "table" in hint:
            raise ValueError(f'"report" in {where} names the table {name!r}, but there is no {name}.csv')
    return found


def _panels(frame: pd.DataFrame, hint: dict[str, Any], default: str) -> list[Panel]:
    y = str(hint.get("y", "accuracy"))
    wanted = [y, *(str(hint[key]) for key in ("x", "series") if key in hint), *map(str, hint.get("facets", []))]
    for column in wanted:
        if column not in frame:
            raise ValueError(f"the column {column!r} is missing, there are {', '.join(map(str, frame.columns))}")
    if "part" in frame and (frame["part"] == "test").any():
        frame = frame[frame["part"] == "test"]
    rows, facets = _rows(frame, hint, y, default)
    title = str(hint.get("title", ""))
    found = []
    for (facet, attack, fixed, label), own in rows.groupby(KEY, sort=False):
        fixed = _of(hint, "fixed", attack) or fixed
        under = attack_title(attack) if title and attack and "attack" not in facets else ""
        found.append(
            Panel(
                title=title or attack_title(attack),
                detail=" · ".join(text for text in (under, fixed, facet) if text),
                facet=facet,
                x_label=_of(hint, "x_label", attack) or label,
                y_label=str(hint.get("y_label", "accuracy, %" if y == "accuracy" else y)),
                rows=own[["series", "x", "seed", "y", "clean"]].reset_index(drop=True),
                percent=y == "accuracy",
                strength="x" not in hint,
                log_x=hint.get("x_scale") == "log" and bool((own["x"] > 0).all()),
            )
        )
    return found


def _rows(frame: pd.DataFrame, hint: dict[str, Any], y: str, default: str) -> tuple[pd.DataFrame, list[str]]:
    """series, seed, y, facet, attack, x, label and fixed of each row, and the columns that make the facets."""
    values = numbers(frame, y)
    series = hint.get("series") or next((column for column in SERIES if column in frame), None)
    seed = frame["seed"] if "seed" in frame else pd.Series(0, frame.index)
    if "x" in hint:
        x = numbers(frame, str(hint["x"]))
        attack = frame["attack"].astype(str) if "attack" in frame else ""
        rows = pd.DataFrame({"attack": attack, "x": x, "label": str(hint["x"]), "fixed": ""}, index=frame.index)
    else:
        rows = place(frame, seed)
    scale = 100 if y == "accuracy" and values.max() <= 1 else 1
    rows = rows.assign(
        y=scale * values,
        clean=scale * numbers(frame, "clean") if "clean" in frame else float("nan"),
        series=frame[series].astype(str) if series else default,
        seed=seed,
    )
    facets = list(map(str, hint["facets"])) if "facets" in hint else _facets(rows, frame, str(series))
    keys = frame[facets].itertuples(index=False, name=None) if facets else [()] * len(frame)
    rows["facet"] = [" · ".join(_facet(*pair) for pair in zip(facets, key, strict=True)) for key in keys]
    rows = rows.dropna(subset=["x", "y"])
    return (rows if "x" in hint else _with_clean(rows)), facets


def _with_clean(rows: pd.DataFrame) -> pd.DataFrame:
    """Every curve starts at strength 0 with the accuracy without attack, where it was measured."""
    clean, attacked = rows[rows["attack"] == "none"], rows[rows["attack"] != "none"]
    if attacked.empty:
        return rows.assign(fixed="", label=RELATIVE)
    added = []
    for (facet, attack, fixed, label), own in attacked.groupby(KEY, sort=False):
        if not (own["x"] == 0).any():
            start = clean[(clean["facet"] == facet) & clean["series"].isin(own["series"])]
            added.append(start.assign(x=0.0, attack=attack, fixed=fixed, label=label))
    return pd.concat([attacked, *added], ignore_index=True)


def _facets(rows: pd.DataFrame, frame: pd.DataFrame, series: str) -> list[str]:
    """The columns by which settings differ, and those without which rows of one curve, seed and x would be mixed."""
    facets = [column for column in ALWAYS if column in frame and column != series and frame[column].nunique() > 1]
    for column in (column for column in IF_NEEDED if column in frame and column != series):
        point = [rows[name] for name in ("series", "seed", "attack", "fixed", "x")]
        mixed = rows.groupby([*point, *(frame[name] for name in facets)]).size().max() > 1
        if mixed and 1 < frame[column].nunique() <= 8:
            facets.append(column)
    return facets


def _facet(column: str, value: Any) -> str:
    return f"{column} {value:g}" if isinstance(value, float) else str(value)


def attack_title(attack: str) -> str:
    """What the panel of an attack is called."""
    if attack in ("", "none"):
        return "Without attack" if attack else "Accuracy"
    name = attack.removesuffix("-all")
    name = name.upper() if name in ("pgd", "fgm", "fgsm") else name[:1].upper() + name[1:]
    return f"{name} attack" + (", one for all samples" if attack.endswith("-all") else "")


def _of(hint: dict[str, Any], key: str, attack: str) -> str | None:
    """A hint that is one text for all attacks, or one for each."""
    text = hint.get(key)
    text = text.get(attack) if isinstance(text, dict) else text
    return None if text is None else str(text)
