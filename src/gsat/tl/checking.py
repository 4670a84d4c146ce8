"""`gsat.check` on the cells of an AnnData object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gsat.data.rows import some_rows
from gsat.estimators.cells import check_anndata, column, labelled, matrix, plain_labels
from gsat.experiments.check_result import CheckResult
from gsat.experiments.checking import check as check_samples

if TYPE_CHECKING:
    from anndata import AnnData


def check(
    adata: AnnData,
    labels_key: str,
    batch_key: str | None = None,
    layer: str | None = None,
    **options: Any,
) -> CheckResult:
    """Should robust training be used on these cells, and how well will it do on the next batch? `gsat.check` says.

    Parameters
    ----------
    adata
        Cells, in memory or backed. It is not written to.
    labels_key
        The column of .obs with the labels; cells without one are left out.
    batch_key
        The column of .obs with the batches, or None, with which nothing is known about a next batch.
    layer
        The layer to take instead of .X.
    **options
        Of `gsat.check`: quick, n_jobs, max_batches, max_samples, max_features, random_state, out, verbose.

    Returns
    -------
    CheckResult
        A table, a verdict in a sentence, and the line that trains the winner.

    Examples
    --------
    >>> import gsat, numpy as np, pandas as pd
    >>> from anndata import AnnData
    >>> obs = pd.DataFrame({"cell_type": ["B"] * 6, "donor": ["d1", "d2"] * 3}, index=list("abcdef"))
    >>> gsat.tl.check(AnnData(np.eye(6), obs=obs), "cell_type", "donor")
    Traceback (most recent call last):
        ...
    ValueError: y must hold at least two classes, got B alone
    """
    check_anndata(adata, written=False)
    X, labels = matrix(adata, layer), column(adata, "labels_key", labels_key)
    known = labelled(labels, labels_key)
    batch = None if batch_key is None else column(adata, "batch_key", batch_key).to_numpy()[known]
    return check_samples(some_rows(X, known), plain_labels(labels.iloc[known]), batch, **options)
