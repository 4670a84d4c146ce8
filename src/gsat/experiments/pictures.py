"""Curves as PNG in one style for all experiments, and what they call data sets, networks and attacks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

OURS = ("universal", "group-sparse", "low-rank")
COLOURS = {
    "erm": "#777777",
    "fgm": "#aa3377",
    "fgsm": "#cc79a7",
    "pgd": "#222222",
    "universal": "#228833",
    "group-sparse": "#ee7733",
    "low-rank": "#0077bb",
    "unstructured": "#ccbb44",
    "low-rank, metric": "#33bbee",
    "GSAT all": "#882255",
    "logistic": "#999933",
}
AXES = {
    "universal": "eps / E‖X‖", "universal-all": "eps / E‖X‖", "pgd": "eps / E‖X‖", "low-rank": "rank",
    "group-sparse": "columns that move", "group-sparse, pixels": "pixels that move",
    "group-sparse, SNPs": "SNPs that move",
}  # fmt: skip
SETS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "hapmap": "HapMap3", "tcga": "TCGA"}
SETS |= {"hapmap-paper": "HapMap", "tcga-uci": "TCGA (UCI)"}
NETWORKS = {"alexnet": "AlexNet", "elu": "ELU net"}
Line = tuple[Sequence[float], Sequence[float], Sequence[float]]  # x, mean, standard deviation


@dataclass(frozen=True)
class Panel:
    """One pair of axes; lines by name, a standard deviation that is not a number is not drawn."""

    title: str
    x_label: str
    lines: Mapping[str, Line]
    log: bool = False


def curves(panels: Sequence[Panel], *, y_label: str = "accuracy, %", columns: int = 4) -> bytes:
    """A PNG with a panel each, which share the axis of y, and one legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(columns, len(panels))
    down = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(0.6 + 3.4 * columns, 0.5 + 3.0 * down), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(down, columns, sharey=True, squeeze=False)
    known: dict[str, Any] = {}
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_axis_off()
            continue
        panel = panels[place]
        for name, (xs, means, spread) in panel.lines.items():
            low, high = np.subtract(means, spread), np.add(means, spread)
            line = axes.plot(
                xs,
                means,
                marker="o",
                ms=4,
                ls="-" if _is_ours(name) else "--",
                color=COLOURS.get(name),
                label=shown(name),
            )[0]
            if np.isfinite(low).all():
                axes.fill_between(xs, low, high, color=line.get_color(), alpha=0.15, lw=0)
            known.setdefault(shown(name), line)
        axes.set_title(panel.title, fontsize=10)
        axes.set_xlabel(panel.x_label, fontsize=9)
        if panel.log:
            axes.set_xscale("log")
        elif all(float(x).is_integer() for xs, *_ in panel.lines.values() for x in xs):
            axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
    for axes in grid[:, 0]:
        axes.set_ylabel(y_label)
    figure.legend(
        handles=list(known.values()),
        labels=list(known),
        loc="outside lower center",
        ncols=min(7, len(known)),
        fontsize=9,
    )
    return _png(figure)


def _png(figure: Any) -> bytes:
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=110, metadata={"Software": None})
    return stream.getvalue()


def rank_lines(means: pd.Series, difference: float, x_label: str) -> bytes:
    """A PNG with the mean rank of each method, the best on top, and the critical difference as a bar from the best."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 0.9 + 0.27 * len(means)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    places = range(len(means))
    best = float(means.iloc[0])
    axes.axvspan(best, best + difference, color="#0077bb", alpha=0.12, lw=0)
    axes.hlines(places, best, means.to_list(), color="#bbbbbb", lw=1)
    axes.plot(means.to_list(), places, "o", color="#222222", ms=5)
    axes.set_yticks(places, [shown(str(name)) for name in means.index], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel(f"{x_label}\nshaded: level with the best (Nemenyi, 5 %: {difference:.1f})", fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    return _png(figure)


def shown(name: str) -> str:
    """A defence as people write it."""
    if _is_ours(name):
        return name if name.startswith("GSAT") else f"GSAT {name}"
    return name.upper() if name in ("erm", "fgm", "fgsm", "pgd") else name


def _is_ours(name: str) -> bool:
    """Whether it is GSAT: a structure, or one with what is said of it, as in "low-rank, metric"."""
    return name.startswith((*OURS, "GSAT"))


def lines(frame: pd.DataFrame, x: str, *, series: str = "defence", y: str = "accuracy") -> dict[str, Line]:
    """Mean and standard deviation of y (0 to 1) in percent for each x, a line for each value of `series`."""
    found: dict[str, Line] = {}
    for name, rows in frame.groupby(series, sort=False):
        grouped = 100 * rows.groupby(x)[y].agg(["mean", "std"])
        found[str(name)] = (grouped.index.tolist(), grouped["mean"].tolist(), grouped["std"].tolist())
    return found


def over_eps(attack: str) -> bool:
    """Whether the strength of the attack is its norm, not a count."""
    return AXES[attack].startswith("eps")


def where(data: str, model: str) -> str:
    """A data set and a network."""
    return f"{SETS.get(data, data)}, {NETWORKS.get(model, model)}"


def at_strength(attack: str, eps: float, strength: float) -> str:
    """An attack of one strength; eps is a fraction of E‖X‖."""
    if over_eps(attack):
        return f"{attack}, eps {eps:g}"
    unit = AXES[attack].removesuffix(" that move")
    return f"{f'rank {strength:g}' if unit == 'rank' else f'{strength:g} {unit}'}, eps {eps:g}"
