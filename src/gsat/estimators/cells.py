"""Cells as samples: the matrix and the columns of an AnnData object, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from gsat.data.backed import rows_on_disk
from gsat.estimators.matching import listed

if TYPE_CHECKING:
    from anndata import AnnData


def check_anndata(adata: Any, *, written: bool = True) -> None:
    """Raise where `adata` is something else, or cannot be written to and is to be."""
    from anndata import AnnData

    if not isinstance(adata, AnnData):
        raise TypeError(f"adata must be an AnnData object, got {type(adata).__name__}; for a matrix take clf.fit(X, y)")
    if written and adata.isbacked and adata.is_view:
        raise ValueError(
            "adata must be no view of a backed object, since nothing can be written to one; call adata.to_memory(), or "
            "adata.copy(filename) first"
        )


def matrix(adata: AnnData, layer: str | None) -> Any:
    """The samples, dense or CSR, or `StoredRows` where they stay in their file."""
    if layer is not None and layer not in adata.layers:
        raise ValueError(f"layer must be one of {listed(list(adata.layers)) or 'none'}, got {layer!r}")
    if (stored := rows_on_disk(adata, layer)) is not None:
        return stored
    X = adata.X if layer is None else adata.layers[layer]
    if X is None:
        raise ValueError("adata must have a matrix .X, or layer= must name one of its layers, got neither")
    if sparse.issparse(X):
        return X.tocsr()
    return X if isinstance(X, np.ndarray) else np.asarray(X)


def column(adata: AnnData, option: str, key: str) -> pd.Series:
    """The column `key` of .obs, which the parameter `option` names."""
    if key not in adata.obs:
        raise ValueError(f"{option} must be a column of .obs ({listed(list(adata.obs.columns))}), got {key!r}")
    return adata.obs[key]


def labelled(labels: pd.Series, labels_key: str) -> NDArray[np.intp]:
    """The positions of the cells that have a label."""
    known = np.flatnonzero(labels.notna().to_numpy())
    if len(known) == 0:
        raise ValueError(f"labels_key must name a column with labels, got {labels_key!r}, where all are missing")
    return known


def plain_labels(labels: pd.Series) -> NDArray[Any]:
    """The labels as text or numbers: of a categorical those in use alone."""
    values: NDArray[Any] = labels.to_numpy()
    return values.astype(str) if values.dtype.kind == "O" and all(isinstance(v, str) for v in values) else values


def as_stored(classes: NDArray[Any]) -> NDArray[Any]:
    """Text as objects, which is what .h5ad files can hold; numbers as they are."""
    return classes.astype(object) if classes.dtype.kind == "U" else classes
