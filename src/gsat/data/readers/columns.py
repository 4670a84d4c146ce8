"""What a reader found in a file, checked column by column, and made a `Table`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gsat.data.asked import now
from gsat.data.rows import StoredRows, odd_numbers
from gsat.data.rules import distinct, sha256_of, whole
from gsat.data.table import Table

# what a cell of a spreadsheet shows in place of a value
SHEET_ERRORS = frozenset(["#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#SPILL!", "#CALC!"])


def annotation(
    path: Path, option: str, values: Any, row: Callable[[int], str], *, key: str | None = None
) -> NDArray[Any]:
    """One label, batch or id per sample as text or numbers, none missing; `row` words the place of a sample.

    Where `load` is told what becomes of samples without a label or a batch, they get the value of another sample, and
    are noted under `key`, "label" or "batch".
    """
    array = values.to_numpy() if isinstance(values, pd.Series) else np.asarray(values)
    if array.dtype.kind == "S":
        with whole(path, "UTF-8", UnicodeDecodeError):
            array = np.char.decode(array, "utf-8")
    missing = np.asarray(pd.isna(array) | (array == "") if array.dtype.kind in "OU" else pd.isna(array))
    key = option.partition("=")[0] if key is None else key
    if key in ("label", "batch") and now().unlabelled != "error" and array.ndim == 1 and not missing.all():
        now().lacking[key] = missing
        array = np.where(missing, array[~missing][0], array) if missing.any() else array
        missing = np.zeros(len(array), bool)
    if array.ndim == 1 and missing.any():
        ways = "; --unlabelled drop leaves them out, predict predicts them" if key in ("label", "batch") else ""
        first = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"{path} must have a value of {option} for every sample, got none for {missing.sum()} of {len(array)}, "
            f"the first at {row(first)}; fill them in or leave these samples out{ways}"
        )
    if array.dtype.kind == "O":
        types = sorted({type(value).__name__ for value in array.ravel()})
        if types not in (["str"], []):
            raise ValueError(f"{path} must hold text or numbers of one type in {option}, got {' and '.join(types)}")
        array = array.astype(str)
    if array.dtype.kind not in "biufU":
        raise ValueError(f"{path} must hold text or numbers in {option}, got {array.dtype}")
    return array


def headed(path: Path, place: str, header: Sequence[str]) -> None:
    """Raise unless the columns of the header have distinct names; the first, of row names, may have none."""
    distinct(path, "column names", header)
    if "" in header[1:]:
        raise ValueError(f"{path}, {place}, column {header.index('', 1) + 1} has no name")
    wrong = next((j for j, name in enumerate(header) if name in SHEET_ERRORS), None)
    if wrong is not None:
        raise ValueError(
            f"{path}, {place}, column {wrong + 1} must have a name, got {header[wrong]}, an error of a sheet"
        )


def column(values: Any) -> NDArray[Any]:
    """What a reader apart answered for a column: numbers as they are, a list as objects, None where it is missing."""
    return values if isinstance(values, np.ndarray) else np.array([*values, None], object)[:-1]


def as_float32(path: Path, name: str, values: NDArray[Any]) -> NDArray[np.float32]:
    """Real numbers as float32; what is too large for it becomes infinite, which `checked` then reports."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{path} must hold real numbers in {name}, got {values.dtype}")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, dtype=np.float32)


def by_id(ids: Sequence[Any] | None) -> Callable[[int], str]:
    """Words the place of a sample by its id, or by its row counted from 0 where there are no ids."""
    return lambda i: f"row {i}" if ids is None or i >= len(ids) else f"sample {ids[i]!r}"


def checked(
    path: Path,
    row: Callable[[int], str],
    *,
    beside: Sequence[Path] = (),
    odd: tuple[int, int, int] | None = None,
    **fields: Any,
) -> Table:
    """The Table of these fields, read from `path`, once it holds what a table must.

    That is at least one sample and one feature, finite numbers, distinct feature names and sample ids. The
    checksum is that of the file at `path` followed by those `beside` it. `odd` tells of samples that stay in the file
    how many of their numbers are not finite, and the row and the column of the first; None: they are read once here.
    """
    try:
        made = Table(**fields, source=str(path))
    except ValueError as error:
        error.add_note(f"while reading {path}")
        raise
    if math.prod(made.X.shape) == 0:
        raise ValueError(f"{path} must hold at least one sample and one feature, got shape {made.X.shape}")
    distinct(path, "feature names", made.feature_names or ())
    distinct(path, "sample ids", made.sample_ids or ())
    if odd is None:
        odd = (0, 0, 0)
        for part, block in made.X.chunks() if isinstance(made.X, StoredRows) else [(slice(0, None), made.flat)]:
            odd = odd_numbers(odd, block, part.start)
    if odd[0]:
        raise _not_finite(made, path, row, *odd)
    return replace(made, checksum=sha256_of(path, *beside))


def _not_finite(table: Table, path: Path, row: Callable[[int], str], count: int, i: int, j: int) -> ValueError:
    """The error for `count` numbers that are missing or infinite, the first of them in row i and column j."""
    feature = f"feature {j}" if table.feature_names is None else f"feature {table.feature_names[j]!r}"
    return ValueError(
        f"{path} must hold finite float32 numbers, got {count} of {math.prod(table.X.shape)} missing or infinite, the "
        f"first at {row(i)}, {feature}; fill them in, or leave out these samples or features"
    )
