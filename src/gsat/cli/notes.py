"""What a command says of the samples before anything is trained, and of the course of the training after it."""

from __future__ import annotations

import math
from typing import Any

from gsat.cli.app import note, warn


def told_of(table: Any, normalise: str, *, pixels: bool, is_file: bool, held_out: Any = None) -> list[str]:
    """Say what makes a result doubtful, and return it; the features of a file are told."""
    from gsat.data.doubts import before_training
    from gsat.data.headings import in_words

    if is_file:
        n_features = math.prod(table.X.shape[1:])
        note(f"features {in_words(table.feature_names, n_features)}")
    found = before_training(table, held_out, normalise, pixels=pixels)
    for warning in found:
        warn(warning)
    return found


def course(trained: Any, *, calibrate: bool, as_json: bool) -> dict[str, Any]:
    """How the training of a single model went; people are not told of an adversary or a price that there was not."""
    history = trained.history
    found = {"steps": len(history), "loss": history[-1].loss}
    if as_json or history.mean_norm:
        found["mean_norm"] = history.mean_norm
    if as_json or history.lam is not None:
        found["lam"] = history.lam
    return found | ({"temperature": trained.classifier.temperature_} if calibrate else {})


def left_out(table: Any, frames: dict[str, Any]) -> dict[str, str]:
    """What became of the samples without a label or a batch."""
    if not table.left_out:
        return {}
    what = "predicted in unlabelled.csv" if "unlabelled.csv" in frames else "left out"
    return {"unlabelled": f"{table.left_out} samples without a label or a batch, {what}"}
