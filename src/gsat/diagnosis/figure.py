"""The picture of a diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gsat.diagnosis.verdict import SHARE

if TYPE_CHECKING:
    from gsat.diagnosis.result import Diagnosis


def draw(found: Diagnosis) -> Figure:
    """Three panels: the share of the excess that each structure holds, and shares against features and directions.

    Without a shift there is no excess to share: the first panel then has the energies in percent of the null.
    """
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    bars, features, directions = figure.subplots(1, 3, width_ratios=(1.2, 1, 1))
    figure.suptitle(f"{found.structure}, size {found.size:.2g}·E‖X‖, p = {found.p_value:.2g}", fontsize=11)
    if found.structure == "none":
        _bars(bars, found, ("energy", "low", "high"), 100 / found.null)
        bars.set_ylabel("energy beyond the null, % of it")
        for panel in (features, directions):
            panel.set_axis_off()
        return figure
    _bars(bars, found, ("share", "share_low", "share_high"), 100)
    bars.set_ylabel("share of the excess, %")
    _curve(features, found.curves["features"], "features, those that move most first")
    features.set_xscale("log")
    _curve(directions, found.curves["directions"], "directions")
    directions.xaxis.get_major_locator().set_params(integer=True)
    for panel in (bars, features, directions):
        panel.axhline(100 * SHARE, color="grey", ls=":")
        panel.set_ylim(min(0, panel.get_ylim()[0]), max(105, panel.get_ylim()[1]))
    return figure


def _bars(panel: Any, found: Diagnosis, columns: tuple[str, str, str], unit: float) -> None:
    rows = found.table[found.table["structure"] != "all"]
    where = np.arange(len(rows))
    height, low, high = unit * rows[[*columns]].to_numpy(dtype=np.float64).T
    colours = ["tab:orange" if name == found.structure else "tab:blue" for name in rows["structure"]]
    panel.bar(where, height, color=colours)
    panel.errorbar(where, height, yerr=(height - low, high - height), fmt="none", ecolor="black", capsize=3)
    panel.set_xticks(where, rows["structure"], fontsize=8)
    panel.grid(alpha=0.3)


def _curve(panel: Any, shares: Any, label: str) -> None:
    panel.plot(np.arange(1, len(shares) + 1), 100 * shares, marker="o" if len(shares) <= 20 else None, ms=4)
    panel.set_xlabel(label)
    panel.grid(alpha=0.3)
