"""New samples put in order for a trained model: features are matched by name, never by place alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite

from gsat import _checks
from gsat._arrays.standardise import dense
from gsat.estimators.classifier import TorchClassifier

Fill = Literal["error", "mean", "zero"]
SHOWN = 5  # names in a message
ENSEMBL = re.compile(r"ENS[A-Z]*\d{6,}")
VERSION = re.compile(r"^(ENS[A-Z]*\d{6,})\.\d+$", re.IGNORECASE)


@dataclass(frozen=True)
class Alignment:
    """Where the features of a model are among those given.

    Parameters
    ----------
    order
        For each feature of the model its column, −1 where it is missing.
    missing, extra
        The names that only the model has, and that only the samples have.
    by_name
        False where the model or the samples have no names, and the places alone tell.
    """

    order: NDArray[np.intp]
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    by_name: bool = True

    def describe(self, missing: Fill = "error") -> str:
        """One line for the user; `missing` says what the missing ones were filled with."""
        if not self.by_name:
            return f"{len(self.order)}, matched by place: the model or the samples have no names"
        parts = [f"{len(self.order) - len(self.missing)} of {len(self.order)} matched by name"]
        if self.missing:
            filled = {"mean": " and filled with their means in training", "zero": " and filled with 0"}.get(missing, "")
            parts.append(f"{len(self.missing)} missing{filled} ({listed(self.missing)})")
        if self.extra:
            parts.append(f"{len(self.extra)} extra left out ({listed(self.extra)})")
        return ", ".join(parts)


def align(
    classifier: Any, names: Sequence[str] | None, n_features: int, missing: Fill = "error", *, loose: bool = False
) -> Alignment:
    """How samples are put in order for a classifier.

    Parameters
    ----------
    classifier
        A fitted classifier.
    names, n_features
        The names of the samples' features, or None, and their number.
    missing
        What happens where the model has features that the samples lack: an "error", or they are filled with their
        "mean" in training or with "zero".
    loose
        Whether names are compared without the versions of Ensembl ids and without regard to case.

    Returns
    -------
    Alignment
        The column of each feature of the model, and the names on one side alone.
    """
    if missing not in ("error", "mean", "zero"):
        raise ValueError(f'missing must be "error", "mean" or "zero", got {missing!r}')
    wanted: Any = getattr(classifier, "feature_names_in_", None)
    if wanted is None or names is None:
        if n_features != classifier.n_features_in_:
            who = "the model" if wanted is None else "the samples"
            raise ValueError(
                f"the samples must have the {classifier.n_features_in_} features of the model, got {n_features}, and "
                f"{who} have no feature names to match them by"
            )
        return Alignment(np.arange(n_features), by_name=False)
    if loose:
        names, wanted = [simple(name) for name in names], np.array([simple(name) for name in wanted], dtype=object)
        if len(set(wanted.tolist())) < len(wanted):
            raise ValueError("the features of the model must be distinct without versions and case, got some twice")
    place: dict[str, int] = {}
    twice = {name for j, name in enumerate(names) if place.setdefault(name, j) != j}
    if doubtful := [name for name in wanted if name in twice]:
        raise ValueError(f"the samples must have distinct feature names, got {listed(doubtful)} more than once")
    order = np.array([place.get(name, -1) for name in wanted], dtype=np.intp)
    absent = tuple(wanted[order < 0].tolist())
    if len(absent) == len(wanted):
        raise ValueError(
            f"the samples must have the features of the model ({listed(wanted)}), got none of them but {listed(names)}"
            f"{hint(wanted, names)}"
        )
    if absent and missing == "error":
        raise ValueError(
            f"the samples must have all {len(wanted)} features of the model, {len(absent)} are missing: "
            f'{listed(absent)}; "mean" or "zero" for missing features would fill them'
            f"{hint(wanted, names)}"
        )
    if absent and missing == "mean" and not classifier.standardize:
        raise ValueError('missing = "mean" needs a model with standardize=True, which keeps the means of training')
    if absent and missing == "mean" and classifier.normalise != "none":
        raise ValueError(
            f'missing = "mean" needs a model with normalise="none", got "{classifier.normalise}": the normalisation of '
            "a sample depends on all its features"
        )
    if absent and missing == "mean" and classifier.prepare == "zscore":
        raise ValueError(
            'missing = "mean" needs a model with prepare="none" or "centre", got "zscore": the z-score of a '
            "sample depends on all its features"
        )
    return Alignment(order, absent, tuple(name for name in names if name not in set(wanted)))


def simple(name: str) -> str:
    """A name without the version of an Ensembl id (ENSG00000000003.15) and without regard to case."""
    return VERSION.sub(r"\1", name).casefold()


def hint(wanted: Sequence[str], names: Sequence[str]) -> str:
    """What would make more features match, for the end of a message; "" where nothing is known."""
    there, given = set(wanted), set(names)
    found = {simple(name) for name in given} & {simple(name) for name in there}
    if len(found) > len(there & given):
        return (
            f"; {len(found)} of {len(there)} match without Ensembl versions and without regard to case: --loose-names "
            "compares them so"
        )
    kinds = [sum(map(bool, map(ENSEMBL.match, each))) > 0.5 * len(each) for each in (there, given)]
    if kinds[0] != kinds[1]:
        theirs, yours = ("Ensembl ids", "other names, such as symbols") if kinds[0] else ("symbols", "Ensembl ids")
        return f"; the model has {theirs} and the samples {yours}: rename the features of one as those of the other"
    return ""


def probabilities(
    classifier: TorchClassifier, X: Any, alignment: Alignment, missing: Fill, batch: Any = None
) -> NDArray[np.float64]:
    """The probability of each class, for samples whose features are in any order.

    A few samples at a time are put in order, so that X is never copied whole.

    Parameters
    ----------
    classifier
        A fitted classifier.
    X
        Samples (n, features), dense or sparse.
    alignment, missing
        What `align` found, and what it was told of missing features.
    batch
        One id per sample, as in `predict_proba`; or None.

    Returns
    -------
    array
        Probabilities (n, classes).
    """
    if X.shape[0] == 0:
        raise ValueError("X must have at least one sample, got none")
    filled = classifier.mean_ if missing == "mean" else np.zeros(len(alignment.order), np.float32)
    return classifier._chances(classifier._seen(Aligned(X, alignment.order, filled), batch))


class Aligned:
    """The rows of X with the features of a model in its order, float32; made and checked when they are asked for.

    Parameters
    ----------
    X
        Samples (n, features), dense or sparse.
    order
        As in `Alignment`, (d,).
    filled
        What missing features become, (d,).
    """

    def __init__(self, X: Any, order: NDArray[np.intp], filled: NDArray[np.float32]) -> None:
        self.X, self.shape = X, (X.shape[0], len(order))
        self.there, self.filled = order >= 0, filled
        self.columns = order[self.there]
        self.in_place = bool(self.there.all()) and np.array_equal(order, np.arange(X.shape[1]))

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        known = dense(self.X[rows] if self.in_place else self.X[rows][:, self.columns], np.float64)
        assert_all_finite(known, input_name="X")
        _checks.fits_float32("X", known)
        found = np.tile(self.filled, (len(known), 1))
        found[:, self.there] = known
        return found


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(str, names[:SHOWN])) + more
