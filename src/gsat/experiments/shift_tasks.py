"""Real shifts between batches: which data sets, which batch is held out, and how the rows are prepared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data import Table, load

Rows = NDArray[np.int64]

# the hospitals with the most people; each sent one kind of tumour
SITES = ("BH", "CV", "EL", "DD", "CZ")
GENES = 2000  # kept of 3,341 to 22,283, to save time
CEL_SEQ = ("sc_celseq2", "sc_celseq2_5cl_p1", "sc_celseq2_5cl_p2", "sc_celseq2_5cl_p3")


@dataclass(frozen=True)
class Task:
    """A data set with batches, of which those of `held_out` are the test side in turn, and all others are trained on.

    batch:         which batches of the data set, where it has several
    most_variable: so many columns are kept, those of the largest variance in the training rows; None keeps all
    every:         10 keeps every tenth block of `feature_groups`, that is, every tenth SNP
    one_batch:     there are two batches, so that the training rows are of one and cannot validate across batches
    note:          what a reader of the result must know
    """

    name: str
    data: str
    held_out: tuple[str, ...]
    batch: str | None = None
    most_variable: int | None = None
    every: int = 1
    one_batch: bool = False
    note: str = ""

    def load(self, data_dir: str | Path | None = None) -> Table:
        """All samples, with batches as text."""
        return self.prepared(load(self.data, data_dir=data_dir, batch=self.batch))

    def prepared(self, table: Table) -> Table:
        """The table with batches as text, without names, and with the SNPs that `every` keeps."""
        table = replace(table, batch=np.asarray(table.batch).astype(str), split=None, feature_names=None)
        if self.every == 1:
            return table
        return with_columns(table, np.flatnonzero(np.asarray(table.feature_groups) % self.every == 0))

    def describe(self) -> dict[str, Any]:
        """The task as JSON."""
        return asdict(self)


TASKS = {
    task.name: task
    for task in (
        Task(
            "stemcells", "stemcells", ("1", "2", "3", "4"),
            note="four studies of 15 to 51 samples; the source chose the genes with all studies at hand",
        ),
        Task(
            "sc-mixology", "sc-mixology", (*CEL_SEQ, "sc_dropseq"), most_variable=GENES,
            note="five batches, two technologies; sc_celseq2 and sc_dropseq hold three of the five cell lines",
        ),
        Task(
            "tcga-sites", "tcga-tumour-normal", SITES, most_variable=GENES,
            note="tumour or normal; the five largest of 76 hospitals, each with one tumour type",
        ),
        Task(
            "tcga-coadread", "tcga-coadread", ("GA", "HiSeq"), most_variable=GENES, one_batch=True,
            note="colon or rectum, inferred from the hospital; the platform is inferred from missing genes",
        ),
        Task(
            "bladderbatch", "bladderbatch", ("2", "5"), most_variable=GENES,
            note="batches 1, 3 and 4 hold one class each, so that 2 and 5 alone can be tested; "
            "Normal is then learnt from batch 3 alone (fold 2), or Biopsy from batch 4 alone (fold 5)",
        ),
        Task(
            "hapmap-1kg", "hapmap-1kg", ("1000 Genomes", "HapMap3"), one_batch=True,
            note="1,119 SNPs; nobody is in both cohorts, of 22 Africans in 1000 Genomes none is Maasai",
        ),
        Task(
            "hapmap-1kg-tenth", "hapmap-1kg", ("1000 Genomes", "HapMap3"), every=10, one_batch=True,
            note="as hapmap-1kg, with every tenth of the SNPs (112): all of them leave little to do",
        ),
    )
}  # fmt: skip


@lru_cache(maxsize=1)
def loaded(task: Task, data_dir: Path | None) -> Table:
    """The table of a task; kept, since one fold after the other asks for it."""
    return task.load(data_dir)


def with_columns(table: Table, columns: Rows) -> Table:
    """The table with these columns, in that order."""
    groups = None if table.feature_groups is None else np.asarray(table.feature_groups)[columns]
    return replace(
        table,
        X=np.ascontiguousarray(table.X[:, columns]),
        shift=None if table.shift is None else table.shift[:, columns],
        feature_names=None,
        feature_groups=None if groups is None else tuple(np.unique(groups, return_inverse=True)[1].tolist()),
    )


def most_variable(train: Table, k: int | None) -> Rows:
    """The k columns of the largest variance, in their order; all of them for None."""
    width = train.X.shape[1]
    if k is None or k >= width:
        return np.arange(width)
    return np.sort(np.argsort(-train.X.var(axis=0, dtype=np.float64), kind="stable")[:k])


def centred(table: Table) -> Table:
    """The rows less the mean of their batch. It needs no labels, but all samples of a batch, also of the tested one."""
    batches, code = np.unique(np.asarray(table.batch), return_inverse=True)
    X = table.X.astype(np.float32)  # a copy
    for b in range(len(batches)):
        X[code == b] -= X[code == b].mean(axis=0)
    return replace(table, X=X)


def known(train: Table, rows: Table) -> Table:
    """The rows whose class is among the training rows."""
    return rows.subset(np.isin(np.asarray(rows.y), np.asarray(train.y)))


def inner_splits(train: Table, at_most: int, seed: int) -> Iterator[tuple[str, Table, Table]]:
    """(name, rows to train on, rows to validate on), for choosing sizes without the test batch.

    The largest batches are left out in turn, `at_most` of them; a batch is fit for it if it holds two classes of the
    other batches. If none is, as many random quarters of the rows validate, with classes in proportion.
    """
    names, counts = np.unique(np.asarray(train.batch), return_counts=True)
    found = 0
    for name in names[np.argsort(-counts, kind="stable")].tolist():
        away = np.asarray(train.batch) == name
        rest = train.subset(~away)
        validation = known(rest, train.subset(away))
        if found < at_most and len(validation.classes) > 1:
            found += 1
            yield name, rest, validation
    for i in range(at_most if found == 0 else 0):
        halves = train.split_at_random(0.25, seed * at_most + i)
        yield "random quarter", halves.train, known(halves.train, halves.test)
