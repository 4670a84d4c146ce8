"""What a command says of the samples before anything is trained."""

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
