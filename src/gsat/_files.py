"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    write_durably(draft, data)
    os.replace(draft, path)
