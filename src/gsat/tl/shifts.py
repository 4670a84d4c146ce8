"""Which structure the shift between the batches of an AnnData object has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from gsat.data.rows import some_rows
from gsat.diagnosis import Diagnosis
from gsat.diagnosis import diagnose as examine
from gsat.estimators.cells import as_stored, check_anndata, column, matrix, plain_labels

if TYPE_CHECKING:
    from anndata import AnnData


def diagnose(
    adata: AnnData,
    batch_key: str,
    labels_key: str | None = None,
    layer: str | None = None,
    *,
    key_added: str = "gsat_shift",
    **options: Any,
) -> Diagnosis:
    """The structure of the shift between the batches, by `gsat.diagnose`, written into `adata`.

    With key_added="gsat_shift" it writes
    .uns["gsat_shift"]       keys, structure, size, p_value, worth_trying, and all of the diagnosis as JSON
    .var["gsat_shift_rank"]  1 for the gene that moves most, 2 for the next; NaN for those that are not among the first

    Parameters
    ----------
    adata
        Cells, in memory or backed. It is written to, its file is not.
    batch_key
        The column of .obs with the batches; cells without one are left out.
    labels_key
        The column of .obs with the labels, within which batches are compared; cells without one are left out. None: all
        cells are of one class.
    layer
        The layer to take instead of .X.
    key_added
        What the names that are written begin with.
    **options
        Of `gsat.diagnose`.

    Returns
    -------
    Diagnosis
        What was found; `gsat.pl.shift(adata)` draws it.

    Examples
    --------
    >>> import anndata
    >>> import gsat
    >>> table = gsat.data.make_batches(120, 10, n_batches=2, strength=1.0)
    >>> adata = anndata.AnnData(table.X, obs={"type": table.y.astype(str), "lane": table.batch})
    >>> found = gsat.tl.diagnose(adata, "lane", "type", n_splits=3)
    >>> adata.uns["gsat_shift"]["structure"] == found.structure
    True
    """
    check_anndata(adata)
    X = matrix(adata, layer)
    batches = column(adata, "batch_key", batch_key)
    labels = None if labels_key is None else column(adata, "labels_key", labels_key)
    known = batches.notna() if labels is None else batches.notna() & labels.notna()
    rows = np.flatnonzero(known.to_numpy())
    if len(rows) == 0:
        raise ValueError(f"batch_key and labels_key must be known of some cells, got {batch_key!r} and {labels_key!r}")
    y = None if labels is None else plain_labels(labels.iloc[rows])
    X = X if len(rows) == adata.n_obs else some_rows(X, rows)
    found = examine(X, plain_labels(batches.iloc[rows]), y, **options)
    rank = np.full(adata.n_vars, np.nan)
    rank[found.features] = np.arange(1, len(found.features) + 1)
    adata.var[f"{key_added}_rank"] = rank
    adata.uns[key_added] = {
        "batch_key": batch_key,
        **({} if labels_key is None else {"labels_key": labels_key}),
        **({} if layer is None else {"layer": layer}),
        "structure": found.structure,
        "size": found.size,
        "p_value": found.p_value,
        "worth_trying": as_stored(np.array(found.worth_trying, dtype=str)),
        "json": json.dumps(found.to_dict()),
    }
    return found
