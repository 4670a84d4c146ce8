"""AnnData objects whose matrix stays in its file: its rows, read when they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gsat.data.memory import shown
from gsat.data.rows import Index, Store, StoredRows, places
from gsat.data.stores import Opened, SparseStore


class DenseStore:
    """A dense matrix on disk; rows that follow each other are read together.

    Parameters
    ----------
    opened
        Gives the matrix, indexed by slices of rows.
    shape
        Of it.
    """

    def __init__(self, opened: Any, shape: tuple[int, int]) -> None:
        self.opened, self.shape, self.path = opened, shape, opened.path

    def read(self, rows: Index) -> NDArray[np.float32]:
        """These rows."""
        matrix, found = self.opened(), np.empty((len(rows), self.shape[1]), np.float32)
        for run in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows) > 1) + 1):
            if len(run):
                with np.errstate(over="ignore"):
                    found[run] = matrix[int(rows[run[0]]) : int(rows[run[-1]]) + 1]
        return found


class Given:
    """A group or an array of a zarr store that someone has opened."""

    def __init__(self, found: Any) -> None:
        self.found, self.path = found, str(found.store)

    def __call__(self) -> Any:
        """The group or array."""
        return self.found


def rows_on_disk(adata: Any, layer: str | None) -> StoredRows | None:
    """The matrix of an AnnData object, or of a view of one, that is not in memory; None where it is.

    Parameters
    ----------
    adata
        Read with backed=, or made with what `anndata.io.sparse_dataset` returned.
    layer
        Of the matrix; None for .X.

    Returns
    -------
    StoredRows or None
        Of finite numbers: all are looked at once.
    """
    from anndata.abc import CSCDataset, CSRDataset

    whole = adata._adata_ref if adata.is_view else adata  # .X of a view would be read into memory
    X = whole.X if layer is None else whole.layers[layer]
    if isinstance(X, CSCDataset):
        size = sum(X.group[part].nbytes for part in ("data", "indices", "indptr"))
        raise ValueError(
            "adata must hold a CSR or dense matrix to be read by rows, got CSC, of which a row lies all over the file; "
            f"adata.to_memory() takes {shown(size)}, and its .X.tocsr(), written to a file once, is read by rows"
        )
    store: Store
    if isinstance(X, CSRDataset):
        ends = np.asarray(X.group["indptr"][...], np.int64)
        store = SparseStore(_opened(X.group), ends, X.shape[1])
    elif hasattr(X, "chunks") and hasattr(X, "name") and not hasattr(X, "compute"):  # of HDF5 or zarr, not of dask
        store = DenseStore(_opened(X), X.shape)
    else:
        return None
    found = StoredRows(store)
    if adata.is_view:
        rows, columns = (places(index, n) for index, n in zip((adata._oidx, adata._vidx), X.shape, strict=True))
        found = found.subset(rows).with_columns(columns)
    _refuse_odd(found, adata.obs_names)
    return found


def _opened(part: Any) -> Any:
    """What opens a group or an array again, also in another process."""
    file = getattr(part, "file", None)
    return Given(part) if file is None else Opened(Path(file.filename), part.name)


def _refuse_odd(X: StoredRows, names: Any) -> None:
    """Raise where a number is missing or infinite, or too large for float32."""
    for begin in range(0, len(X), X.step):
        part = X[begin : begin + X.step]
        if not np.isfinite(part.data if sparse.issparse(part) else part).all():
            odd = np.flatnonzero(~np.isfinite(X.dense(slice(begin, begin + X.step))).all(1))
            raise ValueError(
                "adata must hold finite float32 numbers, got missing or infinite ones, the first of them in cell "
                f"{names[begin + odd[0]]!r}; fill them in, or leave out these cells or genes"
            )
