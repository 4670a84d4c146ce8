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
from gsat._show import Card, Shown, drawing
from gsat.estimators.classifier import TorchClassifier

Fill = Literal["error", "mean", "zero"]
SHOWN = 5  # names in a message
ENSEMBL = re.compile(r"ENS[A-Z]*\d{6,}")
VERSION = re.compile(r"^(ENS[A-Z]*\d{6,})\.\d+$", re.IGNORECASE)


@dataclass(frozen=True, repr=False)
class Alignment(Shown):
    """Where the features of a model are among those given.

    Parameters
    ----------
    order
        For each feature of the model its column, −1 where it is missing.
    missing, extra
        The names that only the model has, and that only the samples have.
    by_name
        False where the model or the samples have no names, and the places alone tell.

    Examples
    --------
    >>> import numpy as np
    >>> from gsat.estimators.matching import Alignment
    >>> Alignment(np.array([2, -1, 0]), missing=("ACTB",), extra=("MALAT1",))
    Alignment(features: 2 of 3 matched by name, 1 missing (ACTB), 1 extra left out (MALAT1))
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

    def _card(self) -> Card:
        facts = {"missing": listed(self.missing) or None, "extra": listed(self.extra) or None}
        return Card(f"features: {self.describe()}", facts)

    def plot(self, *, ax: Any = None, show: bool | None = None) -> Any:
        """Draw how many features were matched, are missing and were left out.

        Parameters
        ----------
        ax
            Matplotlib axes; None for new ones.
        show
            Whether the figure is shown; None: in a notebook, where no axes are given.

        Returns
        -------
        Axes
            Those given, or new ones, which pyplot does not keep.
        """
        counts = {
            "of the model, matched": len(self.order) - len(self.missing),
            "of the model, missing": len(self.missing),
            "of the samples, left out": len(self.extra),
        }
        with drawing(ax, show, (6.4, 2.2)) as ax:
            ax.bar_label(ax.barh(list(counts), list(counts.values())), padding=3)
            ax.invert_yaxis()
            ax.xaxis.get_major_locator().set_params(integer=True)
            ax.set_xlabel("features")
        return ax


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
    members = members_of(classifier)
    if absent and missing == "mean" and not all(one.standardize for one in members):
        raise ValueError('missing = "mean" needs a model with standardize=True, which keeps the means of training')
    if absent and missing == "mean" and classifier.normalise != "none":
        raise ValueError(
            f'missing = "mean" needs a model with normalise="none", got "{classifier.normalise}": the normalisation of '
            "a sample depends on all its features"
        )
    if absent and missing == "mean" and any(one.prepare == "zscore" for one in members):
        raise ValueError(
            'missing = "mean" needs a model with prepare="none" or "centre", got "zscore": the z-score of a '
            "sample depends on all its features"
        )
    known = set(wanted)
    return Alignment(order, absent, tuple(name for name in names if name not in known))


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
    classifier: Any, X: Any, alignment: Alignment, missing: Fill, batch: Any = None
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
    members, found = members_of(classifier), []
    for one in members:
        filled = one.mean_ if missing == "mean" else np.zeros(len(alignment.order), np.float32)
        found.append(one._chances(one._seen(Aligned(X, alignment.order, filled), batch)))
    return np.asarray(sum(found) / len(members))


def members_of(classifier: Any) -> list[TorchClassifier]:
    """The models of an average; a single one otherwise."""
    return list(getattr(classifier, "estimators_", [classifier]))


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
