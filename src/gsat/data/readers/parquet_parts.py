"""The columns of a .parquet file and its rows of numbers, read by pyarrow, in a process of its own (see `apart`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.asked import Asked
from gsat.data.memory import fits, stays_on_disk
from gsat.data.readers.turned import checked_rows, once, place_of, rows_of
from gsat.data.rules import NAME_IT, among, brief, distinct, extra

BLOCK = 2**22  # numbers in a block of rows
Parts = Iterator[tuple[str, Any]]


def parts(
    path: Path,
    *,
    columns: dict[str, str],
    asked: dict[str, Any],
    stream: bool | None,
    prepared: Callable[[], None],
) -> Parts:
    """The columns by option, the names of the features, the shape of the matrix and its blocks of rows.

    Where samples stay on disk, where they are takes the place of shape and blocks (`_beside`).
    """
    parquet = extra("pyarrow.parquet", "pyarrow", ".parquet")
    arrow = extra("pyarrow", "pyarrow", ".parquet")
    prepared()
    with parquet.ParquetFile(path, page_checksum_verification=True) as file:
        schema = file.schema_arrow
        names = schema.names
        distinct(path, "column names", names)
        stored = [name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if name in names]
        index = {"ids": stored[0]} if len(stored) == 1 and "ids" not in columns else {}
        special = {**index, **columns}
        n_rows = file.metadata.num_rows
        for option, name in special.items():
            among(path, option, name, names, "column")
            fits(path, f"column {name!r} ({n_rows} rows)", 8 * n_rows)
            content = file.read(columns=[name], use_threads=False).column(name)
            yield option, _annotation(path, f"{option}={name!r}", content, arrow)
        wanted = Asked(tuple(asked["drop"]), tuple(asked["features"]))
        features = wanted.kept(path, [name for name in names if name not in {*stored, *special.values()}])
        if asked["known"] is not None:  # of a model: what else is in the file need not be numbers
            known = set(asked["known"])
            features = [each for each in features if each in known or _is_number(schema.field(each).type, arrow.types)]
        for name in features:
            _check_numbers(path, file, schema.field(name), arrow.types)
        yield "special", special
        yield "feature_names", features
        if n_rows and features and stays_on_disk((n_rows, len(features)), stream):
            numbers = [field.name for field in schema if _is_number(field.type, arrow.types)]
            yield from _beside(path, file, features, numbers)
            return
        fits(path, f"features ({n_rows}, {len(features)}) as float32", 4 * n_rows * len(features))
        yield "shape", [n_rows, len(features)]
        for block in _blocks(file, features):
            yield "X", block
        if not features:
            yield "X", np.empty((n_rows, 0), np.float32)


def _blocks(file: Any, names: list[str]) -> Iterator[NDArray[np.float32]]:
    """The columns of these names, a block of rows at a time."""
    rows = max(BLOCK // max(len(names), 1), 1)
    for batch in file.iter_batches(rows, columns=names, use_threads=False) if names else ():
        block = np.empty((batch.num_rows, len(names)), np.float32)
        for j, values in enumerate(batch.columns):
            block[:, j] = _numbers(values)
        yield block


def _beside(path: Path, file: Any, features: list[str], numbers: list[str]) -> Parts:
    """Where all columns of numbers are by rows, in a file that is written where there is none; which are features."""
    h5py = extra("h5py", "anndata", ".parquet files larger than memory")
    place = place_of(path, "X")
    told = f"{path} has its numbers by columns; they are written by rows to {place}, once"
    yield from once(path, place, h5py, told, lambda: _write(path, place, file, numbers, h5py))
    with h5py.File(place, "r") as made:
        checked_rows(path, place, made, "X", (file.metadata.num_rows, len(numbers)), np.float32, h5py)
    yield "stored", {"path": str(place), "shape": [file.metadata.num_rows, len(numbers)]}
    yield "taken", [numbers.index(name) for name in features]


def _write(path: Path, place: Path, file: Any, numbers: list[str], h5py: Any) -> Parts:
    """Write the columns of numbers by rows to `place`, whole or not at all."""
    with rows_of(path, place, h5py) as made:
        rows = made.create_dataset("X", (file.metadata.num_rows, len(numbers)), np.float32)
        begin = 0
        for block in _blocks(file, numbers):
            rows[begin : begin + len(block)] = block
            begin += len(block)
            yield "alive", None


def _is_number(kind: Any, types: Any) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind))


def _annotation(path: Path, option: str, content: Any, arrow: Any) -> Any:
    """A column that is no feature: numbers as an array, text as a list with None where it is missing."""
    types, kind = arrow.types, content.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        content = content.cast(kind)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return content.to_pylist()
    if not _is_number(kind, types):
        raise ValueError(f"{path} must hold text or numbers in {option}, got {kind}")
    values = content.to_numpy()
    return values.tolist() if values.dtype == object else values


def _check_numbers(path: Path, file: Any, field: Any, types: Any) -> None:
    """Raise unless the column holds numbers; the message shows the first value."""
    if _is_number(field.type, types):
        return
    content = file.read(columns=[field.name], use_threads=False).column(field.name)
    first = next((i for i, value in enumerate(content) if value.is_valid), None)
    got = f"{field.type}" if first is None else f"{field.type} {brief(content[first].as_py())} in row {first}"
    raise ValueError(f"{path}, column {field.name!r} must hold numbers, got {got}; {NAME_IT}")


def _numbers(values: Any) -> NDArray[Any]:
    """A column of a block as float32; what is missing is NaN, what is too large infinite."""
    found = values.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        made: NDArray[Any] = (found.astype(np.float64) if found.dtype == object else found).astype(np.float32)
    return made
