"""load(): a data set by its name."""

from __future__ import annotations

import os
from pathlib import Path

from gsat.data.bundled import digits
from gsat.data.images import mnist
from gsat.data.table import Table

BUNDLED = {"digits": digits}
FROM_FILES = {"mnist": mnist}


def names() -> tuple[str, ...]:
    """The names that `load` knows."""
    return (*BUNDLED, *FROM_FILES)


def load(name: str, *, data_dir: str | Path | None = None) -> Table:
    """The data set called `name`.

    Data that no package carries is read from the folder `data_dir`, or from the folder that the
    environment variable GSAT_DATA names when `data_dir` is not given.
    """
    if name in BUNDLED:
        return BUNDLED[name]()
    if name in FROM_FILES:
        folder = data_dir or os.environ.get("GSAT_DATA")
        return FROM_FILES[name](Path(folder) if folder else None)
    raise ValueError(f"name must be one of {', '.join(names())}, got {name!r}")
