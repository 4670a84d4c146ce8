"""What a training run records: one Step a group, kept in memory and, for a run with a folder, in log.jsonl."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gsat import _checks
from gsat._files import parse_json, read_bytes, replace_file
from gsat._show import Card, Shown, drawing, words

TOLD = 5  # numbers of damaged lines that are told
AXES = {  # what a history can be drawn of
    "loss": "mean loss on the perturbed group",
    "mean_norm": "mean ‖δ‖",
    "lam": "λ",
    "measure": "columns that move, or rank",
    "learning_rate": "learning rate",
    "validation": "robust accuracy on held-out samples",
    "validation_loss": "robust loss on held-out samples",
}


@dataclass(frozen=True)
class Step:
    """One outer step.

    Parameters
    ----------
    t
        The number of the step, from 0.
    loss
        The mean loss on the perturbed group.
    mean_norm
        The mean ‖δ_i‖₂.
    lam
        λ, for GSAT alone.
    measure
        Columns that move, or rank, where the structure has such a number.
    learning_rate
        That of the first group of weights.
    validation, validation_loss
        Robust accuracy or robust loss on held-out samples, where it was measured in this step.
    """

    t: int
    loss: float
    mean_norm: float = 0.0
    lam: float | None = None
    measure: float | None = None
    learning_rate: float | None = None
    validation: float | None = None
    validation_loss: float | None = None


@dataclass(repr=False)
class History(Shown):
    """The recorded steps, the λ that the run arrived at, and how it ended.

    Parameters
    ----------
    steps
        The recorded steps.
    lam, mean_norm
        Their means over the last tenth of the steps; mean_norm is what a norm-matched baseline gets as its eps.
    used
        What the adversary used of its budget over the last tenth, 1 where it met it; None without a budget.
    stopped_early, best_validation
        Whether patience was over, and the best robust accuracy, or loss where that was measured.

    Examples
    --------
    >>> from gsat.training import History, Step
    >>> history = History([Step(0, loss=1.2), Step(1, loss=0.9)], lam=0.5)
    >>> history
    History(2 steps, loss 1.2 to 0.9, λ = 0.5)
    >>> history.plot().get_xlabel()
    'step'
    """

    steps: list[Step] = field(default_factory=list)
    lam: float | None = None
    mean_norm: float = 0.0
    used: float | None = None
    stopped_early: bool = False
    best_validation: float | None = None

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: int) -> Step:
        return self.steps[index]

    def columns(self) -> dict[str, list[Any]]:
        """The steps as columns, for pandas.DataFrame(history.columns())."""
        records = [asdict(step) for step in self.steps]
        return {name: [record[name] for record in records] for name in Step.__dataclass_fields__}

    def _card(self) -> Card:
        if not self.steps:
            return Card("no steps")
        first, last = self.steps[0], self.steps[-1]
        price = "" if self.lam is None else f", λ = {words(self.lam)}"
        line = f"{len(self)} steps, loss {words(first.loss)} to {words(last.loss)}{price}"
        facts = {
            "steps": len(self),
            "loss of the first and of the last": [first.loss, last.loss],
            "mean ‖δ‖, last tenth": self.mean_norm,
            "λ, last tenth": self.lam,
            "share of the budget used": self.used,
            "stopped early": "yes" if self.stopped_early else "no",
            "best validation": self.best_validation,
        }
        return Card(line, facts)

    def plot(self, measure: str = "loss", *, ax: Any = None, show: bool | None = None) -> Any:
        """Draw what was recorded against the step.

        Parameters
        ----------
        measure
            "loss", "mean_norm", "lam", "measure", "learning_rate", "validation" or "validation_loss".
        ax
            Matplotlib axes; None for new ones.
        show
            Whether the figure is shown; None: in a notebook, where no axes are given.

        Returns
        -------
        Axes
            Those given, or new ones, which pyplot does not keep.
        """
        _checks.one_of("measure", measure, tuple(AXES))
        points = [(step.t, value) for step in self.steps if (value := getattr(step, measure)) is not None]
        if not points:
            known = [name for name in AXES if any(getattr(step, name) is not None for step in self.steps)]
            raise ValueError(
                f"measure must be one that was recorded ({words(known) or 'there is none'}), got {measure!r}"
            )
        with drawing(ax, show) as ax:
            ax.plot(*zip(*points, strict=True), marker="o" if len(points) <= 20 else None, ms=4)
            ax.set_xlabel("step")
            ax.set_ylabel(AXES[measure])
            ax.grid(alpha=0.3)
        return ax


def cut_back(path: Path, n_steps: int, *, every: int = 1) -> list[Step]:
    """Keep the lines of log.jsonl of the first n_steps steps, drop what a killed run wrote after its checkpoint.

    A damaged line is told with its number and kept in log.jsonl.damaged; only the last line, if it was being written
    when the run was killed after its checkpoint, is dropped without a word. Every `every`-th step should be there.
    Returns the steps that are left; where there is no log, an empty one is made.
    """
    *lines, rest = read_bytes(path).split(b"\n") if path.exists() else [b""]
    read = [(number, line, _step(line)) for number, line in enumerate([*lines, *filter(None, [rest])], 1)]
    steps = [step for _, _, step in read if step is not None and step.t < n_steps]
    damaged = [(number, line) for number, line, step in read if step is None]
    lost = sorted({*range(0, n_steps, every)} - {step.t for step in steps})
    if rest and damaged and damaged[-1][0] == len(read) and not lost:
        damaged.pop()
    told = []
    if damaged:
        aside = path.with_name(f"{path.name}.damaged")
        before = aside.read_bytes() if aside.exists() else b""
        replace_file(aside, before + b"".join(line + b"\n" for _, line in damaged))
        numbers = ", ".join(str(number) for number, _ in damaged[:TOLD])
        more = f" and {len(damaged) - TOLD} more" if len(damaged) > TOLD else ""
        told.append(f"line {numbers}{more} is damaged and kept in {aside.name}")
    if lost:
        told.append(f"{len(lost)} of the {n_steps} steps that are done are missing, the first is {lost[0]}")
    replace_file(path, "".join(json.dumps(asdict(step)) + "\n" for step in steps).encode())
    if told:
        warnings.warn(f"{path}: {'; '.join(told)}", UserWarning, stacklevel=2)
    return steps


def _step(line: bytes) -> Step | None:
    """The step that a line of the log records; None where the line is damaged."""
    try:
        step = Step(**parse_json("line", line))
    except (ValueError, TypeError):
        return None
    numbers = [value for name, value in asdict(step).items() if name != "t" and value is not None]
    whole = isinstance(step.t, int) and not isinstance(step.t, bool) and step.t >= 0
    return step if whole and all(type(value) in (int, float) for value in numbers) else None
