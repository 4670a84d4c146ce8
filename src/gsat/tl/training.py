"""Training on the cells of an AnnData object, and predicting those of another."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from gsat.data.rows import some_rows
from gsat.defences import ERM
from gsat.estimators import GSATClassifier
from gsat.estimators.cells import as_stored, check_anndata, column, labelled, matrix, plain_labels
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.matching import Alignment, Fill, align, listed, members_of, probabilities
from gsat.training import History

if TYPE_CHECKING:
    from anndata import AnnData

N_GROUPS = 20  # of training cells, on which the adversary is watched for the scores


def fit(
    adata: AnnData,
    labels_key: str,
    batch_key: str | None = None,
    layer: str | None = None,
    *,
    classifier: TorchClassifier | None = None,
    key_added: str = "gsat",
    **params: Any,
) -> Any:
    """Train on the cells that have a label, predict all of them, and write into `adata`.

    With key_added="gsat" it writes
    .obs["gsat_prediction"]      the predicted label, categorical
    .obs["gsat_confidence"]      its probability
    .obsm["gsat_probabilities"]  (cells, classes), in the order of .uns["gsat"]["classes"]
    .var["gsat_score"]           each gene's share of the effort of the adversary of training, where there is one
    .uns["gsat"]                 keys, classes, classifier, its parameters, λ, how many cells were trained on, history

    All of it can be written with `adata.write_h5ad`; `gsat.pl` draws it.

    Parameters
    ----------
    adata
        Cells, in memory or backed, with distinct var_names. It is written to, its file is not.
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
    classifier
        The fitted classifier; of a `GSATClassifierCV` what predicts, one classifier or their average.

    Examples
    --------
    >>> import anndata
    >>> import gsat
    >>> table = gsat.data.make_batches(120, 10)
    >>> adata = anndata.AnnData(table.X, obs={"type": table.y.astype(str), "lane": table.batch})
    >>> clf = gsat.tl.fit(adata, "type", batch_key="lane", n_outer=30, eta0=0.02, hidden=10, random_state=0)
    >>> bool((adata.obs["gsat_prediction"].astype(str) == adata.obs["type"]).mean() > 0.8)
    True
    >>> adata.obsm["gsat_probabilities"].shape
    (120, 3)
    """
    if classifier is not None and params:
        raise ValueError(f"params must not be given beside classifier=, got {listed(list(params))}; set them on it")
    check_anndata(adata)
    if not adata.var_names.is_unique:
        raise ValueError(
            "adata must have distinct var_names, by which a model knows its genes, got some twice; call "
            "adata.var_names_make_unique() first"
        )
    X = matrix(adata, layer)
    labels = column(adata, "labels_key", labels_key)
    known = labelled(labels, labels_key)
    batches = None if batch_key is None else column(adata, "batch_key", batch_key).to_numpy()
    batch = None if batches is None else batches[known]
    y = plain_labels(labels.iloc[known])
    made: Any = GSATClassifier(**params) if classifier is None else clone(classifier)
    trained_on = X if len(known) == adata.n_obs else some_rows(X, known)
    made.fit(trained_on, y, batch=batch)
    fitted: Any = getattr(made, "estimator_", made)  # what GSATClassifierCV chose
    average = hasattr(fitted, "estimators_")
    _write_predictions(adata, fitted, fitted.predict_proba(X, batches), key_added)
    adata.var = adata.var.drop(columns=f"{key_added}_score", errors="ignore")  # of an earlier fit
    if not average and not isinstance(fitted._defence(fitted.mean_norm_, fitted._loss, 0), ERM):
        adata.var[f"{key_added}_score"] = _scores(fitted, trained_on, y, batch)
    for one in {fitted, *members_of(fitted)}:
        one.feature_names_in_ = np.asarray(adata.var_names, dtype=object)
    adata.uns[key_added] = {
        "labels_key": labels_key,
        **({} if batch_key is None else {"batch_key": batch_key}),
        **({} if layer is None else {"layer": layer}),
        "classes": as_stored(fitted.classes_),
        "classifier": type(fitted).__name__,
        "params": {k: v for k, v in fitted.get_params(deep=False).items() if isinstance(v, str | int | float)},
        **({} if average or fitted.lam_ is None else {"lam": fitted.lam_}),
        **({} if average else {"mean_norm": fitted.mean_norm_}),
        "n_trained": len(known),
        **({} if average else {"history": _recorded(fitted.history_)}),
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

    What another classifier wrote under the same key into .var and .uns is taken away: classes and the name of the
    classifier stand in .uns instead.

    Parameters
    ----------
    adata
        Cells, in memory or backed. It is written to, its file is not.
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

    Examples
    --------
    >>> import anndata
    >>> import gsat
    >>> table = gsat.data.make_batches(120, 10)
    >>> adata = anndata.AnnData(table.X, obs={"type": table.y.astype(str)})
    >>> clf = gsat.tl.fit(adata, "type", n_outer=30, eta0=0.02, hidden=10, random_state=0)
    >>> new = anndata.AnnData(table.X[:20, ::-1])
    >>> new.var_names = adata.var_names[::-1]
    >>> gsat.tl.predict(new, clf)
    Alignment(features: 10 of 10 matched by name)
    >>> bool((new.obs["gsat_prediction"].to_numpy() == adata.obs["gsat_prediction"].to_numpy()[:20]).all())
    True
    """
    check_anndata(adata)
    X = matrix(adata, layer)
    found = align(classifier, adata.var_names.tolist(), adata.n_vars, missing)
    batch = None if batch_key is None else column(adata, "batch_key", batch_key).to_numpy()
    if batch is None and classifier.prepare == "centre":
        warnings.warn("the cells of adata are taken as one batch; batch_key= would name their batches", stacklevel=2)
    _write_predictions(adata, classifier, probabilities(classifier, X, found, missing, batch), key_added)
    if not _is_of(adata.uns.get(key_added), classifier):
        adata.uns[key_added] = {"classes": as_stored(classifier.classes_), "classifier": type(classifier).__name__}
        if f"{key_added}_score" in adata.var:
            del adata.var[f"{key_added}_score"]
    return found


def _write_predictions(
    adata: AnnData, classifier: TorchClassifier, chances: NDArray[np.float64], key_added: str
) -> None:
    classes = as_stored(classifier.classes_)
    adata.obs[f"{key_added}_prediction"] = pd.Categorical.from_codes(
        chances.argmax(1), pd.Index(classes, dtype=classes.dtype)
    )
    adata.obs[f"{key_added}_confidence"] = chances.max(1)
    adata.obsm[f"{key_added}_probabilities"] = chances


def _recorded(history: History) -> dict[str, NDArray[Any]]:
    """What was recorded in each step, as arrays, which .h5ad files can hold; NaN where it was not."""
    columns = {name: np.array(values, np.float64) for name, values in history.columns().items()}
    return {name: values for name, values in columns.items() if not np.isnan(values).all()}


def _is_of(about: Any, classifier: Any) -> bool:
    """Whether `fit` wrote `about` for this classifier, or for a copy of it; an average is not known again."""
    made = {"classifier": type(classifier).__name__, "mean_norm": getattr(classifier, "mean_norm_", None)}
    known = made["mean_norm"] is not None and isinstance(about, Mapping)
    return known and all(about.get(name) == value for name, value in made.items())


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
