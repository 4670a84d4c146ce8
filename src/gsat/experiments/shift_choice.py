"""Methods as selections from the rows of candidates: pure functions, nothing is trained for one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd

from gsat.estimators.leaving_out import best_of
from gsat.experiments.shift_candidates import AUTO, CENTRE, LINEAR, NONE, STRUCTURES

FOLD = ["data", "fold"]
CANDIDATE = ["family", "strength", "metric", "gamma", "prepare", "hidden"]
MEASURED = ["inner", "inner_loss", "accuracy", "balanced_accuracy"]
PREPARED = " (prepared)"


@dataclass(frozen=True)
class Method:
    """The candidates that a method may take; it takes the one with the best inner score.

    families, metrics: those of its candidates
    strengths:         of a family, the only ones that it may take; all where there are none
    prepared:          whether it chooses the preparation too: families of `free` from all, others that of the base
    free:              families that were trained with every preparation, whatever the base
    otherwise:         the families where there are no such candidates, since all training rows are of one batch
    """

    name: str
    families: tuple[str, ...]
    metrics: tuple[str, ...] = (NONE,)
    strengths: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    prepared: bool = False
    free: tuple[str, ...] = LINEAR
    otherwise: tuple[str, ...] = ()

    def among(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Its candidates among those of one fold."""
        found = rows[rows["family"].isin(self.families) & rows["metric"].isin(self.metrics)]
        for family, strengths in self.strengths.items():
            found = found[(found["family"] != family) | found["strength"].isin(strengths)]
        if found.empty and self.otherwise:
            return replace(self, families=self.otherwise, otherwise=()).among(rows)
        if not self.prepared:
            return found[found["prepare"] == "none"]
        return found[found["family"].isin(self.free) | (found["prepare"] == base(rows)["prepare"])]


@dataclass(frozen=True)
class Methods:
    """Several methods, as an argument of a piece."""

    all: tuple[Method, ...]

    def describe(self) -> list[dict[str, Any]]:
        """The methods as JSON."""
        return [asdict(one) for one in self.all]


GSAT_ALL = "GSAT all"
IN_METRIC = tuple(f"{structure}, metric" for structure in STRUCTURES)
PLAIN = (
    Method("majority", ("majority",)),
    Method("logistic", ("logistic",)),
    Method("LDA", ("lda",)),
    Method("ridge, metric", ("logistic",), (AUTO,)),
    Method("erm", ("erm",)),
    Method("group-dro", ("group-dro",), otherwise=("erm",)),
    Method("coral", ("coral",), otherwise=("erm",)),
    Method("pgd", ("pgd",)),
    Method("random draws", ("random",), (AUTO,)),
    Method("unstructured", ("unstructured",)),
    *(Method(structure, (structure,)) for structure in STRUCTURES),
    *(Method(name, (structure,), (AUTO,)) for name, structure in zip(IN_METRIC, STRUCTURES, strict=True)),
    Method(  # as GSATClassifierCV: ERM networks of the usual length, with every preparation
        GSAT_ALL,
        ("logistic", "lda", "erm", "universal", "low-rank"),
        (NONE, AUTO),
        {"erm": (1.0,)},
        free=(*LINEAR, "erm"),
    ),
)
ABLATION = (
    Method("low-rank, within", ("low-rank",), ("within",)),
    Method("low-rank, between", ("low-rank",), ("between",)),
)


def with_preparation(methods: Iterable[Method]) -> tuple[Method, ...]:
    """The same methods, each choosing its preparation; the majority class has none."""
    return tuple(
        replace(one, name=one.name + PREPARED, prepared=True) for one in methods if one.families != ("majority",)
    )


METHODS = {one.name: one for one in (*PLAIN, *with_preparation(PLAIN))}
VARIANTS = {one.name: one for one in (*ABLATION, *with_preparation(ABLATION))}
OURS = tuple(name + suffix for suffix in ("", PREPARED) for name in (GSAT_ALL, *IN_METRIC))


def is_ours(name: str) -> bool:
    """Whether it is GSAT; the unstructured adversary and random draws are rivals."""
    return name.removesuffix(PREPARED).split(",")[0] in (GSAT_ALL, *STRUCTURES)


def over_seeds(results: pd.DataFrame) -> pd.DataFrame:
    """A row for each candidate of a fold: means over the seeds that have a number.

    first: the balanced accuracy with the first seed, the only one with which all candidates are tested
    """
    grouped = results.groupby([*FOLD, *CANDIDATE], sort=False)
    return grouped[MEASURED].mean().assign(first=grouped["balanced_accuracy"].first()).reset_index()


def base(rows: pd.DataFrame) -> pd.Series:
    """The ERM network of the usual length that is best on the inner folds, of the candidates of one fold."""
    return best(rows[(rows["family"] == "erm") & (rows["strength"] == 1)])


def best(rows: pd.DataFrame) -> pd.Series:
    """The candidate of the best inner accuracy, of equals that of the least inner loss, of equals the first."""
    return rows.iloc[best_of(rows["inner"].to_numpy(), rows["inner_loss"].to_numpy())]


def chosen(candidates: pd.DataFrame, methods: Iterable[Method]) -> pd.DataFrame:
    """What each method takes in each fold: a row of `over_seeds` with these columns besides.

    defence:    the method
    candidates: how many it chose from
    hindsight:  the best balanced accuracy of them on the test batch, with the first seed
    sees_batch: whether it is centred, that is, whether it saw the unlabelled samples of the test batch
    """
    return pd.DataFrame(_chosen(candidates, list(methods)))


def _chosen(candidates: pd.DataFrame, methods: list[Method]) -> Iterator[pd.Series]:
    for _, rows in candidates.groupby(FOLD, sort=False):
        for method in methods:
            found = method.among(rows)
            if not found.empty:
                taken = best(found)
                more = {
                    "defence": method.name,
                    "candidates": len(found),
                    "hindsight": found["first"].max(),
                    "sees_batch": taken["prepare"] == CENTRE,
                }
                yield pd.concat([taken, pd.Series(more)])
