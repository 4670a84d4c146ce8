"""AnnData in, AnnData out: `gsat.tl.fit(adata, labels_key="cell_type")`, then `gsat.tl.predict(other, classifier)`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from gsat.defences import ERM
from gsat.estimators import GSATClassifier
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.matching import Alignment, Fill, align, listed, probabilities
from gsat.experiments.check_result import CheckResult
from gsat.experiments.checking import check as check_samples

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["check", "fit", "predict"]

N_GROUPS = 20  # of training cells, on which the adversary is watched for the scores


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
        Cells in memory. It is not written to.
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
    _check_anndata(adata)
    X, labels = _matrix(adata, layer), _column(adata, "labels_key", labels_key)
    known = _labelled(labels, labels_key)
    batch = None if batch_key is None else _column(adata, "batch_key", batch_key).to_numpy()[known]
    return check_samples(X[known], _labels(labels.iloc[known]), batch, **options)


def fit(
    adata: AnnData,
    labels_key: str,
    batch_key: str | None = None,
    layer: str | None = None,
    *,
    classifier: TorchClassifier | None = None,
    key_added: str = "gsat",
    **params: Any,
) -> TorchClassifier:
    """Train on the cells that have a label, predict all of them, and write into `adata`.

    With key_added="gsat" it writes
    .obs["gsat_prediction"]      the predicted label, categorical
    .obs["gsat_confidence"]      its probability
    .obsm["gsat_probabilities"]  (cells, classes), in the order of .uns["gsat"]["classes"]
    .var["gsat_score"]           each gene's share of the effort of the adversary of training, where there is one
    .uns["gsat"]                 keys, classes, classifier, its parameters, λ, and how many cells were trained on

    Parameters
    ----------
    adata
        Cells in memory, with distinct var_names. It is written to.
    labels_key
        The column of .obs with the labels; cells without one are predicted and not trained on.
    batch_key
        The column of .obs with the batches, or None.
    layer
        The layer to take instead of .X; sparse matrices are never made dense as a whole.
    classifier
        An unfitted classifier, which is not changed; None for a `GSATClassifier`.
    key_added
        What the names that are written begin with.
    **params
        Of the `GSATClassifier`, where no classifier is given.

    Returns
    -------
    TorchClassifier
        The fitted classifier.
    """
    if classifier is not None and params:
        raise ValueError(f"params must not be given beside classifier=, got {listed(list(params))}; set them on it")
    _check_anndata(adata)
    if not adata.var_names.is_unique:
        raise ValueError(
            "adata must have distinct var_names, by which a model knows its genes, got some twice; call "
            "adata.var_names_make_unique() first"
        )
    X = _matrix(adata, layer)
    labels = _column(adata, "labels_key", labels_key)
    known = _labelled(labels, labels_key)
    batches = None if batch_key is None else _column(adata, "batch_key", batch_key).to_numpy()
    batch = None if batches is None else batches[known]
    y = _labels(labels.iloc[known])
    made: Any = GSATClassifier(**params) if classifier is None else clone(classifier)
    trained_on = X if len(known) == adata.n_obs else X[known]
    made.fit(trained_on, y, batch=batch)
    fitted: TorchClassifier = getattr(made, "best_estimator_", made)  # what GSATClassifierCV chose
    _write_predictions(adata, fitted, fitted.predict_proba(X, batches), key_added)
    if not isinstance(fitted._defence(fitted.mean_norm_, fitted._loss, 0), ERM):
        adata.var[f"{key_added}_score"] = _scores(fitted, trained_on, y, batch)
    fitted.feature_names_in_ = np.asarray(adata.var_names, dtype=object)
    adata.uns[key_added] = {
        "labels_key": labels_key,
        **({} if batch_key is None else {"batch_key": batch_key}),
        **({} if layer is None else {"layer": layer}),
        "classes": _plain(fitted.classes_),
        "classifier": type(fitted).__name__,
        "params": {k: v for k, v in fitted.get_params(deep=False).items() if isinstance(v, str | int | float)},
        **({} if fitted.lam_ is None else {"lam": fitted.lam_}),
        "mean_norm": fitted.mean_norm_,
        "n_trained": len(known),
    }
    return fitted


def predict(
    adata: AnnData,
    classifier: TorchClassifier,
    layer: str | None = None,
    *,
    batch_key: str | None = None,
    missing: Fill = "error",
    key_added: str = "gsat",
) -> Alignment:
    """Predict the cells of `adata`, with genes matched by name, and write as `fit` does to .obs and .obsm.

    Parameters
    ----------
    adata
        Cells in memory. It is written to.
    classifier
        A fitted classifier.
    layer
        The layer to take instead of .X.
    batch_key
        The column of .obs with the batches, for a classifier with prepare="centre"; without it `adata` is one batch, of
        which a warning tells.
    missing
        What happens where genes of the model are not in `adata`: an "error", or they are filled with their "mean" in
        training or with "zero". Other genes are left out.
    key_added
        What the names that are written begin with.

    Returns
    -------
    Alignment
        Which genes were missing and which left out.
    """
    _check_anndata(adata)
    X = _matrix(adata, layer)
    found = align(classifier, adata.var_names.tolist(), adata.n_vars, missing)
    batch = None if batch_key is None else _column(adata, "batch_key", batch_key).to_numpy()
    if batch is None and classifier.prepare == "centre":
        warnings.warn("the cells of adata are taken as one batch; batch_key= would name their batches", stacklevel=2)
    _write_predictions(adata, classifier, probabilities(classifier, X, found, missing, batch), key_added)
    return found


def _check_anndata(adata: Any) -> None:
    from anndata import AnnData

    if not isinstance(adata, AnnData):
        raise TypeError(f"adata must be an AnnData object, got {type(adata).__name__}; for a matrix take clf.fit(X, y)")


def _write_predictions(
    adata: AnnData, classifier: TorchClassifier, chances: NDArray[np.float64], key_added: str
) -> None:
    classes = _plain(classifier.classes_)
    adata.obs[f"{key_added}_prediction"] = pd.Categorical.from_codes(
        chances.argmax(1), pd.Index(classes, dtype=classes.dtype)
    )
    adata.obs[f"{key_added}_confidence"] = chances.max(1)
    adata.obsm[f"{key_added}_probabilities"] = chances


def _matrix(adata: AnnData, layer: str | None) -> Any:
    """The samples, dense or CSR."""
    if adata.isbacked:
        raise ValueError("adata must be in memory, got a backed one; call adata.to_memory() first")
    if layer is not None and layer not in adata.layers:
        raise ValueError(f"layer must be one of {listed(list(adata.layers)) or 'none'}, got {layer!r}")
    X = adata.X if layer is None else adata.layers[layer]
    if X is None:
        raise ValueError("adata must have a matrix .X, or layer= must name one of its layers, got neither")
    if sparse.issparse(X):
        return X.tocsr()
    return X if isinstance(X, np.ndarray) else np.asarray(X)


def _column(adata: AnnData, option: str, key: str) -> pd.Series:
    if key not in adata.obs:
        raise ValueError(f"{option} must be a column of .obs ({listed(list(adata.obs.columns))}), got {key!r}")
    return adata.obs[key]


def _labelled(labels: pd.Series, labels_key: str) -> NDArray[np.intp]:
    """The positions of the cells that have a label."""
    known = np.flatnonzero(labels.notna().to_numpy())
    if len(known) == 0:
        raise ValueError(f"labels_key must name a column with labels, got {labels_key!r}, where all are missing")
    return known


def _labels(labels: pd.Series) -> NDArray[Any]:
    """The labels as text or numbers: of a categorical those in use alone."""
    values: NDArray[Any] = labels.to_numpy()
    return values.astype(str) if values.dtype.kind == "O" and all(isinstance(v, str) for v in values) else values


def _plain(classes: NDArray[Any]) -> NDArray[Any]:
    """Text as objects, which is what .h5ad files can hold; numbers as they are."""
    return classes.astype(object) if classes.dtype.kind == "U" else classes


def _scores(classifier: Any, X: Any, y: NDArray[Any], batch: Any) -> NDArray[np.float64]:
    """Each feature's share of the effort: the norm of its column of Δ over some groups, in units of its deviation."""
    rows, targets, loss = classifier._rows(X, batch), torch.as_tensor(classifier._codes(y)), classifier._loss
    effort = np.zeros(X.shape[1])
    for chosen in _groups(len(rows), classifier.group_size):
        delta = classifier._moved(classifier._trained_defence(loss, targets), rows, targets, batch, chosen)
        effort += np.square(delta, dtype=np.float64).sum(0)
    effort = np.sqrt(effort)
    return np.asarray(effort / (effort.sum() or 1.0))


def _groups(n: int, group_size: int) -> Iterator[NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    return (np.sort(rng.choice(n, min(group_size, n), replace=False)) for _ in range(N_GROUPS))
