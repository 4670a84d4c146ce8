"""Which samples a run was trained on, by id and by content, so that nobody takes their prediction for a test."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LONG = 8  # bytes of the digest of a sample


def digests(rows: Iterable[NDArray[Any]]) -> list[str]:
    """A digest of the float32 numbers of each sample, in hexadecimal.

    Parameters
    ----------
    rows
        Samples (d,), features in the order of the model.

    Returns
    -------
    list of str
        Equal for equal samples.
    """
    return [
        hashlib.blake2b(np.ascontiguousarray(row, np.float32).tobytes(), digest_size=LONG).hexdigest() for row in rows
    ]


def content(rows: Iterable[NDArray[Any]], ids: Sequence[Any] | None) -> dict[str, Any]:
    """What trained_on.json holds of the training samples: their ids, or None, and their digests."""
    return {"ids": None if ids is None else [str(each) for each in ids], "digests": digests(rows)}


def trained_on(known: Any, rows: Iterable[NDArray[Any]], ids: Sequence[Any] | None) -> str | None:
    """What a user should know of samples that were trained on; None where there are none.

    Parameters
    ----------
    known
        What trained_on.json holds.
    rows, ids
        The samples that are predicted.

    Returns
    -------
    str or None
        A sentence.
    """
    if not isinstance(known, dict) or not isinstance(known.get("digests"), list):
        return None
    before = {each for each in known["digests"] if isinstance(each, str)}
    same = np.array([each in before for each in digests(rows)], dtype=bool)
    names = {each for each in known.get("ids") or () if isinstance(each, str)}
    named = np.array([str(each) in names for each in ids], dtype=bool) if ids is not None else np.zeros(len(same), bool)
    only_named = int((named & ~same).sum())
    if not same.any() and only_named == 0:
        return None
    parts = [f"{same.sum()} of {len(same)} samples were trained on (the same values)"] if same.any() else []
    if only_named:
        parts.append(f"{only_named} of {len(same)} samples have the id of a training sample, with other values")
    return f"{'; '.join(parts)}: how well they are predicted says nothing about new samples"
