"""The parts of an experiment: each is run once, in any order, several at a time, and kept in a file when it is done."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import torch
from tqdm.auto import tqdm

from gsat._files import replace_file


@dataclass(frozen=True)
class Place:
    """Where a piece finds the data, and the folder in which it may keep models and finished evaluations."""

    work: Path
    data_dir: Path | None = None


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

    def run(self, place: Place) -> pd.DataFrame:
        """The rows, from the file if the piece is done."""
        path = place.work / "pieces" / f"{self.key}.csv"
        if not path.exists():
            found = self.work(place, **self.arguments)
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, found.to_csv(index=False).encode())
        return pd.read_csv(io.BytesIO(path.read_bytes()), keep_default_na=False, na_values=[""])

    def done(self, place: Place) -> bool:
        """Whether the file is there."""
        return (place.work / "pieces" / f"{self.key}.csv").exists()


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


BAR = "{percentage:3.0f} %|{bar}| {elapsed}, left: {remaining}  {postfix}"


def _described(value: Any) -> Any:
    """Dataclasses and paths as JSON."""
    if hasattr(value, "describe"):
        return value.describe()
    raise TypeError(f"an argument of a piece must be JSON or have describe(), got {type(value).__name__}")
