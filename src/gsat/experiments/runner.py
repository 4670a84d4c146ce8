"""Runs experiments: pieces in any order, several at a time, each kept in a file; then a folder for each experiment."""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import joblib
import pandas as pd
import torch
from tqdm.auto import tqdm

from gsat.experiments.plan import Experiment, Order, Outcome, Piece, Place, read_config

TITLE = "Group-structured adversarial training, reproduced"
WORK = "work"  # in the folder of all results: models and finished pieces
BAR = "{percentage:3.0f} %|{bar}| {elapsed}, left: {remaining}  {postfix}"


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


def run(pieces: Sequence[Piece], place: Place, *, jobs: int = 1, progress: bool = False) -> list[pd.DataFrame]:
    """The rows of all pieces, in their order; with jobs > 1 several at a time, one core each."""
    waiting = [piece for piece in pieces if not piece.done(place)]
    together = [piece for piece in waiting if jobs > 1 and not piece.alone]
    with _bar(sum(piece.effort for piece in waiting), progress) as advance:
        calls = (joblib.delayed(_run_on_one_core)(piece, place) for piece in together)
        for piece in joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(calls):
            advance(piece)
        for piece in waiting:
            if piece not in together:
                piece.run(place)
                advance(piece)
    return [piece.run(place) for piece in pieces]


def _run_on_one_core(piece: Piece, place: Place) -> Piece:
    torch.set_num_threads(1)
    piece.run(place)
    return piece


@contextmanager
def _bar(total: float, progress: bool) -> Iterator[Callable[[Piece], None]]:
    """One bar for all pieces, which advances by their effort, so that the time left is that of the work left."""
    with tqdm(total=total, disable=not progress, unit_scale=True, bar_format=BAR) as bar:

        def advance(piece: Piece) -> None:
            bar.set_postfix_str(piece.name, refresh=False)
            bar.update(piece.effort)

        yield advance


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
