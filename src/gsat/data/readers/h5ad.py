"""Expression matrices in .h5ad files and .zarr stores, as anndata writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gsat.data.asked import now
from gsat.data.readers.apart import read_apart
from gsat.data.readers.columns import annotation, by_id, checked, column
from gsat.data.rows import StoredRows
from gsat.data.rules import needs
from gsat.data.stores import DenseStore, Opened, OpenedZarr, SparseStore
from gsat.data.table import Table


def read_h5ad(
    path: Path,
    *,
    label: str | None = None,
    batch: str | None = None,
    ids: str | None = None,
    layer: str | None = None,
) -> Table:
    """The matrix X of an .h5ad file, or its layer `layer`, with labels, batches and ids from the keys of .obs.

    layer="raw" takes .raw with its genes, where no layer has that name.

    Without `ids` the sample ids are the names of .obs. Nothing else of the file is read. In memory a matrix needs 4
    bytes for each of its n x features cells, also a sparse one. A matrix that stays in the file (`load` says when)
    needs at most 8 bytes for a row.
    """
    return _read(path, "HDF5", label=label, batch=batch, ids=ids, layer=layer)


def read_zarr(
    path: Path,
    *,
    label: str | None = None,
    batch: str | None = None,
    ids: str | None = None,
    layer: str | None = None,
) -> Table:
    """As `read_h5ad`, of a store of zarr, a folder."""
    return _read(path, "Zarr", label=label, batch=batch, ids=ids, layer=layer)


def _read(path: Path, kind: str, *, label: str | None, batch: str | None, ids: str | None, layer: str | None) -> Table:
    """The table of a file or a store."""
    needs("anndata", "anndata", path.suffix)
    wanted = {option: key for option, key in (("label", label), ("batch", batch), ("ids", ids)) if key is not None}
    stored = read_apart(path, kind, columns=wanted, layer=layer, stream=now().stream)
    names = stored["names"]
    row = by_id(names)
    found: dict[str, NDArray[Any]] = {
        option: annotation(path, f"{option}={key!r}", column(stored[option]), row) for option, key in wanted.items()
    }
    about = stored.get("stored")
    X = stored["X"] if about is None else _rows(path, about, stored)
    return checked(
        path,
        row,
        odd=None if about is None else tuple(about["odd"]),
        X=X,
        y=found.get("label"),
        batch=found.get("batch"),
        feature_names=tuple(stored["feature_names"]),
        sample_ids=tuple(found["ids"].tolist() if "ids" in found else names),
    )


def _rows(path: Path, about: dict[str, Any], stored: dict[str, Any]) -> StoredRows:
    """The matrix that stays in the file."""
    place, d = Path(about.get("path", path)), len(stored["feature_names"])
    opened = (OpenedZarr if place.suffix.lower() == ".zarr" else Opened)(place, about["name"])
    if about["kind"] == "dense":
        return StoredRows(DenseStore(opened, (len(stored["names"]), d)))
    return StoredRows(SparseStore(opened, stored["ends"], d))
