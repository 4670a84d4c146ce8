"""What certify() found, to read and to draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from gsat._show import Card, Shown, drawing, words


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Shown):
    """Certified risk (mean loss) against radius, both in the units that the module sees.

    Parameters
    ----------
    table
        One or two rows per radius: a rigorous one where β is known, and an estimate where a price λ that is not
        rigorous promises less. Columns: radius, lam, mean_estimate, low, high, gap, rigorous, interval. The bound is an
        expectation over groups: `mean_estimate` is its Monte-Carlo mean and certifies nothing, [low, high] holds it
        with probability `level`, for each row on its own, and `high` is what is certified. `interval` is "betting"
        (right for any number of groups), "Student t" (for many groups) or "exact"; `gap` is the mean of what was added
        to the values that the ascent reached.
    attacks
        attack, radius (mean c(Δ)/m), risk: what the adversary and the given attacks did to the same groups.
    beta
        Bound of the curvature of the loss, None where it is not known.
    lam_rigorous
        β/(2·ridge); prices λ above it are rigorous.
    risk
        The mean loss of the samples as they are.
    level
        Of the intervals.
    group_size, n_groups
        Samples of a group, and groups.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.GSATClassifier(n_outer=20, eta0=0.02, hidden=5, random_state=0).fit(table.X, table.y)
    >>> found = clf.certificate(table.X, table.y, [0.0, 0.1], n_groups=2, n_pilot=1, group_size=20)
    >>> found.table["radius"].unique().tolist()
    [0.0, 0.1]
    >>> found.plot().get_ylabel()
    'risk, mean loss'
    """

    table: pd.DataFrame
    attacks: pd.DataFrame
    beta: float | None
    lam_rigorous: float
    risk: float
    level: float
    group_size: int
    n_groups: int

    def _card(self) -> Card:
        certified = self.table[self.table["rigorous"]]
        bound = "no rigorous bound"
        if len(certified):
            far = certified.iloc[-1]
            bound = f"at most {words(far['high'])} within radius {words(far['radius'])}, at level {self.level:g}"
        facts = {
            "mean loss of the samples": self.risk,
            "curvature of the loss, at most": self.beta,
            "λ of a rigorous bound, above": None if self.beta is None else self.lam_rigorous,
            "groups": f"{self.n_groups} of {self.group_size} samples",
        }
        return Card(f"risk {words(self.risk)}; {bound}", facts, {"Bounds": self.table, "Attacks": self.attacks})

    def plot(self, ax: Any = None, *, show: bool | None = None) -> Any:
        """Draw certified risk against radius, and the risk under actual attacks below it.

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
        with drawing(ax, show) as ax:
            self._draw(ax)
        return ax

    def _draw(self, ax: Any) -> None:
        table, at_zero = self.table, self.table["radius"] == 0
        certified, guess = table[table["rigorous"]], table[~table["rigorous"] | at_zero]
        if len(certified) > at_zero.sum():
            label = f"certified, at level {self.level:g}"
            ax.plot(certified["radius"], certified["high"], color="C0", marker="o", ms=4, label=label)
        if len(guess) > at_zero.sum():
            ax.plot(guess["radius"], guess["mean_estimate"], color="C1", marker="o", ms=4, ls="--", label="estimate")
            ax.fill_between(guess["radius"], guess["low"], guess["high"], color="C1", alpha=0.2, lw=0)
        seen = self.attacks[self.attacks["radius"] <= table["radius"].max()]
        for number, (name, points) in enumerate(seen.groupby("attack", sort=False)):
            ax.scatter(points["radius"], points["risk"], color=f"C{2 + number}", marker="x", label=f"attack: {name}")
        ax.set_xlabel("radius, mean c(Δ)/m")
        ax.set_ylabel("risk, mean loss")
        ax.grid(alpha=0.3)
        ax.legend()
