"""The columns of a .parquet file and its rows of numbers, read by pyarrow, in a process of its own (see `apart`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.asked import Asked
from gsat.data.memory import fits
from gsat.data.rules import NAME_IT, among, brief, distinct, extra

BLOCK = 2**22  # numbers in a block of rows
Parts = Iterator[tuple[str, Any]]


def parts(path: Path, *, columns: dict[str, str], asked: dict[str, Any], prepared: Callable[[], None]) -> Parts:
    """The columns by option, the names of the features, the shape of the matrix and its blocks of rows."""
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
        fits(path, f"features ({n_rows}, {len(features)}) as float32", 4 * n_rows * len(features))
        yield "special", special
        yield "feature_names", features
        yield "shape", [n_rows, len(features)]
        rows = max(BLOCK // max(len(features), 1), 1)
        for batch in file.iter_batches(rows, columns=features, use_threads=False) if features else ():
            block = np.empty((batch.num_rows, len(features)), np.float32)
            for j, values in enumerate(batch.columns):
                block[:, j] = _numbers(values)
            yield "X", block
        if not features:
            yield "X", np.empty((n_rows, 0), np.float32)


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
