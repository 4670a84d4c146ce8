"""What the numbers of samples look like: counts, logarithms or something else, and whether new ones look the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gsat.data.rows import BLOCK, dense_rows

LOOKED = 1000  # samples that are looked at, spread evenly over all
COUNTS = 30  # whole numbers up to more than this are counts; genotypes, scores and pictures end before
GENOTYPES = 2  # whole numbers up to this are genotypes or marks, also where means were filled in for a few
WIDE = 20  # features from which a table can be one of counts
LOGARITHMS = 30  # logarithms of counts stay below
EVEN = 0.02  # of the mean: row sums that differ no more were made alike
APART = 1.2  # times: row sums that differ more, beyond all of training, are of another normalisation
WIDER = 5.0  # times the range of training

Looks = dict[str, float]


def looks(X: Any) -> Looks:
    """What the numbers look like.

    Parameters
    ----------
    X
        Samples (n, *features), an array or `StoredRows`.

    Returns
    -------
    dict
        `whole`, the share of whole numbers; `low`, `high`; `zeros`, their share; `sum`, `sum_low` and `sum_high`, the
        median, least and largest sum of a sample; `features`.
    """
    chosen = np.unique(np.linspace(0, len(X) - 1, min(LOOKED, len(X))).astype(np.int64))
    d = math.prod(X.shape[1:])
    step = max(1, BLOCK // max(1, d))
    whole, zeros, lows, highs, by_sample = 0, 0, [], [], []
    for begin in range(0, len(chosen), step):
        flat = dense_rows(X, chosen[begin : begin + step]).reshape(-1, d)
        whole += int(np.count_nonzero(flat == np.floor(flat)))
        zeros += int(np.count_nonzero(flat == 0))
        lows.append(flat.min())
        highs.append(flat.max())
        by_sample.append(flat.sum(1, dtype=np.float64))
    sums = np.concatenate(by_sample)
    return {
        "whole": whole / (len(chosen) * d),
        "low": float(min(lows)),
        "high": float(max(highs)),
        "zeros": zeros / (len(chosen) * d),
        "sum": float(np.median(sums)),
        "sum_low": float(sums.min()),
        "sum_high": float(sums.max()),
        "features": float(d),
    }


def kind(one: Looks) -> str:
    """What numbers such as these are: "counts", "genotypes", "logarithms", "signed" or "other"."""
    if one["low"] < 0:
        return "signed"
    if one["high"] <= GENOTYPES and one["whole"] - one["zeros"] >= (1 - one["zeros"]) / 2:
        return "genotypes"
    if one["whole"] == 1:
        return "counts" if one["high"] > COUNTS and one["features"] >= WIDE else "other"
    return "logarithms" if one["high"] <= LOGARITHMS else "other"


def in_words(one: Looks) -> str:
    """A few words for the user."""
    names = {
        "counts": "raw counts (whole numbers",
        "genotypes": "genotypes or other small numbers (most of them whole",
        "logarithms": "logarithms or other small numbers (not whole, none below 0",
        "signed": "centred or scaled values (some below 0",
        "other": "whole numbers (" if one["whole"] == 1 else "numbers (not whole",
    }
    head = names[kind(one)]
    return f"{head}{'' if head.endswith('(') else ', '}{one['low']:.4g} to {one['high']:.4g})"


def of_training(one: Looks, normalise: str) -> str | None:
    """What a user should know of the training samples and their --normalise; None where they fit.

    Parameters
    ----------
    one
        Of the training samples, before they are normalised.
    normalise
        The option.

    Returns
    -------
    str or None
        A sentence.
    """
    found = kind(one)
    if found == "counts" and normalise == "none":
        return (
            f"the samples look like {in_words(one)}, and a sample adds up to {one['sum_low']:.4g} to "
            f"{one['sum_high']:.4g}: depth is learnt with the rest; --normalise log1p-cpm takes it away"
        )
    if found == "logarithms" and normalise == "log1p-cpm":
        return f"--normalise log1p-cpm is for counts, and the samples look like {in_words(one)}"
    return None


def of_new(new: Looks, trained: Looks, normalise: str) -> list[str]:
    """How new samples look otherwise than those of training, both before the model normalises them.

    Parameters
    ----------
    new, trained
        Of the same features.
    normalise
        Of the model.

    Returns
    -------
    list of str
        A sentence each; none where they look alike.
    """
    if kind(new) != kind(trained):
        return [
            f"the new samples look like {in_words(new)}, those of training like {in_words(trained)}: the predictions "
            f"cannot be trusted before they are alike; {_remedy(new, trained, normalise)}"
        ]
    if normalise == "log1p-cpm" and kind(new) == "counts":
        return []  # the depth of a sample does not count
    found = []
    span, middle = trained["sum_high"] - trained["sum_low"], trained["sum"]
    outside = new["sum"] > trained["sum_high"] or new["sum"] < trained["sum_low"]
    ratio = new["sum"] / middle if middle > 0 and new["sum"] > 0 else 1.0
    even = span < EVEN * abs(middle)
    if outside and trained["low"] >= 0 and (max(ratio, 1 / ratio) > APART or (even and abs(ratio - 1) > EVEN)):
        found.append(
            f"the new samples add up to {new['sum']:.4g} each (median), those of training to {middle:.4g} "
            f"({trained['sum_low']:.4g} to {trained['sum_high']:.4g}): another normalisation?"
        )
    width = max(trained["high"] - trained["low"], np.finfo(float).tiny)
    if new["high"] - trained["high"] > WIDER * width or trained["low"] - new["low"] > WIDER * width:
        found.append(
            f"the new samples are between {new['low']:.4g} and {new['high']:.4g}, those of training between "
            f"{trained['low']:.4g} and {trained['high']:.4g}: other units?"
        )
    return found


def _remedy(new: Looks, trained: Looks, normalise: str) -> str:
    if normalise == "log1p-cpm":
        return "the model takes raw counts and normalises them itself"
    if kind(new) == "counts":
        return "normalise them as the training samples were, or train with --normalise log1p-cpm on raw counts"
    if kind(trained) == "counts":
        return "the model was trained on raw counts"
    return "normalise them as the training samples were"
