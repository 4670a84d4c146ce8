"""What an experiment consists of: pieces that are each run once, and an outcome that is made of their rows."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from gsat._files import read_json, replace_file
from gsat.experiments.own_data import USED_BY

if TYPE_CHECKING:
    from gsat.experiments.setting import Scale


@dataclass(frozen=True)
class Place:
    """Where a piece finds the data, and the folder in which it may keep models and finished evaluations.

    subject: samples in memory, for pieces that read no data set; their arguments say which by a checksum
    """

    work: Path
    data_dir: Path | None = None
    subject: Any = None


@dataclass(frozen=True)
class Piece:
    """A call of a function of a module, whose rows depend on nothing but the arguments and the data.

    name:      what the progress bar shows
    work:      called as work(place, **arguments)
    arguments: as JSON can hold them, or dataclasses with a `describe` method
    effort:    seconds on one core, roughly; the time left is estimated from it
    alone:     nothing else may run beside it, because it measures time
    """

    name: str
    work: Callable[..., pd.DataFrame]
    arguments: dict[str, Any] = field(default_factory=dict)
    effort: float = 1.0
    alone: bool = False

    @property
    def key(self) -> str:
        """A name for the file: the same for the same call."""
        called = [self.work.__module__, self.work.__qualname__, self.arguments]
        return hashlib.sha256(json.dumps(called, default=_described, sort_keys=True).encode()).hexdigest()[:20]

    def describe(self) -> str:
        """The piece as an argument of another."""
        return self.key

    def run(self, place: Place) -> pd.DataFrame:
        """The rows, from the file if the piece is done."""
        return pd.read_csv(io.BytesIO(self.content(place)), keep_default_na=False, na_values=[""])

    def content(self, place: Place) -> bytes:
        """What the file holds; the piece is run where there is none."""
        if not self.done(place):
            self.keep(self.work(place, **self.arguments).to_csv(index=False).encode(), place)
        return self.path(place).read_bytes()

    def keep(self, content: bytes, place: Place) -> None:
        """Write the file, whole or not at all."""
        self.path(place).parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.path(place), content)

    def done(self, place: Place) -> bool:
        """Whether the file is there."""
        return self.path(place).exists()

    def path(self, place: Place) -> Path:
        """The file of the rows."""
        return place.work / "pieces" / f"{self.key}.csv"


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    tables:   written as NAME.csv; "results", "chosen", "differences" and "timing" are those of docs/report.md
    headline: the figures that stand beside the paper's, in one line
    config:   "protocol" (how hyper-parameters were chosen, on how many seeds), "notes", "report" as in docs/report.md
    pictures: PNG files by name
    """

    tables: Mapping[str, pd.DataFrame]
    headline: str
    config: Mapping[str, Any]
    pictures: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A figure, a table or a claim of the paper.

    paper:  what the paper reports, in one line
    pieces: of a scale and a number of seeds (None: as many as the scale says)
    finish: from the rows of all pieces
    """

    name: str
    title: str
    paper: str
    pieces: Callable[[Scale, int | None], list[Piece]]
    finish: Callable[[pd.DataFrame, Scale], Outcome]


@dataclass(frozen=True)
class Order:
    """Which experiments, how large, and where to: the folder `out` gets one folder for each."""

    experiments: Sequence[Experiment]
    scale: Scale
    seeds: int | None
    out: Path

    def pieces(self, experiment: Experiment) -> list[Piece]:
        """Those of one experiment."""
        return experiment.pieces(self.scale, self.seeds)

    def in_the_way(self) -> list[Path]:
        """The folders that hold results of another scale, or something else."""
        return [path for e in self.experiments if (path := self.out / e.name).exists() and not self._is_same(path, e)]

    def _is_same(self, path: Path, experiment: Experiment) -> bool:
        return read_config(path).get("identity") == self.identity(experiment)

    def identity(self, experiment: Experiment) -> str:
        """The same for the same pieces."""
        return hashlib.sha256("".join(piece.key for piece in self.pieces(experiment)).encode()).hexdigest()[:16]

    def command(self, experiment: Experiment) -> str:
        """What makes the results."""
        seeds = "" if self.seeds is None else f" --seeds {self.seeds}"
        size = "--quick" if self.scale.name == "quick" else f"--scale {self.scale.name}"
        tasks = "" if self.scale.tasks is None else f" --tasks {','.join(self.scale.tasks)}"
        solver = "" if self.scale.solver is None else f" --solver {self.scale.solver}"
        own = " --data-dir FOLDER" if self.own(experiment) else ""
        return f"gsat reproduce {experiment.name} {size}{seeds}{tasks}{solver}{own}"

    def own(self, experiment: Experiment) -> dict[str, str]:
        """The user's own data that the experiment uses, with the sums of their files."""
        used = USED_BY.get(experiment.name, ())
        return {name: checksum for name, checksum in self.scale.own.items() if name in used}


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a folder; {} where there is none that can be read."""
    try:
        found = read_json(folder / "config.json")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _described(value: Any) -> Any:
    """Dataclasses and paths as JSON."""
    if hasattr(value, "describe"):
        return value.describe()
    raise TypeError(f"an argument of a piece must be JSON or have describe(), got {type(value).__name__}")
