"""Tables of numbers in .parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gsat.data.asked import now
from gsat.data.readers.apart import read_apart
from gsat.data.readers.columns import annotation, by_id, checked, column
from gsat.data.rows import StoredRows
from gsat.data.rules import needs
from gsat.data.stores import DenseStore, Opened
from gsat.data.table import Table


def read_parquet(path: Path, *, label: str | None = None, batch: str | None = None, ids: str | None = None) -> Table:
    """A .parquet file, one sample per row; all columns but those named are features.

    The index that pandas stored holds the ids unless `ids` names a column; it is never a feature.
    """
    needs("pyarrow", "pyarrow", ".parquet")
    wanted = {option: name for option, name in (("ids", ids), ("label", label), ("batch", batch)) if name is not None}
    stored = read_apart(path, "Parquet", columns=wanted, asked=now().describe(), stream=now().stream)
    found: dict[str, NDArray[Any]] = {}
    row = by_id(None)
    for option, name in stored["special"].items():
        found[option] = annotation(path, f"{option}={name!r}", column(stored[option]), row)
        row = by_id(found["ids"].tolist()) if "ids" in found else row
    return checked(
        path,
        row,
        X=stored["X"] if "X" in stored else _rows(stored),
        y=found.get("label"),
        batch=found.get("batch"),
        feature_names=tuple(stored["feature_names"]),
        sample_ids=tuple(found["ids"].tolist()) if "ids" in found else None,
    )


def _rows(stored: dict[str, Any]) -> StoredRows:
    """The rows that stay on disk."""
    n, d = stored["stored"]["shape"]
    found = StoredRows(DenseStore(Opened(Path(stored["stored"]["path"]), "X"), (n, d)))
    return found if len(stored["taken"]) == d else found.with_columns(stored["taken"])
