"""Where a row of results stands: under which attack, at which x, and what is the same along its curve."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

X_LABELS = {"group-sparse": "features that move", "low-rank": "rank (directions)"}
RELATIVE = "size of the attack (1: mean norm of a sample)"
CASE = re.compile(r"(?P<attack>[^:@]+)(:(?P<count>\d+))?@(?P<eps>\d*\.?\d+([eE][+-]?\d+)?)(?P<all>-all)?")
COLUMNS = ["attack", "x", "label", "fixed"]


def place(frame: pd.DataFrame, seed: pd.Series) -> pd.DataFrame:
    """Attack, x, the label of x, and what is fixed along the curve, for each row of a table of results.

    The axis is the column `label` where there is one, else what differs between the cases "name:count@eps" of an
    attack, else `strength`, else `eps`; an eps is relative to E‖X‖ where the column `unit` says what that is.
    """
    if "case" in frame and "attack" not in frame:
        return _cases(frame["case"].astype(str))
    attack = frame["attack"].astype(str) if "attack" in frame else pd.Series("", frame.index)
    if "label" in frame:
        label = attack.map(lambda name: X_LABELS.get(name, RELATIVE))
        return pd.DataFrame({"attack": attack, "x": numbers(frame, "label"), "label": label, "fixed": ""})
    return _strengths(frame, attack, seed)


def case_title(text: str, *, size: bool = True) -> str:
    """A case "low-rank:5@0.2" in words; without its size, "low-rank, rank 5"."""
    name, count, eps = _parse(text)
    if name == "none":
        return "without attack"
    kind = name.removesuffix("-all")
    parts = [kind, "one for all" if kind != name else "", _counted(kind, count), f"eps {eps:g}" if size and eps else ""]
    return ", ".join(part for part in parts if part)


def _parse(text: str) -> tuple[str, int | None, float]:
    match = CASE.fullmatch(text)
    if match is None:
        return text, None, 0.0
    return match["attack"] + (match["all"] or ""), int(match["count"]) if match["count"] else None, float(match["eps"])


def _counted(kind: str, count: int | None) -> str:
    return "" if count is None else f"rank {count}" if kind == "low-rank" else f"{count} columns"


def _cases(texts: pd.Series) -> pd.DataFrame:
    cases = {text: _parse(text) for text in dict.fromkeys(texts)}
    places: dict[str, tuple[str, float, str, str]] = {}
    for text, (name, count, eps) in cases.items():
        counts, sizes = ({case[i] for case in cases.values() if case[0] == name} for i in (1, 2))
        kind = name.removesuffix("-all")
        if count is not None and None not in counts and len(sizes) <= len(counts):
            places[text] = name, float(count), X_LABELS.get(kind, "count"), f"eps = {eps:g}·E‖X‖"
        else:
            places[text] = name, eps, RELATIVE, _counted(kind, count)
    return pd.DataFrame([places[text] for text in texts], columns=COLUMNS, index=texts.index)


def _strengths(frame: pd.DataFrame, attack: pd.Series, seed: pd.Series) -> pd.DataFrame:
    column = next((name for name in ("strength", "eps") if name in frame), None)
    if column is None:
        have = ", ".join(map(str, frame.columns))
        raise ValueError(f"the results must have a column strength, eps, label or case, got {have}")
    x = numbers(frame, column)
    eps = numbers(frame, "eps") if "eps" in frame else pd.Series(float("nan"), frame.index)
    unit = numbers(frame, "unit") if "unit" in frame else None
    size = eps if unit is None else eps / unit
    rows = pd.DataFrame({"attack": attack, "x": x, "label": "strength", "fixed": ""})
    for name, own in rows[attack != "none"].groupby("attack", sort=False):
        at = own.index
        counts, several = x[at][x[at] > 0].unique(), size[at][x[at] > 0].groupby(seed[at]).nunique().max() > 1
        one_count = len(counts) == 1 and several and not (x[at] == eps[at]).any()
        if (x[at] == eps[at]).all() or one_count:
            rows.loc[at, "x"] = size[at].map(lambda value: float(f"{value:.6g}"))
            rows.loc[at, "label"] = "eps" if unit is None else RELATIVE
            rows.loc[at, "fixed"] = _counted(str(name).removesuffix("-all"), int(counts[0])) if one_count else ""
            continue
        rows.loc[at, "label"] = X_LABELS.get(str(name), "strength")
        texts = size[at].map(lambda value: f"eps = {value:.2g}")
        if texts[x[at] > 0].groupby(seed[at]).nunique().max() > 1:  # else eps differs with the E‖X‖ of the seed only
            rows.loc[at, "fixed"] = texts if unit is None else texts + "·E‖X‖"
    return rows


def numbers(frame: pd.DataFrame, column: str) -> Any:
    """The column as numbers, NaN for anything else; an infinite one has no place in a figure."""
    found = pd.to_numeric(frame[column], errors="coerce").astype(float)
    endless = found[found.abs() == float("inf")]
    if len(endless):
        raise ValueError(f"the column {column!r} must be finite, got {endless.iloc[0]}")
    return found
