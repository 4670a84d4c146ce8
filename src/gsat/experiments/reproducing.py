"""Experiments by name: run in pieces, and finished into a folder that a report shows."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from gsat.experiments.pieces import Piece, Place, run
from gsat.experiments.scales import Scale

TITLE = "Group-structured adversarial training, reproduced"
WORK = "work"  # in the folder of all results: models and finished pieces


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
        return f"gsat reproduce {experiment.name} {size}{seeds}"


def reproduce(
    order: Order, *, data_dir: Path | None = None, jobs: int = 1, progress: bool = False
) -> dict[str, Outcome]:
    """Run what is not done yet, and write the folder of each experiment."""
    place = Place(order.out / WORK, data_dir)
    pieces = {piece.key: piece for experiment in order.experiments for piece in order.pieces(experiment)}
    run(list(pieces.values()), place, jobs=jobs, progress=progress)
    outcomes = {}
    for experiment in order.experiments:
        rows = pd.concat([piece.run(place) for piece in order.pieces(experiment)], ignore_index=True)
        outcomes[experiment.name] = experiment.finish(rows, order.scale)
        _write(order, experiment, outcomes[experiment.name])
    about = {"title": TITLE, **read_config(order.out)}
    about["sections"] = list(dict.fromkeys([*about.get("sections", []), *outcomes]))
    (order.out / "config.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
    return outcomes


def _write(order: Order, experiment: Experiment, outcome: Outcome) -> None:
    """The folder of the experiment, whole or not at all."""
    folder, new = order.out / experiment.name, order.out / f".{experiment.name}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    config = {
        "title": experiment.title,
        "command": order.command(experiment),
        "paper": experiment.paper,
        "headline": outcome.headline,
        **outcome.config,
        "scale": order.scale.name,
        "identity": order.identity(experiment),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("gsat", "torch")}},
    }
    (new / "config.json").write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, table in outcome.tables.items():
        table.to_csv(new / f"{name}.csv", index=False, float_format="%.6g")
    for name, content in outcome.pictures.items():
        (new / name).write_bytes(content)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a folder; {} where there is none that can be read."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
