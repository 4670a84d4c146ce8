"""JSON that others may have written: of files only, no longer and no deeper than anything that gsat writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LARGEST = 2**28  # bytes of a JSON file, or of a line of one: the names of ten million features
DEEPEST = 100  # lists and objects within each other


def read_json(path: Path) -> Any:
    """What a JSON file holds. An OSError says that it cannot be read, a ValueError that it holds something else."""
    return parse_json(str(path), read_bytes(path, LARGEST))


def parse_json(name: str, text: str | bytes) -> Any:
    """What JSON text holds; a ValueError tells its `name` and what is wrong."""
    if len(text) > LARGEST:
        raise ValueError(f"{name} must have at most {LARGEST} bytes, got {len(text)}")
    try:
        found = json.loads(text)
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError as error:
        raise ValueError(f"{name} must be JSON in UTF-8, got: {error}") from None
    level = [found]
    for _ in range(DEEPEST + 1):
        level = [child for parent in level for child in _children(parent) if isinstance(child, dict | list)]
        if not level:
            return found
    raise _too_deep(name)


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The content of a file of at most so many bytes; a pipe would be waited for, and a device has no end."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no file")
    size = path.stat().st_size
    if most is not None and size > most:
        raise ValueError(f"{path} must have at most {most} bytes, got {size}")
    return path.read_bytes()


def _children(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _too_deep(name: str) -> ValueError:
    return ValueError(f"{name} must be JSON, got lists or objects nested too deeply, more than {DEEPEST} in each other")
