"""The test samples on a map: two principal components, coloured by class, batch and error, and pushed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gsat.report.figures import Figures, finite
from gsat.report.markup import Markup, join, tag
from gsat.report.series import styles
from gsat.report.verdict import counted

MOST = 1500  # points of a figure
ARROWS = 80  # of a figure
GROUPS = 12  # classes or batches with a look of their own; the smaller ones are one more group
OTHERS = "others"


def sample_map(found: pd.DataFrame | None, predictions: pd.DataFrame | None, figures: Figures) -> Markup:
    """Figures of the same points side by side: by class, by batch, right or wrong, and where they are pushed."""
    if found is None or not {"id", "x", "y"} <= set(found) or found.empty:
        return Markup()
    points = _joined(found, predictions)
    shown = points.iloc[np.unique(np.linspace(0, len(points) - 1, min(MOST, len(points))).astype(int))]
    specs = [_figure(shown, column, title) for column, title in _colourings(shown)]
    specs += _pushes(shown)
    text = (
        "Each point is a test sample; near points are alike. The axes are the two directions along which the training "
        "samples differ most (principal components)."
    )
    few = f" Drawn are {len(shown):,} of {counted(len(points), 'sample')}." if len(shown) < len(points) else ""
    return join(tag("p", text + few), figures.grid(specs))


def _joined(found: pd.DataFrame, predictions: pd.DataFrame | None) -> pd.DataFrame:
    """The places with class, batch and error of their samples, by id and, where an id occurs twice, by its turn."""
    found = found.assign(**{name: pd.to_numeric(found[name], errors="coerce") for name in found if name != "id"})
    found = found[np.isfinite(found["x"]) & np.isfinite(found["y"])].assign(id=found["id"].astype(str))
    if predictions is None or not {"id", "label", "predicted"} <= set(predictions):
        return found.reset_index(drop=True)
    known = predictions.assign(id=predictions["id"].astype(str))
    turn = [frame.groupby("id").cumcount() for frame in (found, known)]
    keep = ["id", "turn", *(name for name in ("label", "batch", "predicted") if name in known)]
    joined = found.assign(turn=turn[0]).merge(known.assign(turn=turn[1])[keep], on=["id", "turn"], how="left")
    right = joined["label"].astype(str) == joined["predicted"].astype(str)
    error = right.map({True: "right", False: "wrong"}).astype(object)
    return joined.assign(error=error.where(joined["predicted"].notna(), None))


def _colourings(points: pd.DataFrame) -> list[tuple[str | None, str]]:
    """The columns to colour by; a batch that all share tells nothing."""
    wanted = [("label", "By class"), ("batch", "By batch"), ("error", "Right or wrong")]
    there = [(name, title) for name, title in wanted if name in points and points[name].notna().any()]
    several = [(name, title) for name, title in there if name != "batch" or points[name].nunique() > 1]
    return [*several] or [(None, "The test samples")]


def _figure(points: pd.DataFrame, column: str | None, title: str) -> dict[str, Any]:
    names = (
        pd.Series("samples", points.index)
        if column is None
        else points[column].astype(object).where(points[column].notna(), "unknown").astype(str)
    )
    groups = _groups(names, column)
    places = {group: i for i, group in enumerate(groups)}
    where = names.map(lambda name: places.get(name, len(groups) - 1))
    wrong = points["error"] == "wrong" if "error" in points else pd.Series(False, points.index)
    detail = [
        f"{label} taken for {predicted}" if bad else name
        for name, bad, label, predicted in zip(
            names, wrong, points.get("label", names), points.get("predicted", names), strict=True
        )
    ]
    return {
        **_axes(title),
        "groups": [{"title": group, **look} for group, look in groups.items()],
        "points": [
            [finite(x, 4), finite(y, 4), int(group), str(name), text]
            for x, y, group, name, text in zip(points["x"], points["y"], where, points["id"], detail, strict=True)
        ],
        "arrows": [],
    }


def _pushes(points: pd.DataFrame) -> list[dict[str, Any]]:
    if not {"push_x", "push_y"} <= set(points):
        return []
    moved = points[np.isfinite(points["push_x"]) & np.isfinite(points["push_y"])]
    if moved.empty or bool((moved[["push_x", "push_y"]].to_numpy() == moved[["x", "y"]].to_numpy()).all()):
        return []
    some = moved.iloc[np.unique(np.linspace(0, len(moved) - 1, min(ARROWS, len(moved))).astype(int))]
    spec = _figure(moved, "label" if "label" in moved else None, "Where the adversary pushes")
    numbers = some[["x", "y", "push_x", "push_y"]].itertuples(index=False, name=None)
    return [{**spec, "faint": True, "arrows": [[finite(value, 4) for value in row] for row in numbers]}]


def _groups(names: pd.Series, column: str | None) -> dict[str, dict[str, Any]]:
    """A colour and a marker for each group, the smaller of many in one."""
    if column == "error":
        return {
            "right": {"slot": 0, "symbol": "circle"},
            "wrong": {"slot": 2, "symbol": "times"},
            **({"unknown": {"slot": 1, "symbol": "plus"}} if (names == "unknown").any() else {}),
        }
    sizes = names.value_counts(sort=False)
    kept = sorted(sorted(sizes.index, key=lambda name: -sizes[name])[:GROUPS])
    kept += [OTHERS] if len(sizes) > GROUPS else []
    # keys that no method has: a class that happens to be called "pgd" is no defence
    return {
        name: {"slot": look.slot, "symbol": look.symbol}
        for name, look in zip(kept, styles(f"group {i}" for i in range(len(kept))).values(), strict=True)
    }


def _axes(title: str) -> dict[str, Any]:
    return {
        "kind": "map",
        "title": title,
        "hint": "Test samples along two principal components. Left and right arrows read them one by one.",
        "x_label": "first principal component",
        "y_label": "second principal component",
    }
