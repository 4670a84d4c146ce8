"""How objects show themselves: a line of text, a card of HTML in a notebook, and axes that leave no pyplot state."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import Any

ROWS, COLUMNS = 20, 12  # of a table in a card, at the most
CELL, HEAD = "padding:0.1em 0.8em 0.1em 0;text-align:left;", "font-weight:normal;opacity:0.7;"


@dataclass(frozen=True)
class Card:
    """What an object says of itself.

    Parameters
    ----------
    line
        A line of text, for its repr.
    facts
        Words and what they are, for the card in a notebook; None is left out.
    tables
        Captions and DataFrames.
    """

    line: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)


class Shown:
    """An object whose repr and whose HTML are made of its card."""

    def _card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._card().line})"

    def _repr_html_(self) -> str:
        """What notebooks show; all text in it is escaped."""
        card = self._card()
        facts = [f"<tr>{_th(name)}{_td(value)}</tr>" for name, value in card.facts.items() if value is not None]
        tables = [_table(caption, frame) for caption, frame in card.tables.items()]
        about = f"<table>{''.join(facts)}</table>" if facts else ""
        return f"<div><strong>{escape(type(self).__name__)}</strong> {escape(card.line)}{about}{''.join(tables)}</div>"


def words(value: Any) -> str:
    """A value as text: numbers with four digits, several values with commas, nothing for what is not there."""
    if isinstance(value, list | tuple):
        return ", ".join(words(each) for each in value)
    value = value.item() if hasattr(value, "item") else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(caption: str, frame: Any) -> str:
    """The first rows of a DataFrame, folded in."""
    head = "".join(_th(name) for name in frame.columns[:COLUMNS])
    rows = ("".join(map(_td, row)) for row in frame.iloc[:ROWS, :COLUMNS].itertuples(index=False, name=None))
    n, d = (max(0, size - most) for size, most in zip(frame.shape, (ROWS, COLUMNS), strict=True))
    more = f"<p>and {n} more rows, {d} more columns</p>" if n or d else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<details><summary>{escape(caption)}</summary><table><tr>{head}</tr>{body}</table>{more}</details>"


def _th(name: Any) -> str:
    return f'<th style="{CELL}{HEAD}">{escape(str(name))}</th>'


def _td(value: Any) -> str:
    return f'<td style="{CELL}">{escape(words(value))}</td>'


@contextmanager
def drawing(ax: Any, show: bool | None, size: tuple[float, float] = (6.4, 4.2), **grid: Any) -> Iterator[Any]:
    """Matplotlib axes to draw on: those given, or new ones; afterwards the figure is shown where that is wanted.

    Parameters
    ----------
    ax
        Axes, or None for new ones, in a figure that pyplot does not keep.
    show
        Whether the figure is shown; None: in a notebook, where no axes are given.
    size
        Width and height of a new figure, in inches.
    **grid
        Of matplotlib's Figure.subplots.

    Yields
    ------
    Axes
        Those given, or what Figure.subplots returns.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    notebook = _notebook()
    show = ax is None and notebook if show is None else show
    in_window = show and not notebook
    if in_window:
        from matplotlib import pyplot
    made: Any = None
    if ax is None:
        made = (pyplot.figure if in_window else Figure)(figsize=size, layout="constrained")
        if not in_window:
            FigureCanvasAgg(made)
    try:
        yield ax if made is None else made.subplots(**grid)
        if in_window:
            pyplot.show()
        elif show:
            _display(ax.figure if made is None else made)
    finally:
        if in_window and made is not None:
            pyplot.close(made)


def _notebook() -> bool:
    """Whether this runs in a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


def _display(figure: Any) -> None:
    """Show a figure below the cell of a notebook."""
    shown = import_module("IPython.display")
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=100)
    shown.display(shown.Image(data=stream.getvalue()))
