"""Single files that a command writes: never over another one unasked, and whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsat._files import remove_dead_drafts, replace_file, replace_files
from gsat.cli.app import fail

if TYPE_CHECKING:
    import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # what makes a spreadsheet run the text behind it
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
SEPARATORS = {".csv": ",", ".tsv": "\t"}


def vacant(*paths: Path, force: bool, data: str | None = None) -> None:
    """Raise unless the files can be written: none is there, or --force was given; never over the `data` to be read."""
    for path in paths:
        if data is not None and path.exists() and Path(data).exists() and path.samefile(data):
            fail(f"--out must be another file than the data, got {path}; it is not overwritten")
        if path.is_dir():
            fail(f"--out must be a file, got the folder {path}")
        if path.exists() and not force:
            fail(f"--out must be a new file, got {path}; take another, or --force to overwrite it")


def write_table(path: Path, frame: pd.DataFrame, *, raw_text: bool = False) -> None:
    """The frame as text, separated by commas, or by tabs in a .tsv file; safe for spreadsheets unless raw_text."""
    write(path, table_bytes(path, frame, raw_text=raw_text))


def table_bytes(path: Path, frame: pd.DataFrame, *, raw_text: bool = False) -> bytes:
    """What `write_table` writes."""
    separator = SEPARATORS.get(path.suffix.lower(), ",")
    text: str = (frame if raw_text else spreadsheet_safe(frame)).to_csv(index=False, sep=separator, lineterminator="\n")
    return text.encode()


def spreadsheet_safe(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an apostrophe before text, also of its header, that a spreadsheet would run as a formula.

    Text that is a number, like "-1", is left as it is: there is nothing to run.
    """
    import numpy as np

    found = frame.rename(columns=_inert)
    for place, kind in enumerate(found.dtypes):
        if not isinstance(kind, np.dtype) or kind.kind in "OSU":
            name, column = found.columns[place], found.iloc[:, place]
            found.isetitem(place, column.astype(object).map(_inert).rename(name))
    return found


def _inert(value: Any) -> Any:
    risky = isinstance(value, str) and value.startswith(FORMULA) and not NUMBER.fullmatch(value)
    return f"'{value}" if risky else value


def write(path: Path, content: bytes) -> None:
    """The bytes, in a folder that is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_dead_drafts(path.parent, path.name)
    replace_file(path, content)


def write_together(folder: Path, files: Mapping[str, bytes]) -> None:
    """All of the files or none, in a folder that is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_dead_drafts(folder, *files)
    replace_files(folder, files)
