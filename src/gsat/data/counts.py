"""How many samples each class has in each batch: as a table, and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsat._show import Card, Shown, drawing, words

if TYPE_CHECKING:
    import pandas as pd

NAMES = 5  # of features, on the card
BARS = 30  # drawn, at the most
CLASSES = 12  # with a colour of their own; the rest is one


class Counted(Shown):
    """A table of samples that shows how many there are of each class in each batch."""

    X: Any
    y: NDArray[Any] | None
    batch: NDArray[Any] | None
    split: NDArray[Any] | None
    feature_names: tuple[str, ...] | None
    source: str

    def _card(self) -> Card:
        found, names = counts(self), self.feature_names
        parts = [f"{len(self.X)} samples of {' x '.join(map(str, self.X.shape[1:]))} features"]
        if found is not None and self.y is not None and not is_target(self.y):
            parts.append(f"{found.shape[1]} classes")
        if found is not None and self.batch is not None:
            parts.append(f"{len(found)} batches")
        first = None if names is None else words(names[:NAMES]) + " ..." * (len(names) > NAMES)
        facts = {"source": self.source, "features": first}
        if self.split is not None:
            facts["split"] = f"{(self.split == 'train').sum()} train, {(self.split == 'test').sum()} test"
        return Card(", ".join(parts), facts, {} if found is None else {"Samples": found.reset_index()})

    def plot(self, *, ax: Any = None, show: bool | None = None) -> Any:
        """Draw how many samples each batch has, by class; without batches, each class.

        Parameters
        ----------
        ax
            Matplotlib axes; None for new ones.
        show
            Whether the figure is shown; None: in a notebook, where no axes are given.

        Returns
        -------
        Axes
            Those given, or new ones, which pyplot does not keep.
        """
        return _draw(self, ax, show)


def is_target(y: NDArray[Any] | None) -> bool:
    """Whether the labels are numbers that are not all whole: targets of a regression."""
    return y is not None and y.dtype.kind == "f" and bool((y % 1).any())


def counts(table: Counted) -> pd.DataFrame | None:
    """Samples by batch (rows) and class (columns); None where there are neither classes nor batches."""
    import pandas as pd

    y, batch = None if is_target(table.y) else table.y, table.batch
    if y is None and batch is None:
        return None
    rows = np.full(len(table.X), "all") if batch is None else batch.astype(str)
    columns = np.full(len(table.X), "samples") if y is None else y.astype(str)
    return pd.crosstab(pd.Series(rows, name="batch"), pd.Series(columns, name="class"))


def _draw(table: Counted, ax: Any, show: bool | None) -> Any:
    """Bars of the samples of each batch, stacked by class; of each class without batches; a histogram of targets."""
    found = counts(table)
    if found is None and table.y is None:
        raise ValueError("y or batch must be given to draw how many samples there are of each, got neither")
    with drawing(ax, show) as ax:
        if found is None:
            ax.hist(table.y, bins=30)
            ax.set_xlabel("y")
        elif table.batch is None:
            _bars(ax, found.T, "class")
        else:
            _bars(ax, found, "batch")
        ax.set_ylabel("samples")
    return ax


def _bars(ax: Any, found: pd.DataFrame, what: str) -> None:
    """A bar for each row, of many the largest first, stacked by column."""
    shown = found
    if len(found) > BARS:
        shown = found.loc[found.sum(axis=1).sort_values(ascending=False, kind="stable").index[:BARS]]
    if shown.shape[1] > CLASSES:
        shown = shown[shown.sum().sort_values(ascending=False, kind="stable").index]
        rest = shown.iloc[:, CLASSES - 1 :].sum(axis=1)
        shown = shown.iloc[:, : CLASSES - 1].assign(**{f"{shown.shape[1] - CLASSES + 1} others": rest})
    where, base = np.arange(len(shown)), np.zeros(len(shown))
    for number, (name, heights) in enumerate(shown.items()):
        ax.bar(
            where, heights, bottom=base, label=str(name), color=f"C{number}" if number < 10 else str(0.3 * (number - 9))
        )
        base = base + heights.to_numpy()
    ax.set_xticks(where, shown.index, rotation=45 if len(shown) > 8 else 0, ha="right" if len(shown) > 8 else "center")
    ax.set_xlabel(what if len(found) <= BARS else f"{what}, the {BARS} largest of {len(found)}")
    if shown.shape[1] > 1:
        ax.legend(title="class", fontsize=8)
