"""Tables of numbers in .parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.readers.columns import NAME_IT, annotation, as_float32, by_id, checked, distinct
from gsat.data.rules import among, extra, whole
from gsat.data.table import Table


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


def _column(path: Path, name: str, column: Any, types: Any) -> NDArray[np.float32]:
    """A column of a Parquet file as numbers; what is missing is NaN."""
    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)):
        first = next((i for i, value in enumerate(column) if value.is_valid), None)
        got = f"{kind}" if first is None else f"{kind} {column[first].as_py()!r} in row {first}"
        raise ValueError(f"{path}, column {name!r} must hold numbers, got {got}; {NAME_IT}")
    values = column.to_numpy()
    return as_float32(path, f"column {name!r}", values.astype(np.float64) if values.dtype == object else values)
