"""Single files that a command writes: never over another one unasked, and whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gsat._files import remove_dead_drafts, replace_file, replace_files
from gsat.cli.app import fail

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def vacant(*paths: Path, force: bool) -> None:
    """Raise unless the files can be written: none is there, or --force was given."""
    for path in paths:
        if path.is_dir():
            fail(f"--out must be a file, got the folder {path}")
        if path.exists() and not force:
            fail(f"--out must be a new file, got {path}; take another, or --force to overwrite it")


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """The frame as text, separated by commas, or by tabs in a .tsv file."""
    write(path, table_bytes(path, frame))


def table_bytes(path: Path, frame: pd.DataFrame) -> bytes:
    """What `write_table` writes."""
    separator = SEPARATORS.get(path.suffix.lower(), ",")
    text: str = frame.to_csv(index=False, sep=separator, lineterminator="\n")
    return text.encode()


def write(path: Path, content: bytes) -> None:
    """The bytes, in a folder that is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_dead_drafts(path.parent)
    replace_file(path, content)


def write_together(folder: Path, files: Mapping[str, bytes]) -> None:
    """All of the files or none, in a folder that is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_dead_drafts(folder)
    replace_files(folder, files)
