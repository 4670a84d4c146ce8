"""Tables of numbers: .csv and .tsv, .parquet, .npz."""

from __future__ import annotations

import csv
import math
import re
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.rules import among, annotation, as_float32, by_id, checked, distinct, extra, listed, not_utf8, whole
from gsat.data.table import Table

SEPARATORS = {".csv": ",", ".tsv": "\t"}
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null"})  # how R, pandas and databases write it
NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d+)?")  # "01" is a name: it would not print as it came
NAME_IT = "a column of labels, batches or ids is named with label=, batch= or ids="


def read_text(path: Path, *, label: str | None = None, batch: str | None = None, ids: str | None = None) -> Table:
    """A .csv or .tsv file in UTF-8: a header, then one sample per line; all other columns are features.

    A first column without a name, as R and pandas write the row names, holds the ids unless `ids` names
    another. Labels and batches are numbers if all of them are written as numbers (01 is not), else text.
    """
    rows = text_rows(path, SEPARATORS[path.suffix.lower()])
    _, header = next(rows)
    special = {"ids": ids if ids is not None or header[0] else "", "label": label, "batch": batch}
    at = {
        option: header.index(among(path, option, name, header, "column"))
        for option, name in special.items()
        if name is not None
    }
    unused = {0} if not header[0] else set()  # row names are never features
    features = [j for j in range(len(header)) if j not in {*at.values(), *unused}]
    kept: dict[str, list[str]] = {option: [] for option in at}
    lines: list[int] = []
    numbers = array("f")  # grows in place: the matrix is never there twice
    for line, cells in rows:
        lines.append(line)
        for option, j in at.items():
            kept[option].append("" if cells[j].strip() in MISSING else cells[j])
        numbers.extend(_numbers(path, line, cells, header, features))
    X = np.frombuffer(numbers, np.float32) if numbers else np.empty(0, np.float32)

    def row(i: int) -> str:
        return f"line {lines[i]}"

    found = {option: annotation(path, f"{option}={special[option]!r}", values, row) for option, values in kept.items()}
    return checked(
        path,
        row,
        X=X.reshape(len(lines), len(features)),
        y=as_numbers(found["label"]) if "label" in at else None,
        batch=as_numbers(found["batch"]) if "batch" in at else None,
        feature_names=tuple(header[j] for j in features),
        sample_ids=tuple(found["ids"].tolist()) if "ids" in at else None,
    )


def read_parquet(path: Path, *, label: str | None = None, batch: str | None = None, ids: str | None = None) -> Table:
    """A .parquet file, one sample per row; all columns but those named are features.

    The index that pandas stored holds the ids unless `ids` names a column; it is never a feature.
    """
    parquet = extra("pyarrow.parquet", "pyarrow", ".parquet")
    arrow = extra("pyarrow", "pyarrow", ".parquet")
    with whole(path, "Parquet", arrow.ArrowException, OSError), parquet.ParquetFile(path) as file:
        content = file.read()
    columns = content.column_names
    distinct(path, "column names", columns)
    index = [name for name in (content.schema.pandas_metadata or {}).get("index_columns", ()) if name in columns]
    special = {"ids": index[0] if ids is None and len(index) == 1 else ids, "label": label, "batch": batch}
    found: dict[str, NDArray[Any]] = {}
    row = by_id(None)
    for option, name in special.items():
        if name is not None:
            among(path, option, name, columns, "column")
            found[option] = annotation(path, f"{option}={name!r}", content.column(name).to_pandas(), row)
            row = by_id(found["ids"].tolist()) if "ids" in found else row
    features = [name for name in columns if name not in {*index, *special.values()}]
    X = np.empty((content.num_rows, len(features)), np.float32)
    for j, name in enumerate(features):
        X[:, j] = _column(path, name, content.column(name), arrow.types)
    return checked(
        path,
        row,
        X=X,
        y=found.get("label"),
        batch=found.get("batch"),
        feature_names=tuple(features),
        sample_ids=tuple(found["ids"].tolist()) if "ids" in found else None,
    )


def read_npz(path: Path, *, label: str | None = None, batch: str | None = None, ids: str | None = None) -> Table:
    """An .npz file with the arrays X (n, *features) and, if they are there, y, batch, feature_names, sample_ids.

    label, batch and ids name other arrays than y, batch and sample_ids. Pickled objects are refused.
    """
    content: dict[str, NDArray[Any]] = {}
    with _open_npz(path) as arrays:
        wanted = {"y": label, "batch": batch, "sample_ids": ids, "X": None, "feature_names": None}
        for default, name in wanted.items():
            if name is not None:
                among(path, {"y": "label", "sample_ids": "ids"}.get(default, default), name, arrays.files, "array")
            if (name or default) in arrays.files:
                content[default] = _array(path, name or default, arrays)
        if "X" not in content:
            raise ValueError(f"{path} must have an array X of samples, it has {listed(arrays.files)}")
    X = as_float32(path, "X", content["X"])
    row = by_id(None)
    found: dict[str, NDArray[Any]] = {}
    for default in ("sample_ids", "y", "batch", "feature_names"):
        if default in content:
            found[default] = annotation(path, wanted[default] or default, content[default], row)
            row = by_id(found["sample_ids"].tolist()) if "sample_ids" in found else row
    names, samples = found.get("feature_names"), found.get("sample_ids")
    return checked(
        path,
        row,
        X=X,
        y=found.get("y"),
        batch=found.get("batch"),
        feature_names=None if names is None else tuple(names.astype(str).tolist()),
        sample_ids=None if samples is None else tuple(samples.tolist()),
    )


def all_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Every array of an .npz file, in the order of their names. Pickled objects are refused."""
    with _open_npz(path) as arrays:
        return {name: _array(path, name, arrays) for name in sorted(arrays.files)}


def text_rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of the header, whose names are distinct, then of every line with as many cells."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(stream, delimiter=separator, strict=True)
        header: list[str] = []
        try:
            for cells in rows:
                if not header and any("\0" in cell for cell in cells):
                    raise not_utf8(path)
                if not header and cells:
                    header = cells
                    distinct(path, "column names", header)
                    if "" in header[1:]:
                        raise ValueError(f"{path}, line {rows.line_num}, column {header.index('', 1) + 1} has no name")
                elif cells and len(cells) != len(header):
                    raise ValueError(
                        f"{path}, line {rows.line_num} must have {len(header)} cells as the header has, "
                        f"got {len(cells)}"
                    )
                if cells:
                    yield rows.line_num, cells
        except UnicodeDecodeError as error:
            raise not_utf8(path) from error
        except csv.Error as error:
            raise ValueError(f"{path}, line {rows.line_num} must be a line of a table, got: {error}") from error
    if not header:
        raise ValueError(f"{path} must start with a header of column names, got an empty file")


def as_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Text that is all written as whole numbers as int64, as numbers as float64, else as it is."""
    matches = [NUMBER.fullmatch(value) for value in values.tolist()]
    if not matches or not all(matches):
        return values
    return values.astype(np.float64 if any(match and match.lastindex != 1 for match in matches) else np.int64)


def _numbers(path: Path, line: int, cells: list[str], header: list[str], features: list[int]) -> list[float]:
    """The features of one line of text; what is missing is NaN."""
    wanted = [cells[j] for j in features]
    try:
        if "_" not in "".join(wanted):  # float() reads 1_2 as 12
            return list(map(float, wanted))
    except ValueError:
        pass
    found = []
    for name, cell in zip((header[j] for j in features), wanted, strict=True):
        try:
            found.append(math.nan if cell.strip() in MISSING else float(cell.replace("_", "?")))
        except ValueError:
            raise ValueError(
                f"{path}, line {line}, column {name!r} must be a number, got {cell!r}; {NAME_IT}"
            ) from None
    return found


def _column(path: Path, name: str, column: Any, types: Any) -> NDArray[np.float32]:
    """A column of a Parquet file as numbers; what is missing is NaN."""
    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)):
        first = next((i for i, value in enumerate(column) if value.is_valid), None)
        got = f"{kind}" if first is None else f"{kind} {column[first].as_py()!r} in row {first}"
        raise ValueError(f"{path}, column {name!r} must hold numbers, got {got}; {NAME_IT}")
    values = column.to_numpy()
    return as_float32(path, f"column {name!r}", values.astype(np.float64) if values.dtype == object else values)


@contextmanager
def _open_npz(path: Path) -> Iterator[Any]:
    """The arrays of an .npz file, read as they are asked for."""
    with path.open("rb") as stream:
        if stream.read(2) != b"PK":
            raise ValueError(f"{path} must be a whole .npz file, got one that does not start as a zip file")
        stream.seek(0)
        with (
            whole(path, ".npz", zipfile.BadZipFile, zlib.error, EOFError, OSError),
            np.load(stream, allow_pickle=False) as arrays,
        ):
            yield arrays


def _array(path: Path, name: str, arrays: Any) -> NDArray[Any]:
    try:
        found: NDArray[Any] = arrays[name]
    except ValueError as error:
        raise ValueError(
            f"{path}, array {name!r} must hold numbers or text and no pickled objects, got: {error}; "
            f"save it as {name}.astype(str) or as numbers"
        ) from error
    return found
