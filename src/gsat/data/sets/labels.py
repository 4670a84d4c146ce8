"""labels.csv as UCI has it: a header, then a sample's id and its label on each line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.readers.text import MISSING, text_rows

COLUMNS = 2


def labels_of(path: Path, ids: Sequence[Any]) -> NDArray[np.str_]:
    """The label of each of the samples, by their ids; the file may hold others, and in any order."""
    rows = text_rows(path, ",")
    _, header = next(rows)
    if len(header) != COLUMNS:
        raise ValueError(f"{path} must have two columns, the ids of samples and their labels, got {len(header)}")
    label_of: dict[str, str] = {}
    for line, (sample, label) in rows:
        if sample in label_of:
            raise ValueError(f"{path}, line {line} must be of another sample than the lines above, got {sample}")
        if label.strip() in MISSING:
            raise ValueError(f"{path}, line {line} must have a label for {sample}, got {label!r}")
        label_of[sample] = label
    without = [str(sample) for sample in ids if str(sample) not in label_of]
    if without:
        raise ValueError(
            f"{path} must have a label for each of the {len(ids)} samples, got none for {len(without)}, "
            f"the first {without[0]!r}"
        )
    return np.array([label_of[str(sample)] for sample in ids])
