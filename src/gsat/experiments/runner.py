"""Runs experiments: pieces in any order, several at a time, each kept in a file; then a folder for each experiment."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
from tqdm.auto import tqdm

from gsat import __version__
from gsat._files import locked, remove_dead_drafts, replace_file, whole_folder, write_durably
from gsat.experiments.age import code_of, digest
from gsat.experiments.plan import Experiment, Order, Outcome, Piece, Place, read_config
from gsat.training.threads import use_threads

TITLE = "Group-structured adversarial training, reproduced"
WORK = "work"  # in the folder of all results: models and finished pieces
BAR = "{percentage:3.0f} %|{bar}| {elapsed}, left: {remaining}  {postfix}"


def reproduce(
    order: Order,
    *,
    data_dir: Path | None = None,
    jobs: int = 1,
    threads: int | None = None,
    progress: bool = False,
) -> dict[str, Outcome]:
    """Run what is not done yet, and write the folder of each experiment; the caller has the folder to himself."""
    place = Place(order.out / WORK, data_dir)
    pieces = {piece.key: piece for experiment in order.experiments for piece in order.pieces(experiment)}

    def keep(piece: Piece) -> None:
        replace_file(_made_by(piece, place), digest(piece.work.__module__).encode())

    run(list(pieces.values()), place, jobs=jobs, threads=threads, progress=progress, finished=keep)
    outcomes = {}
    for experiment in order.experiments:
        rows = pd.concat([piece.run(place) for piece in order.pieces(experiment)], ignore_index=True)
        outcomes[experiment.name] = experiment.finish(rows, order.scale)
        _write(order, experiment, outcomes[experiment.name], _threads(jobs, threads), _code(order, experiment, place))
    about = {"title": TITLE, **read_config(order.out)}
    before = about.get("sections")
    about["sections"] = list(dict.fromkeys([*map(str, before if isinstance(before, list) else []), *outcomes]))
    replace_file(order.out / "config.json", (json.dumps(about) + "\n").encode())
    return outcomes


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """A block with the folder of all results to oneself, cleared of what dead processes left in it."""
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        for folder in (out, out / WORK / "pieces", out / WORK / "models"):
            remove_dead_drafts(folder)
        yield


def run(
    pieces: Sequence[Piece],
    place: Place,
    *,
    jobs: int = 1,
    threads: int | None = None,
    progress: bool = False,
    told: Callable[[Piece], None] | None = None,
    finished: Callable[[Piece], None] = lambda piece: None,
) -> list[pd.DataFrame]:
    """The rows of all pieces, in their order; with jobs > 1 several at a time, one core each unless threads are given.

    Those that run by themselves take the threads that are given, or as many as torch does. With `told` the caller has
    a bar of his own, and is told of every piece that is finished; `finished` is called beside a bar too.
    """
    use_threads(threads)
    waiting = [piece for piece in pieces if not piece.done(place)]
    together = [piece for piece in waiting if jobs > 1 and not piece.alone]
    own = bar(sum(piece.effort for piece in waiting), progress) if told is None else nullcontext(told)
    with own as advance:
        calls = (joblib.delayed(_run_beside_others)(piece, place, _threads(jobs, threads)) for piece in together)
        for piece, content in joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(calls):
            if not piece.done(place):  # a machine of a cluster that has a disk of its own
                piece.keep(content, place)
            finished(piece)
            advance(piece)
        for piece in waiting:
            if piece not in together:
                piece.run(place)
                finished(piece)
                advance(piece)
    return [piece.run(place) for piece in pieces]


def _threads(jobs: int, threads: int | None) -> int:
    """The threads of a piece: those that are given, one where several run at a time, else those of torch."""
    return threads or (1 if jobs > 1 else use_threads(None))


def _run_beside_others(piece: Piece, place: Place, threads: int) -> tuple[Piece, bytes]:
    use_threads(threads)
    return piece, piece.content(place)


@contextmanager
def bar(total: float, progress: bool) -> Iterator[Callable[[Piece], None]]:
    """One bar for all pieces, which advances by their effort, so that the time left is that of the work left."""
    with tqdm(total=total, disable=not progress, unit_scale=True, bar_format=BAR) as shown:

        def advance(piece: Piece) -> None:
            shown.set_postfix_str(piece.name, refresh=False)
            shown.update(min(piece.effort, total - shown.n))  # rounding must not lead beyond the end

        yield advance


def _made_by(piece: Piece, place: Place) -> Path:
    """The file that says of which code a finished piece is."""
    return place.work / "pieces" / f"{piece.key}.code"


def _code(order: Order, experiment: Experiment, place: Place) -> dict[str, Any]:
    """What config.json keeps of the code: that which is there now, and how many pieces were made by other code."""
    pieces = order.pieces(experiment)
    files = [(_made_by(piece, place), digest(piece.work.__module__)) for piece in pieces]
    others = sum(not path.exists() or path.read_text(encoding="utf-8") != now for path, now in files)
    return {**code_of(pieces[0].work.__module__), "pieces_of_other_code": others}


def _write(order: Order, experiment: Experiment, outcome: Outcome, threads: int, code: dict[str, Any]) -> None:
    """The folder of the experiment, whole or not at all."""
    config = {
        "title": experiment.title,
        "command": order.command(experiment),
        "paper": experiment.paper,
        "headline": outcome.headline,
        **outcome.config,
        "scale": order.scale.name,
        "threads": threads,
        "identity": order.identity(experiment),
        **({"own_data": own} if (own := order.own(experiment)) else {}),
        "versions": {"python": platform.python_version(), "gsat": __version__, "torch": version("torch")},
        "code": code,
    }
    files = {"config.json": (json.dumps(config, indent=1, ensure_ascii=False) + "\n").encode(), **outcome.pictures}
    for name, table in outcome.tables.items():
        files[f"{name}.csv"] = table.to_csv(index=False, float_format="%.6g").encode()
    with whole_folder(order.out / experiment.name) as draft:
        for name, content in files.items():
            write_durably(draft / name, content)
