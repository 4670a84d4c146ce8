"""The picture of a diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gsat._show import drawing
from gsat.diagnosis.verdict import SHARE

if TYPE_CHECKING:
    from gsat.diagnosis.result import Diagnosis


def draw(found: Diagnosis, ax: Any, show: bool | None) -> Any:
    """Three panels: the share of the excess that each structure holds, and shares against features and directions.

    Without a shift there is no excess to share: the first panel then has the energies in percent of the null. Axes that
    are given get the first panel.
    """
    title = f"{found.structure}, size {found.size:.2g}·E‖X‖, p = {found.p_value:.2g}"
    with drawing(ax, show, (11, 3.4), ncols=3, width_ratios=(1.2, 1, 1)) as axes:
        if ax is None:
            axes[0].figure.suptitle(title, fontsize=11)
            _shares(axes[0], found)
            _curves(axes[1], axes[2], found)
        else:
            ax.set_title(title, fontsize=11)
            _shares(ax, found)
    return axes


def _shares(panel: Any, found: Diagnosis) -> None:
    if found.structure == "none":
        _bars(panel, found, ("energy", "low", "high"), 100 / found.null)
        panel.set_ylabel("energy beyond the null, % of it")
    else:
        _bars(panel, found, ("share", "share_low", "share_high"), 100)
        panel.set_ylabel("share of the excess, %")
        _mark_enough(panel)


def _curves(features: Any, directions: Any, found: Diagnosis) -> None:
    if found.structure == "none":
        features.set_axis_off()
        directions.set_axis_off()
        return
    _curve(features, found.curves["features"], "features, those that move most first")
    features.set_xscale("log")
    _curve(directions, found.curves["directions"], "directions")
    directions.xaxis.get_major_locator().set_params(integer=True)
    for panel in (features, directions):
        _mark_enough(panel)


def _mark_enough(panel: Any) -> None:
    panel.axhline(100 * SHARE, color="grey", ls=":")
    panel.set_ylim(min(0, panel.get_ylim()[0]), max(105, panel.get_ylim()[1]))


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
