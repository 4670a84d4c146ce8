"""What diagnose() found, to read, to draw and to keep."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gsat._files import replace_file
from gsat._show import Card, Shown
from gsat.diagnosis import words
from gsat.diagnosis.verdict import SHARE

WORTH = {  # structures to try, on batches that are left out
    "none": (),
    "universal": ("low-rank", "universal"),
    "per class": ("low-rank",),
    "group-sparse": ("group-sparse", "low-rank"),
    "low-rank": ("low-rank",),
    "unstructured": ("low-rank", "unstructured"),
}
NOT_IMPLIED = {"universal": ("group-sparse",), "per class": ("group-sparse",), "group-sparse": ("low-rank",)}


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Shown):
    """The structure of the shift between batches, how sure that is, and what is worth trying against it.

    How strong an adversary should be does not follow from the size of a shift: a budget of that size can destroy a
    classifier. `GSATClassifierCV` and `gsat train --choose` try budgets on batches that are left out.

    Parameters
    ----------
    structure
        "none", "universal", "per class", "group-sparse", "low-rank" or "unstructured".
    size
        How far apart two batches are, √energy of the structure as a fraction of E‖X‖; 0 for "none".
    p_value
        Of the hypothesis that there is no shift.
    null, excess
        ‖Δ‖² of matched samples of one batch, and how much more between two batches was counted.
    mean_norm
        E‖X‖ of the samples as they were compared.
    k, rank
        The fewest features, and directions, that hold 80 % of the excess; None where more than max_features, max_rank
        would be needed.
    effective_rank
        (Σ λ)²/Σ λ² over the eigenvalues λ of the second moment of the shift; None where noise hides them.
    table
        A row for each structure, and for all: energy (‖δ‖²) with its interval of 95 % (low, high), size
        (√energy/E‖X‖) and share of the excess with its interval.
    pairs
        A row for each pair of batches: the same verdict on it alone.
    features
        Positions of the max_features features that move most, the first most.
    curves
        Share of the excess in the first 1, 2, ... "features" and "directions".
    about
        Sizes and settings.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_shift(120, 8, shift="none")
    >>> found = gsat.diagnose(table.X, table.batch, table.y, n_splits=3)
    >>> found.structure, found.size, found.worth_trying
    ('none', 0.0, ())
    >>> panels = found.plot()
    >>> [panel.axison for panel in panels]  # nothing to divide among features and directions
    [True, False, False]
    """

    structure: str
    size: float
    p_value: float
    null: float
    excess: float
    mean_norm: float
    k: int | None
    rank: int | None
    effective_rank: float | None
    table: pd.DataFrame
    pairs: pd.DataFrame
    features: NDArray[Any]
    curves: dict[str, NDArray[Any]]
    about: dict[str, Any]

    @property
    def worth_trying(self) -> tuple[str, ...]:
        """Structures for GSATClassifierCV to choose from; () where nothing calls for one."""
        return tuple(dict.fromkeys((*WORTH[self.structure], *self.also)))

    @property
    def also(self) -> tuple[str, ...]:
        """What the structure does not imply, but what holds 80 % of the excess as well."""
        held = set(self.table.loc[self.table["share"] >= SHARE, "structure"])
        return tuple(name for name in NOT_IMPLIED.get(self.structure, ()) if name in held)

    def plot(self, path: str | Path | BinaryIO | None = None, *, ax: Any = None, show: bool | None = None) -> Any:
        """Draw the shares of the excess, and how few features and directions hold it.

        Parameters
        ----------
        path
            A file to write the picture to, or None.
        ax
            Matplotlib axes for the shares alone; None for a new figure with all three panels.
        show
            Whether the figure is shown; None: in a notebook, where no axes are given.

        Returns
        -------
        Axes
            Those given, or an array of the three new ones.
        """
        from gsat.diagnosis.figure import draw

        axes = draw(self, ax, show)
        figure = axes[0].figure if ax is None else ax.figure
        if isinstance(path, str | Path):
            place, stream = Path(path), io.BytesIO()
            figure.savefig(stream, format=place.suffix[1:] or "png", dpi=130)
            replace_file(place if place.suffix else place.with_suffix(".png"), stream.getvalue())
        elif path is not None:
            figure.savefig(path, dpi=130)
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it, with the plain words; numbers that are not there are None."""
        names = ("structure", "also", "worth_trying", "size", "p_value", "null", "excess", "mean_norm", "k", "rank")
        content = {name: getattr(self, name) for name in (*names, "effective_rank")}
        content |= {"features": self.features.tolist()}
        content |= {f"curve_{name}": values.tolist() for name, values in self.curves.items()}
        forms = [words.FORMS[name] for name in self.table["structure"]]
        pairs = self.pairs.assign(what=[words.FORMS[name] for name in self.pairs["structure"]])
        content |= {"summary": self.summary, "table": self.table.assign(what=forms).to_dict("records")}
        content |= {"pairs": pairs.to_dict("records"), "about": self.about}
        found: dict[str, Any] = _plain(content)
        return found

    @property
    def summary(self) -> list[str]:
        """The diagnosis in plain words: what differs, how sure that is, and what is worth trying."""
        return words.summary(self)

    def _card(self) -> Card:
        about, none = self.about, self.structure == "none"
        apart = "no shift beyond chance" if none else f"{self.structure}, size {self.size:.2g}·E‖X‖"
        facts = {
            "structure": self.structure,
            "also": self.also or None,
            "size, as a fraction of E‖X‖": self.size,
            "p of no shift": self.p_value,
            "worth trying": self.worth_trying or None,
            "samples": f"{about['n_compared']} of {about['n_samples']}",
            "pairs of batches": f"{len(self.pairs)} of {about['n_pairs']}",
        }
        line = f"{apart}, p = {self.p_value:.2g}; {about['n_batches']} batches, {about['n_features']} features"
        return Card(line, facts, {"Structures": self.table, "Pairs of batches": self.pairs})

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Diagnosis:
        """The diagnosis that `to_dict` wrote down.

        Parameters
        ----------
        content
            What `to_dict` returned, also after it was JSON.

        Returns
        -------
        Diagnosis
            With features as they are there, positions or names.
        """
        names = ("structure", "size", "p_value", "null", "excess", "mean_norm", "k", "rank", "effective_rank", "about")
        curves = {name: np.array(content[f"curve_{name}"], np.float64) for name in ("features", "directions")}
        table, pairs = (_with_numbers(pd.DataFrame(content[name])) for name in ("table", "pairs"))
        return cls(
            **{name: content[name] for name in names},
            table=table,
            pairs=pairs,
            features=np.array(content["features"]),
            curves=curves,
        )

    def __str__(self) -> str:
        return words.text(self)


def _with_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with NaN where JSON has null, in columns of numbers."""
    text = {"structure", "first", "second"}
    return frame.astype({name: np.float64 for name in frame if name not in text and frame[name].isna().any()})


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
