"""What a training run records: one Step a group, kept in memory and, for a run with a folder, in log.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gsat._files import replace_file


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
    validation
        Robust accuracy, where it was measured in this step.
    """

    t: int
    loss: float
    mean_norm: float = 0.0
    lam: float | None = None
    measure: float | None = None
    learning_rate: float | None = None
    validation: float | None = None


@dataclass
class History:
    """The recorded steps, the λ that the run arrived at, and how it ended.

    Parameters
    ----------
    steps
        The recorded steps.
    lam, mean_norm
        Their means over the last tenth of the steps; mean_norm is what a norm-matched baseline gets as its eps.
    stopped_early, best_validation
        Whether patience was over, and the best robust accuracy.
    """

    steps: list[Step] = field(default_factory=list)
    lam: float | None = None
    mean_norm: float = 0.0
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


def cut_back(path: Path, n_steps: int) -> list[Step]:
    """Keep the lines of log.jsonl of the first n_steps steps, drop what a killed run wrote after its checkpoint.

    Returns the steps that are left; where there is no log, an empty one is made.
    """
    steps = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            step = Step(**json.loads(line))
        except (ValueError, TypeError):
            break  # the line that was being written when the run was killed
        if step.t >= n_steps:
            break
        steps.append(step)
    replace_file(path, "".join(json.dumps(asdict(step)) + "\n" for step in steps).encode())
    return steps
