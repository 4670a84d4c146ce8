"""The picture of README and of the site's front page: what robust training gains on real batches never seen.

`python benchmarks/shift_picture.py` draws docs/shifts.png from results/shifts and prints what it shows: for every data
set the balanced accuracy of low-rank GSAT in the metric, less that of the same network without an adversary, and less
that of logistic regression; of each method the strength and the preparation are chosen on left-out training batches.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gsat.experiments.digest import RESPLITS
from gsat.experiments.paired import summed_up
from gsat.experiments.shift_tables import by_set

ROOT = Path(__file__).parents[1]
OURS = "low-rank, metric (prepared)"
BASELINES = {"erm (prepared)": "the same network\nwithout an adversary", "logistic (prepared)": "logistic regression"}
COLOURS = ("#0077bb", "#ee7733")


def gains(results: Path = ROOT / "results") -> pd.DataFrame:
    """Points of percent, a row for each data set, a column for each baseline."""
    found = by_set(pd.read_csv(results / "shifts" / "taken.csv")).drop(index=RESPLITS, errors="ignore")
    return pd.DataFrame({name: found[OURS] - found[name] for name in BASELINES})


def spoken(values: Sequence[float]) -> str:
    """Mean, Student's 95 % interval, and on how many sets the difference is above zero."""
    found = summed_up(values)
    better = sum(value > 0 for value in values)
    interval = f"({found['low']:.1f} to {found['high']:.1f})"
    return f"mean {found['difference']:+.1f} {interval}, ahead on {better} of {len(values)}"


def draw(found: pd.DataFrame) -> Figure:
    """A panel for each baseline with a bar for each set, in the order of the first."""
    found = found.sort_values(next(iter(BASELINES)))
    figure = Figure(figsize=(9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    for ax, (name, words), colour in zip(
        figure.subplots(1, 2, sharex=True, sharey=True), BASELINES.items(), COLOURS, strict=True
    ):
        ax.barh(found.index, found[name], color=[colour if value > 0 else "0.65" for value in found[name]])
        ax.axvline(0, color="0.2", lw=0.8)
        ax.set_title(f"robust training less {words}", fontsize=10)
        ax.set_xlabel("points of balanced accuracy, batches never seen\n" + spoken(found[name].tolist()), fontsize=9)
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
    return figure


def main(out: Path = ROOT / "docs" / "shifts.png") -> None:
    found = gains()
    draw(found).savefig(out, dpi=110)
    print(found.round(1).to_string())
    for name in BASELINES:
        print(f"{name}: {spoken(found[name].tolist())}")


if __name__ == "__main__":
    main()
