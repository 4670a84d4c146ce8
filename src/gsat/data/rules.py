"""What every file and every option of reading must be, so that a wrong one fails with its path, place and reason.

Nothing here needs numpy or pandas: names and paths are checked before anything heavy is imported.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

SHOWN = 10  # names listed in a message


def extra(module: str, package: str, ending: str) -> Any:
    """The module `module` of a package in the extra `bio`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f'reading {ending} needs {package}: pip install "gsat[bio]"') from error


def existing(path: Path, remedy: str = "") -> Path:
    """`path`, which must be a file."""
    if not path.is_file():
        state = "a folder, not a file" if path.is_dir() else "missing"
        raise FileNotFoundError(f"{path} is {state}{remedy}")
    return path


def sha256_of(*paths: Path) -> str:
    """The sha256 of the bytes of the files, one after the other, in hexadecimal."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


@contextmanager
def whole(path: Path, kind: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn a library's `errors` about a broken file into a ValueError with the path."""
    try:
        yield
    except errors as error:
        if isinstance(error, MemoryError | ImportError):
            raise  # no fault of the file
        raise ValueError(f"{path} must be a whole {kind} file, got: {error}") from error


def not_utf8(path: Path) -> ValueError:
    """The error for a file whose bytes are not UTF-8, with the line of the first that is not."""
    content = path.read_bytes()
    try:
        content.decode()
        got, at = "NUL", max(content.find(b"\0"), 0)
    except UnicodeDecodeError as error:
        got, at = f"0x{content[error.start]:02x}", error.start
    line = content.count(b"\n", 0, at) + 1
    return ValueError(f"{path}, line {line} must be UTF-8 text, got byte {got}; save the file as UTF-8")


def among(path: Path, option: str, name: str, names: Iterable[str], what: str) -> str:
    """`name`, which `option` asks for and which must be one of the file's `names`."""
    names = [str(each) for each in names]
    if name not in names:
        near = get_close_matches(name, names, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{path} must have the {what} that {option}={name!r} names, it has {listed(names)}{guess}")
    return name


def picked(name: str, option: str, value: str, choices: Mapping[str, T]) -> T:
    """What `value` of `option` stands for, which must be one of the choices that the data set `name` has."""
    if value not in choices:
        raise ValueError(f"{option} must be one of {', '.join(choices)} for the data set {name}, got {value!r}")
    return choices[value]


def listed(names: Sequence[str]) -> str:
    """At most ten of the names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(map(repr, names[:SHOWN])) or "none") + more
