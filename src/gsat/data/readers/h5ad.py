"""Expression matrices in .h5ad files, as anndata writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gsat.data.readers.columns import annotation, as_float32, by_id, checked
from gsat.data.rules import among, extra, listed, whole
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

    Without `ids` the sample ids are the names of .obs. Nothing else of the file is read. A sparse matrix is cast
    to float32 first and made dense then, so that it needs 4 bytes for each of its n x features cells.
    """
    io = extra("anndata.io", "anndata", ".h5ad")
    h5py = extra("h5py", "anndata", ".h5ad")
    with whole(path, "HDF5", OSError), h5py.File(path) as file:
        obs, var = (_frame(path, file, key, io) for key in ("obs", "var"))
        X = _matrix(path, file, layer, h5py, io)
    names = obs.index.astype(str).tolist()
    row = by_id(names)
    found: dict[str, NDArray[Any]] = {}
    for option, key in (("label", label), ("batch", batch), ("ids", ids)):
        if key is not None:
            among(path, option, key, obs.columns, "key of .obs")
            found[option] = annotation(path, f"{option}={key!r}", obs[key], row)
    return checked(
        path,
        row,
        X=X,
        y=found.get("label"),
        batch=found.get("batch"),
        feature_names=tuple(var.index.astype(str)),
        sample_ids=tuple(found["ids"].tolist() if "ids" in found else names),
    )


def _frame(path: Path, file: Any, key: str, io: Any) -> pd.DataFrame:
    if key not in file:
        raise ValueError(
            f"{path} must be written by anndata, got an HDF5 file without .{key}; it has {listed([*file])}"
        )
    if "encoding-type" not in file[key].attrs:
        raise ValueError(f"{path} must be written by anndata 0.7 or later, got an older .{key}; read and write it anew")
    with whole(path, "HDF5", Exception):  # what anndata raises depends on the piece that is broken
        return io.read_elem(file[key])


def _matrix(path: Path, file: Any, layer: str | None, h5py: Any, io: Any) -> NDArray[np.float32]:
    layers = [*file["layers"]] if "layers" in file else []
    if layer is None and "X" not in file:
        raise ValueError(f"{path} must have a matrix .X, or layer= must name one of its layers: {listed(layers)}")
    name = "X" if layer is None else f"layers/{among(path, 'layer', layer, layers, 'layer')}"
    found = file[name]
    if isinstance(found, h5py.Dataset):
        if found.dtype.kind not in "biuf" or found.ndim != 2:
            raise ValueError(f"{path} must hold a matrix of real numbers in {name}, got {found.dtype} {found.shape}")
        with np.errstate(over="ignore"):
            dense: NDArray[np.float32] = found.astype(np.float32)[...]  # HDF5 converts block by block
        return dense
    encoding = str(found.attrs.get("encoding-type", "none"))
    if encoding not in ("csr_matrix", "csc_matrix"):
        raise ValueError(f"{path} must hold a dense, CSR or CSC matrix in {name}, got encoding {encoding}")
    with whole(path, "HDF5", Exception):
        sparse = io.read_elem(found)
        sparse.check_format(full_check=True)  # an index out of range would write outside the dense matrix
    sparse.data = as_float32(path, name, sparse.data)
    made: NDArray[np.float32] = sparse.toarray(order="C")
    return made
