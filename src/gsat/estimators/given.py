"""Samples as fit and predict are given them: checked by scikit-learn, or by their reader where they stay in a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_X_y
from sklearn.utils.validation import validate_data

from gsat import _checks
from gsat.data.rows import StoredRows

CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float32, np.float64]}


def labelled(estimator: Any, X: Any, y: Any, *, reset: bool, **options: Any) -> tuple[Any, NDArray[Any]]:
    """X (n, features) and y (n,) of a fit; with reset=False those of a fit that goes on.

    Parameters
    ----------
    estimator
        Which is told the number and the names of the features, or, with reset=False, knows them.
    X, y
        As the caller gave them.
    reset
        As in scikit-learn's validate_data.
    **options
        Of validate_data.

    Returns
    -------
    X, y
        Dense, CSR or `StoredRows`; labels or numbers.
    """
    if not isinstance(X, StoredRows):
        X, y = validate_data(estimator, X, y, reset=reset, **CHECKS, **options)
        _checks.fits_float32("X", X)
        return _indexed_alike(X), y
    _, y = check_X_y(np.zeros((len(X), 1), np.float32), y, **options)
    if reset:
        estimator.n_features_in_ = X.shape[1]
        if X.feature_names is not None:
            estimator.feature_names_in_ = np.asarray(X.feature_names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    else:
        _check_features(estimator, X)
    return X, y


def unlabelled(estimator: Any, X: Any) -> Any:
    """X (n, features) of a prediction.

    Parameters
    ----------
    estimator
        Fitted.
    X
        As the caller gave them.

    Returns
    -------
    array, csr_array or StoredRows
        With the features of the estimator.
    """
    if isinstance(X, StoredRows):
        _check_features(estimator, X)
        return X
    X = validate_data(estimator, X, reset=False, **CHECKS)
    _checks.fits_float32("X", X)
    return _indexed_alike(X)


def _indexed_alike(X: Any) -> Any:
    """A sparse X with `indptr` of the dtype of `indices`; else scipy copies both whenever it is asked for a few rows.

    anndata reads `indptr` of a file as int64. Where the number of entries allows it, nothing but `indptr` is copied.
    """
    if not sparse.issparse(X) or X.indptr.dtype == X.indices.dtype:
        return X
    kind = X.indices.dtype if X.nnz <= np.iinfo(X.indices.dtype).max else X.indptr.dtype
    indices, indptr = X.indices.astype(kind, copy=False), X.indptr.astype(kind, copy=False)
    return type(X)((X.data, indices, indptr), shape=X.shape)


def _check_features(estimator: Any, X: StoredRows) -> None:
    """Raise unless the samples have the features of fit."""
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X must have the {estimator.n_features_in_} features of fit, got {X.shape[1]}")
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and X.feature_names is not None and list(known) != list(X.feature_names):
        raise ValueError("X must have the features of fit in their order, got other names or another order")
