"""Arrays in .npz files, as numpy writes them."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.readers.columns import annotation, as_float32, by_id, checked
from gsat.data.rules import among, listed, whole
from gsat.data.table import Table

Arrays = dict[str, NDArray[Any]]


def read_npz(path: Path, *, label: str | None = None, batch: str | None = None, ids: str | None = None) -> Table:
    """An .npz file with the arrays X (n, *features) and, if they are there, y, batch, feature_names, sample_ids.

    label, batch and ids name other arrays than y, batch and sample_ids. Pickled objects are refused.
    """
    content: Arrays = {}
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
    found: Arrays = {}
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


def all_arrays(path: Path) -> Arrays:
    """Every array of an .npz file, in the order of their names. Pickled objects are refused."""
    with _open_npz(path) as arrays:
        return {name: _array(path, name, arrays) for name in sorted(arrays.files)}


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
