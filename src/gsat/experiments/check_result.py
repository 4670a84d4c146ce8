"""What `gsat.check` returns: the table, the verdict, and how to train the winner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from gsat.experiments.check_methods import MAJORITY, REFERENCE, TITLES
from gsat.experiments.check_verdict import judge, table_of
from gsat.experiments.paired import in_words

MOST_BATCHES = 8  # columns of a printed table
FOOTNOTE = (
    "difference: to logistic regression, in points [95 %, Student's t over what was left out]; * above zero at 5 % "
    "over the table (Holm)\n"
    "prepared: with the preparation that left-out batches choose; whole batch: how often that was to take its mean "
    "away, which needs all samples of the new batch at once"
)


@dataclass(frozen=True, eq=False)
class CheckResult:
    """Whether robust training is worth it on some data, and how well each method does on batches it never saw.

    Parameters
    ----------
    table
        A row per method: mean, lowest and highest balanced accuracy in percent over the batches that were left out; its
        paired difference to logistic regression in points, with the limits of the 95 % interval over batches, p, and
        whether it `beats` logistic regression at 5 % over the table (Holm); whole_batch, in how many batches it needs
        all samples of the new batch at once; candidates, how many it chose from.
    verdict
        One sentence.
    outlook
        How well the advised method will do on a batch never seen.
    method
        The name of that method; None where nothing predicts the label.
    command
        What trains it on all samples.
    batches
        Balanced accuracy in percent, a row per method, a column per batch.
    choices
        What each method chose for each batch that was left out.
    counts
        Samples of each class (columns) in each batch (rows).
    by_batch
        Whether batches were left out; else random samples, and nothing is known about a next batch.
    notes
        What else a reader of the result must know.

    Examples
    --------
    `gsat.check(X, y, batch)` gives one. Put together by hand:

    >>> import pandas as pd
    >>> import gsat
    >>> table = pd.DataFrame({"mean": [81.0]}, index=["logistic regression"])
    >>> tables = {"table": table, "batches": table, "choices": table, "counts": table}
    >>> said = {"verdict": "Use it.", "outlook": "", "method": table.index[0], "command": ""}
    >>> found = gsat.CheckResult(**tables, **said, by_batch=True, notes=())
    >>> found.method, found.to_dict()["verdict"]
    ('logistic regression', 'Use it.')
    """

    table: pd.DataFrame
    verdict: str
    outlook: str
    method: str | None
    command: str
    batches: pd.DataFrame
    choices: pd.DataFrame
    counts: pd.DataFrame
    by_batch: bool
    notes: tuple[str, ...]

    @classmethod
    def of(cls, choice: pd.DataFrame, counts: pd.DataFrame, notes: Sequence[str], *, by_batch: bool) -> CheckResult:
        """From what `Search.run` found; without a command."""
        scores = 100 * choice.pivot(index="tested", columns="method", values="balanced_accuracy")
        scores = scores.loc[list(dict.fromkeys(choice["tested"])), list(dict.fromkeys(choice["method"]))]
        seeing = choice.groupby("method")["sees_batch"].sum().astype(int)
        found = judge(scores, by_batch=by_batch, sees_batch=list(seeing.index[seeing > 0]))
        about = choice.groupby("method")["candidates"].max()
        table = table_of(scores).set_index("method").assign(whole_batch=seeing, candidates=about)
        names = table.index.map(TITLES)
        notes = [*notes, *_missed(choice, found.method or REFERENCE, by_batch=by_batch)]
        return cls(
            table.set_axis(names),
            found.sentence,
            found.outlook,
            None if found.method is None else TITLES[found.method],
            "",
            scores.T.set_axis(names).rename_axis(index="method", columns=None),
            choice.assign(method=choice["method"].map(TITLES)),
            counts,
            by_batch,
            tuple(notes),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it.

        Returns
        -------
        dict
            The fields; tables as lists of rows, numbers that are not there as None.
        """
        plain = {name: getattr(self, name) for name in ("verdict", "outlook", "method", "command", "by_batch")}
        frames = {
            "table": self.table.reset_index(),
            "batches": self.batches.reset_index(),
            "choices": self.choices,
            "counts": self.counts.reset_index(),
        }
        rows = {
            name: [{str(key): _plain(value) for key, value in row.items()} for row in frame.to_dict("records")]
            for name, frame in frames.items()
        }
        return {**plain, "notes": list(self.notes), **rows}

    def shown(self) -> pd.DataFrame:
        """The table for people: accuracy on each batch, mean, difference.

        Returns
        -------
        DataFrame
            Texts, a row per method. Of many batches lowest and highest stand for all.
        """
        wide = self.batches.round(1) if self.batches.shape[1] <= MOST_BATCHES else self.table[["lowest", "highest"]]
        cells = wide.map(lambda value: f"{value:.1f}")
        n = self.batches.shape[1]
        gaps = [
            "" if np.isnan(row.difference) else in_words(row) + (" *" if row.beats else "")
            for row in self.table.itertuples()
        ]
        whole = [f"{k} of {n}" if k else "" for k in self.table["whole_batch"]]
        means = self.table["mean"].map(lambda value: f"{value:.1f}")
        return cells.assign(**{"mean": means, "difference": gaps, "whole batch": whole})

    def plot(self, ax: Any = None) -> Any:
        """Balanced accuracy of every method but the majority class: a point for each batch left out, and their mean.

        Parameters
        ----------
        ax
            Axes of matplotlib to draw on; None for new ones.

        Returns
        -------
        Axes
            Of matplotlib.
        """
        from matplotlib.figure import Figure

        shown = self.batches.drop(index=TITLES[MAJORITY])
        if ax is None:
            ax = Figure(figsize=(7, 0.8 + 0.28 * len(shown)), layout="constrained").subplots()
        for place, (name, row) in enumerate(shown.iterrows()):
            ours = str(name).startswith("GSAT")
            ax.plot(row, np.full(len(row), place), "o", color="#1c38b7" if ours else "#606772", alpha=0.45, ms=5)
            ax.plot([row.mean()], [place], "|", color="black", ms=14, mew=2)
        reference = shown.loc[TITLES[REFERENCE]].mean()
        ax.axvline(reference, color="#966b00", lw=1, ls="--", label="mean of logistic regression")
        ax.set_yticks(range(len(shown)), shown.index)
        ax.invert_yaxis()
        ax.set_xlabel(f"balanced accuracy in each {'batch' if self.by_batch else 'fold'} left out, %")
        ax.legend(loc="lower left", fontsize="small")
        return ax

    def __str__(self) -> str:
        what = "batches never seen" if self.by_batch else "random samples, left out"
        lines = [f"balanced accuracy in percent on {what} ({self.batches.shape[1]} in turn)", ""]
        shown = self.shown()
        shown.index = shown.index.rename(None)
        lines += [shown.to_string(), "", FOOTNOTE, "", self.verdict]
        lines += [self.outlook] if self.outlook else []
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"CheckResult({self.verdict!r}, {self.batches.shape[1]} left out, {len(self.table)} methods)"

    def _repr_html_(self) -> str:
        texts = [self.verdict, self.outlook, *self.notes]
        head = f"<p><strong>{escape(texts[0])}</strong> {escape(texts[1])}</p>"
        notes = "".join(f"<li>{escape(note)}</li>" for note in texts[2:])
        code = f"<pre>{escape(self.command)}</pre>" if self.command else ""
        table = self.shown().to_html(border=0)
        return f"{head}{table}<p><small>{escape(FOOTNOTE)}</small></p><ul>{notes}</ul>{code}"


def _missed(choice: pd.DataFrame, method: str, *, by_batch: bool) -> list[str]:
    """Classes that the advised method never recognises, which a mean over classes hides."""
    rows = choice[(choice["method"] == method) & (choice["missed"] != "")]
    what = "batch " if by_batch else ""
    return [
        f"{TITLES[method][0].upper()}{TITLES[method][1:]} recognises no sample of class {row.missed} where "
        f"{what}{row.tested} is left out."
        for row in rows.itertuples()
    ]


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not np.isfinite(value) else value
