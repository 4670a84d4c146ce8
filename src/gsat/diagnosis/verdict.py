"""From energies to the name of a structure: the simplest that holds 80 % of the excess."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from gsat.diagnosis.energies import Energies
from gsat.diagnosis.moments import Array

SHARE = 0.8  # of the excess, that a structure must hold
LEVEL = 0.005  # of the test for "none"
MORE = 1.645  # standard errors that a structure must hold more than a simpler one: wrong once in twenty
BEYOND = 2.326  # standard errors that are left out of what lies outside: wrong once in a hundred
WIDTH = 1.96  # standard errors to each side, for intervals of 95 %
Held = dict[str, tuple[Array, Array]]  # for each structure, the simplest first: what it holds, and what lies outside


@dataclass(frozen=True, eq=False)
class Verdict:
    """The structure, its size √energy/E‖X‖, the excess that was counted, and a table with a row for each structure."""

    structure: str
    size: float
    excess: float
    table: pd.DataFrame

    @property
    def shares(self) -> dict[str, float]:
        """The share of the excess that each structure holds."""
        rows = self.table[self.table["structure"] != "all"]
        return dict(zip(rows["structure"], rows["share"], strict=True))


def judge(energies: Energies, p_value: float, unit: float, *, classes: bool) -> Verdict:
    """The verdict on the energies of random halves; without `classes` there is no structure per class.

    The spread of an energy over the halves is its standard error on all samples: a half has twice the variance of the
    whole, of which the halves have one half in common. The excess is the energy of the structure that holds most, plus
    what lies outside it as far as that is certain.
    """
    held = _held(energies, classes)
    best, certain = _best(held)
    inside, outside = held[best]
    doubt = BEYOND * _error(outside) if certain else 0.0
    excess = float(inside.mean() + max(0.0, outside.mean() - doubt))
    structure, energy = "none", 0.0
    if p_value <= LEVEL and excess > 0:
        structure, energy = "unstructured", float(energies.total.mean())
        for name, (part, _) in held.items():
            if part.mean() >= SHARE * excess:
                structure, energy = name, float(part.mean())
                break
    parts = {name: part for name, (part, _) in held.items()} | {"all": energies.total}
    table = pd.DataFrame([{"structure": name, **_row(part, unit)} for name, part in parts.items()])
    shares = [_share(part, inside + outside, excess if structure != "none" else np.nan) for part in parts.values()]
    table[["share", "share_low", "share_high"]] = np.array(shares)
    table.loc[table["structure"] == "all", ["share", "share_low", "share_high"]] = np.nan
    return Verdict(structure, float(np.sqrt(max(energy, 0.0))) / unit, excess, table)


def _held(energies: Energies, classes: bool) -> Held:
    held = {"universal": (energies.universal, energies.total - energies.universal)}
    if classes:
        held["per class"] = (energies.per_class, energies.total - energies.per_class)
    held["group-sparse"] = (energies.features[:, -1], energies.outside_features)
    held["low-rank"] = (energies.directions[:, -1], energies.outside_directions)
    return held


def _best(held: Held) -> tuple[str, bool]:
    """The structure that holds most, where more than a simpler one counts only if it is certain; and if any is."""
    best, most = "", np.zeros(1)
    for name, (inside, _) in held.items():
        gain = inside - most
        if gain.mean() > MORE * _error(gain):
            best, most = name, inside
    return (best, True) if best else (max(held, key=lambda name: held[name][0].mean()), False)


def _error(values: Array) -> float:
    return float(values.std(ddof=1))


def _row(part: Array, unit: float) -> dict[str, float]:
    mean, width = float(part.mean()), WIDTH * _error(part)
    return {"energy": mean, "low": mean - width, "high": mean + width, "size": max(mean, 0.0) ** 0.5 / unit}


def _share(part: Array, whole: Array, excess: float) -> tuple[float, float, float]:
    """part/excess with its interval, to first order in the deviations of both."""
    share = float(part.mean()) / excess
    width = WIDTH * _error(part - share * whole) / excess
    return share, share - width, share + width
