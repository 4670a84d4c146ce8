"""What every reader asks of a file, so that a bad one fails with its path, the place and the reason."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gsat.data.table import Table

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


def distinct(path: Path, what: str, names: Sequence[Any], remedy: str = "") -> None:
    """Raise unless no two of the names are equal."""
    repeated = np.flatnonzero(pd.Series(list(names), dtype=object).duplicated())
    if len(repeated):
        again = int(repeated[0])
        first = list(names).index(names[again])
        raise ValueError(
            f"{path} must have distinct {what}, got {names[again]!r} at positions {first} and {again} "
            f"({len(repeated)} in all repeat an earlier one){remedy}"
        )


def annotation(path: Path, option: str, values: Any, row: Callable[[int], str]) -> NDArray[Any]:
    """One label, batch or id per sample as text or numbers, none missing; `row` words the place of a sample."""
    array = values.to_numpy() if isinstance(values, pd.Series) else np.asarray(values)
    if array.dtype.kind == "S":
        with whole(path, "UTF-8", UnicodeDecodeError):
            array = np.char.decode(array, "utf-8")
    missing = np.asarray(pd.isna(array) | (array == "") if array.dtype.kind in "OU" else pd.isna(array))
    if array.ndim == 1 and missing.any():
        first = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"{path} must have a value of {option} for every sample, got none for {missing.sum()} of {len(array)}, "
            f"the first at {row(first)}; fill them in or leave these samples out"
        )
    if array.dtype.kind == "O":
        types = sorted({type(value).__name__ for value in array.ravel()})
        if types not in (["str"], []):
            raise ValueError(f"{path} must hold text or numbers of one type in {option}, got {' and '.join(types)}")
        array = array.astype(str)
    if array.dtype.kind not in "biufU":
        raise ValueError(f"{path} must hold text or numbers in {option}, got {array.dtype}")
    return array


def as_float32(path: Path, name: str, values: NDArray[Any]) -> NDArray[np.float32]:
    """Real numbers as float32; what is too large for it becomes infinite, which `checked` then reports."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{path} must hold real numbers in {name}, got {values.dtype}")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, dtype=np.float32)


def by_id(ids: Sequence[Any] | None) -> Callable[[int], str]:
    """Words the place of a sample by its id, or by its row counted from 0 where there are no ids."""
    return lambda i: f"row {i}" if ids is None or i >= len(ids) else f"sample {ids[i]!r}"


def checked(path: Path, row: Callable[[int], str], *, beside: Sequence[Path] = (), **fields: Any) -> Table:
    """The Table of these fields, read from `path`, once it holds what a table must.

    That is at least one sample and one feature, finite numbers, distinct feature names and sample ids. The
    checksum is that of the file at `path` followed by those `beside` it.
    """
    try:
        made = Table(**fields, source=str(path))
    except ValueError as error:
        error.add_note(f"while reading {path}")
        raise
    if made.X.size == 0:
        raise ValueError(f"{path} must hold at least one sample and one feature, got shape {made.X.shape}")
    distinct(path, "feature names", made.feature_names or ())
    distinct(path, "sample ids", made.sample_ids or ())
    bad = ~np.isfinite(made.X.reshape(len(made), -1))
    if bad.any():
        i, j = divmod(int(bad.argmax()), bad.shape[1])
        feature = f"feature {j}" if made.feature_names is None else f"feature {made.feature_names[j]!r}"
        raise ValueError(
            f"{path} must hold finite float32 numbers, got {bad.sum()} of {bad.size} missing or infinite, the first "
            f"at {row(i)}, {feature}; fill them in, or leave out these samples or features"
        )
    return replace(made, checksum=sha256_of(path, *beside))
