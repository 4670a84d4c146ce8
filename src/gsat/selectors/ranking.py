"""The features that a selector ranked, as a table and as a picture."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pandas as pd

from gsat.data import Table
from gsat.estimators.relevance import block_name
from gsat.selectors.selector import GroupSparseSelector

DRAWN = 40  # features in the picture: more names cannot be read


def rank(table: Table, selector: GroupSparseSelector) -> pd.DataFrame:
    """Fit the selector and list the features, or the blocks of the table's feature_groups, best first.

    Parameters
    ----------
    table
        Samples, labels and, where they have them, names and blocks of features.
    selector
        Is given the blocks, and fitted.

    Returns
    -------
    DataFrame
        One row each: rank, name, score; with fdr also statistic and chosen, with resamples also selection_frequency and
        the interval score_low, score_high.
    """
    X = table.flat
    groups = table.feature_groups
    fitted = selector.set_params(feature_groups=groups).fit(X, table.y)
    names = [f"feature {j}" for j in range(X.shape[1])] if table.feature_names is None else list(table.feature_names)
    first = np.arange(X.shape[1]) if groups is None else np.unique(groups, return_index=True)[1]
    order = first[np.argsort(fitted.ranking_[first], kind="stable")]
    frame = pd.DataFrame(
        {
            "rank": fitted.ranking_[order],
            "name": [names[j] if groups is None else block_name(names, groups, j) for j in order],
            "score": fitted.scores_[order],
        }
    )
    if selector.fdr is not None:
        frame["statistic"] = fitted.statistic_[order]
        frame["chosen"] = fitted.get_support()[order]
    if selector.n_resamples > 0:
        frame["selection_frequency"] = fitted.selection_frequency_[order]
        frame[["score_low", "score_high"]] = fitted.scores_interval_[order]
    return frame


def picture(frame: pd.DataFrame) -> bytes:
    """A picture of the scores of the first features as bars, with their intervals where there are any.

    Parameters
    ----------
    frame
        What `rank` returns.

    Returns
    -------
    bytes
        A PNG.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    top = frame.head(DRAWN).iloc[::-1]
    figure = Figure(figsize=(6.4, 1.2 + 0.22 * len(top)), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    error = None
    if "score_low" in top and top["score_low"].notna().any():  # one resample has no interval
        error = np.abs(top[["score_low", "score_high"]].to_numpy() - top[["score"]].to_numpy()).T
    panel.barh(top["name"].astype(str), 100 * top["score"], color="#4477aa", height=0.7)
    if error is not None:
        panel.errorbar(100 * top["score"], range(len(top)), xerr=100 * error, fmt="none", ecolor="black", lw=1)
    panel.set_xlabel(
        "share of the adversary's effort, %" + ("; lines: 95 % intervals of the mean" if error is not None else "")
    )
    panel.set_title(f"the first {len(top)} of {len(frame)} features" if len(top) < len(frame) else "features by score")
    panel.margins(y=0.01)
    panel.set_xlim(left=0)
    panel.grid(axis="x", alpha=0.3)
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=130)
    return stream.getvalue()
