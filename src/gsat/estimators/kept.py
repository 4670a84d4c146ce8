"""Scores of candidates on folds, kept as lines of a file, so that a choice that was stopped goes on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import joblib

from gsat._files import append_line, parse_json, read_bytes

Score = tuple[float, float, float]  # balanced accuracy, cross-entropy and seconds


class Kept:
    """The scores that are known, by the key of candidate and fold; the samples X are not in it, and must be the same.

    Parameters
    ----------
    path
        The file whose lines they are; None keeps them in memory alone. Lines that are no scores, such as one that a
        kill cut off, count as not there.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.scores: dict[str, Score] = {}
        for line in read_bytes(path).split(b"\n") if path is not None and path.exists() else []:
            try:
                entry = parse_json(str(path), line)
                values = [float(entry[name]) for name in ("accuracy", "loss", "seconds")]
                if all(map(math.isfinite, values)):
                    self.scores[str(entry["key"])] = (values[0], values[1], values[2])
            except (ValueError, TypeError, KeyError):
                continue

    @staticmethod
    def key(candidate: Any, *about: Any) -> str:
        """What tells a candidate with its parameters, labels, batches, groups and rows from others."""
        return str(joblib.hash((type(candidate).__name__, candidate.get_params(deep=False), about)))

    def add(self, key: str, score: Score) -> None:
        """Take a score over, as a line of its own, whole or not at all."""
        self.scores[key] = score
        if self.path is not None:
            entry = {"key": key, **dict(zip(("accuracy", "loss", "seconds"), score, strict=True))}
            append_line(self.path, json.dumps(entry).encode())
