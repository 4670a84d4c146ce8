"""Plots of what `gsat.tl` wrote into an AnnData object; each returns matplotlib axes and leaves pyplot as it was.

With show=None a figure is shown in a notebook where no axes are given; show=True shows it anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from gsat import _checks
from gsat._files import parse_json
from gsat._show import drawing
from gsat.diagnosis import Diagnosis
from gsat.estimators.cells import check_anndata, column
from gsat.training import History, Step

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["confusion", "history", "scores", "shift"]

WITH_NUMBERS = 20  # classes of a confusion matrix whose entries are written out, at the most


def confusion(
    adata: AnnData,
    labels_key: str | None = None,
    *,
    key_added: str = "gsat",
    normalise: bool = True,
    only_new: bool = False,
    ax: Any = None,
    show: bool | None = None,
) -> Any:
    """Draw which label was predicted (columns) for the cells of each label (rows).

    The title says how many of the cells were trained on: their accuracy flatters.

    Parameters
    ----------
    adata
        Cells that `gsat.tl.fit` or `gsat.tl.predict` has predicted.
    labels_key
        The column of .obs with the true labels; None for that of `gsat.tl.fit`. Cells without one are left out.
    key_added
        That of `gsat.tl.fit` or `gsat.tl.predict`.
    normalise
        Whether rows are shares of the cells of a label, in percent, or counts.
    only_new
        Whether cells that `gsat.tl.fit` was trained on, those with a label of its labels_key, are left out.
    ax
        Matplotlib axes; None for new ones.
    show
        Whether the figure is shown; None: in a notebook, where no axes are given.

    Returns
    -------
    Axes
        Those given, or new ones, which pyplot does not keep.

    Examples
    --------
    >>> import anndata
    >>> import gsat
    >>> table = gsat.data.make_batches(120, 10)
    >>> adata = anndata.AnnData(table.X, obs={"type": table.y.astype(str)})
    >>> clf = gsat.tl.fit(adata, "type", n_outer=30, eta0=0.02, hidden=10, random_state=0)
    >>> ax = gsat.pl.confusion(adata)
    >>> ax.get_xlabel()
    'predicted'
    """
    check_anndata(adata)
    about = adata.uns.get(key_added, {})
    key = about.get("labels_key") if labels_key is None else labels_key
    if key is None:
        raise ValueError("labels_key must name the column of .obs with the true labels, got None")
    truth, predicted = (
        column(adata, "labels_key", key),
        _written(adata.obs, "obs", f"{key_added}_prediction", "predict"),
    )
    trained_on = _trained_on(adata, about)
    known = truth.notna().to_numpy() & ~(trained_on & only_new)
    if not known.any():
        which = "all are missing" + " or were trained on" * only_new
        raise ValueError(f"labels_key must name a column with labels, got {key!r}, where {which}")
    true, said = (values[known].astype(str).to_numpy() for values in (truth, predicted))
    classes = list(dict.fromkeys([*map(str, about.get("classes", ())), *np.unique(true), *np.unique(said)]))
    counts = confusion_matrix(true, said, labels=classes)
    totals = counts.sum(1)
    shares = 100 * counts / np.maximum(totals, 1)[:, None]
    balanced = shares.diagonal()[totals > 0].mean()
    n_old = int(trained_on[known].sum())
    with drawing(ax, show, (1.5 + 0.45 * max(8, len(classes)),) * 2) as ax:
        ax.imshow(shares, cmap="Blues", vmin=0, vmax=100)
        if len(classes) <= WITH_NUMBERS:
            _write_entries(ax, shares, shares.round().astype(int) if normalise else counts)
        ax.set_xticks(range(len(classes)), classes, rotation=45, ha="right")
        ax.set_yticks(range(len(classes)), classes)
        ax.set_xlabel("predicted")
        ax.set_ylabel(f"{key}, {'% of its cells' if normalise else 'cells'}")
        who = f"{known.sum()} cells, {n_old} of them trained on" if n_old else f"{known.sum()} cells"
        ax.set_title(f"{who}\naccuracy {100 * (true == said).mean():.0f} %, balanced {balanced:.0f} %", fontsize=10)
    return ax


def scores(adata: AnnData, n: int = 20, *, key_added: str = "gsat", ax: Any = None, show: bool | None = None) -> Any:
    """Draw the genes on which the adversary of training spent most of its effort.

    Parameters
    ----------
    adata
        Cells that `gsat.tl.fit` was trained on.
    n
        Genes, at the most.
    key_added
        That of `gsat.tl.fit`.
    ax
        Matplotlib axes; None for new ones.
    show
        Whether the figure is shown; None: in a notebook, where no axes are given.

    Returns
    -------
    Axes
        Those given, or new ones, which pyplot does not keep.

    Examples
    --------
    >>> import anndata
    >>> import gsat
    >>> table = gsat.data.make_batches(120, 10)
    >>> adata = anndata.AnnData(table.X, obs={"type": table.y.astype(str)})
    >>> clf = gsat.tl.fit(adata, "type", n_outer=30, eta0=0.02, hidden=10, random_state=0)
    >>> len(gsat.pl.scores(adata, n=5).patches)
    5
    """
    check_anndata(adata)
    _checks.count("n", n, least=1)
    first = _written(adata.var, "var", f"{key_added}_score", "fit").nlargest(n)
    with drawing(ax, show, (5.0, 1.0 + 0.22 * len(first))) as ax:
        ax.barh(range(len(first)), 100 * first.to_numpy())
        ax.set_yticks(range(len(first)), first.index)
        ax.invert_yaxis()
        ax.set_xlabel("share of the adversary's effort, %")
    return ax


def shift(adata: Any, *, key_added: str = "gsat_shift", ax: Any = None, show: bool | None = None) -> Any:
    """Draw which structure the shift between batches has.

    Parameters
    ----------
    adata
        Cells that `gsat.tl.diagnose` has looked at, also after they were written and read; or a Diagnosis.
    key_added
        That of `gsat.tl.diagnose`.
    ax
        Matplotlib axes for the shares of the structures alone; None for a new figure with all three panels.
    show
        Whether the figure is shown; None: in a notebook, where no axes are given.

    Returns
    -------
    Axes
        Those given, or an array of the three new ones.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_shift(120, 8, shift="universal", strength=1.0)
    >>> found = gsat.diagnose(table.X, table.batch, table.y, n_splits=3)
    >>> len(gsat.pl.shift(found))  # panels
    3
    """
    if not isinstance(adata, Diagnosis):
        check_anndata(adata)
        about = adata.uns.get(key_added)
        if not isinstance(about, Mapping) or "json" not in about:
            raise ValueError(f"adata.uns must have {key_added!r}, which gsat.tl.diagnose writes")
        adata = Diagnosis.from_dict(parse_json(f"adata.uns[{key_added!r}]", str(about["json"])))
    return adata.plot(ax=ax, show=show)


def history(
    source: Any, measure: str = "loss", *, key_added: str = "gsat", ax: Any = None, show: bool | None = None
) -> Any:
    """Draw what was recorded in training, step by step.

    Parameters
    ----------
    source
        Cells that `gsat.tl.fit` was trained on, also after they were written and read; a fitted classifier; or its
        `history_`.
    measure
        As in `History.plot`: "loss", "mean_norm", "lam", "measure", "learning_rate", "validation" or "validation_loss".
    key_added
        That of `gsat.tl.fit`.
    ax
        Matplotlib axes; None for new ones.
    show
        Whether the figure is shown; None: in a notebook, where no axes are given.

    Returns
    -------
    Axes
        Those given, or new ones, which pyplot does not keep.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.GSATClassifier(n_outer=40, eta0=0.03, hidden=10, random_state=0).fit(table.X, table.y)
    >>> gsat.pl.history(clf, "mean_norm").get_ylabel()
    'mean ‖δ‖'
    """
    found = getattr(source, "history_", source)
    if not isinstance(found, History):
        check_anndata(found)
        about = found.uns.get(key_added)
        if not isinstance(about, Mapping) or "history" not in about:
            raise ValueError(f"adata.uns[{key_added!r}] must have a history, which gsat.tl.fit writes")
        found = _history(about["history"])
    return found.plot(measure, ax=ax, show=show)


def _written(frame: pd.DataFrame, place: str, name: str, tool: str) -> pd.Series:
    if name not in frame:
        raise ValueError(f"adata.{place} must have {name!r}, which gsat.tl.{tool} writes")
    return frame[name]


def _trained_on(adata: AnnData, about: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Which cells `gsat.tl.fit` was trained on: those with a label, where it is what was written last."""
    if "n_trained" not in about or about.get("labels_key") not in adata.obs:
        return np.zeros(adata.n_obs, dtype=bool)
    return np.asarray(adata.obs[about["labels_key"]].notna())


def _write_entries(ax: Any, shares: Any, entries: Any) -> None:
    for (row, place), entry in np.ndenumerate(entries):
        if entry:
            colour = "white" if shares[row, place] > 60 else "black"
            ax.text(place, row, str(entry), ha="center", va="center", fontsize=8, color=colour)


def _history(arrays: Mapping[str, Any]) -> History:
    """The steps that `gsat.tl.fit` wrote down as arrays."""
    columns = {name: np.asarray(values).tolist() for name, values in arrays.items()}
    steps: list[Step] = []
    for row in zip(*columns.values(), strict=True):
        known = {name: value for name, value in zip(columns, row, strict=True) if not math.isnan(value)}
        steps.append(Step(int(known.pop("t")), **known))
    return History(steps)
