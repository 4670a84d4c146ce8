"""Data sets that are one .npz file: all its arrays, once their sum is right."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from gsat.data.catalogue import KNOWN
from gsat.data.files import needed, same_sum
from gsat.data.readers.npz import Arrays, all_arrays
from gsat.data.table import content_checksum


def arrays(name: str, folder: Path | None, only: Container[str] | None = None) -> tuple[Arrays, str]:
    """The arrays of a data set that is one .npz file, by name, and the sum of their content, which is checked.

    With `only`, those of these names that are there; the others are neither read nor part of the sum.
    """
    (path,) = needed(name, folder)
    found = all_arrays(path, only)
    checksum = content_checksum(*found.values())
    same_sum(path, checksum, KNOWN[name].sums[path.stem])
    return found, checksum
