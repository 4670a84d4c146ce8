"""Real shifts between batches: which data sets, which batch is held out, and which rows and columns are used."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat._arrays.standardise import moments
from gsat.data import Table, load
from gsat.data.memory import room
from gsat.data.rows import StoredRows

Rows = NDArray[np.int64]

MOST = 8  # batches that are held out in turn
COLUMNS = 1000  # of sets without blocks of columns, at the most, to save time


@dataclass(frozen=True)
class Task:
    """A data set with batches, of which those of `held_out` are the test side in turn, and all others are trained on.

    held_out:  the largest batches that hold two classes of the others, at most 8 (`fit_to_test`)
    every:     10 keeps every tenth block of `feature_groups`, that is, every tenth SNP
    one_batch: there are two batches, so that the training rows are of one and cannot validate across batches
    same_as:   the task whose people these are: shown, but no unit of its own in means and intervals over the sets
    seconds:   of one training of 100 groups, roughly
    note:      what a reader of the result must know
    """

    name: str
    data: str
    held_out: tuple[str, ...]
    every: int = 1
    one_batch: bool = False
    same_as: str = ""
    seconds: float = 0.3
    note: str = ""

    def load(self, data_dir: str | Path | None = None) -> Table:
        """All samples, with batches as text."""
        return self.prepared(load(self.data, data_dir=data_dir))

    def prepared(self, table: Table) -> Table:
        """The table with batches as text, without names, and with the SNPs that `every` keeps."""
        table = replace(table, batch=np.asarray(table.batch).astype(str), split=None, feature_names=None)
        if self.every == 1:
            return table
        return with_columns(table, np.flatnonzero(np.asarray(table.feature_groups) % self.every == 0))

    def describe(self) -> dict[str, Any]:
        """What the rows of a fold depend on, as JSON."""
        about = asdict(self)
        return {name: about[name] for name in ("name", "data", "every", "one_batch")}


TASKS = {
    task.name: task
    for task in (
        Task(
            "gas-drift", "gas-drift", ("06", "03", "02", "09", "01", "08", "05", "04"),
            note="six gases by sensors that age, eight batches of months; three batches lack a gas",
        ),
        Task(
            "spoken-digits", "spoken-digits", ("george", "jackson", "lucas", "nicolas", "theo", "yweweler"),
            note="ten digits, six speakers",
        ),
        Task(
            "covertype-areas", "covertype-areas", ("ComanchePeak", "CacheLaPoudre", "Rawah", "Neota"),
            note="seven kinds of forest in four areas, none of which holds all kinds",
        ),
        Task(
            "wifi-floors", "wifi-floors",
            ("user11", "user01", "later", "user14", "user07", "user02", "user09", "user16"),
            note="13 floors by users; eight of 15 users with two floors, who share places",
        ),
        Task(
            "ibd-genera", "ibd-genera",
            ("RISK", "Herfarth_CCFA", "Jansson_Lamendella", "CS-PRISM", "Pouchitis", "HMP2", "MucosalIBD"),
            note="IBD or control in seven studies; people gave several samples, all in one study",
        ),
        Task(
            "emg-myo", "emg-myo",
            ("p56912", "p69069", "p32185", "p46666", "p60186", "p10000", "p35622", "p40052"),
            note="eight gestures; the eight people with the most windows of 38",
        ),
        Task(
            "bbbc021-moa", "bbbc021-moa",
            ("Week3", "Week1", "Week4", "Week9", "Week7", "Week2", "Week5", "Week8"),
            note="13 mechanisms of drugs, no week with more than six; more than half of the wells hold the solvent",
        ),
        Task(
            "stemcells", "stemcells", ("2", "1", "3", "4"),
            note="four studies of 15 to 51 samples; the source chose the genes with all studies at hand",
        ),
        Task(
            "sc-mixology", "sc-mixology",
            ("sc_celseq2_5cl_p2", "sc_celseq2_5cl_p3", "sc_celseq2_5cl_p1", "sc_celseq2", "sc_dropseq"), seconds=0.5,
            note="five batches, two technologies; sc_celseq2 and sc_dropseq hold three of the five cell lines",
        ),
        Task(
            "tcga-sites", "tcga-tumour-normal", ("BH", "CV", "EL", "DD", "CZ", "EJ", "AA", "BQ"), seconds=0.5,
            note="tumour or normal, both of each person; the eight largest of 76 hospitals",
        ),
        Task(
            "tcga-coadread", "tcga-coadread", ("HiSeq", "GA"), one_batch=True, seconds=0.5,
            note="colon or rectum, inferred from the hospital; the platform is inferred from missing genes",
        ),
        Task(
            "bladderbatch", "bladderbatch", ("5", "2"), seconds=0.5,
            note="batches 1, 3 and 4 hold one class each, so that 2 and 5 alone can be tested; "
            "Normal is then learnt from batch 3 alone (fold 2), or Biopsy from batch 4 alone (fold 5)",
        ),
        Task(
            "hapmap-1kg", "hapmap-1kg", ("HapMap3", "1000 Genomes"), every=2, one_batch=True, seconds=0.6,
            note="three continents by every second SNP (560); nobody is in both cohorts, "
            "of 22 Africans in 1000 Genomes none is Maasai",
        ),
        Task(
            "hapmap-1kg-tenth", "hapmap-1kg", ("HapMap3", "1000 Genomes"), every=10, one_batch=True,
            same_as="hapmap-1kg",
            note="the people of hapmap-1kg again, with every tenth SNP (112): more of them leave little to do",
        ),
    )
}  # fmt: skip


def chosen_tasks(names: tuple[str, ...] | None) -> list[Task]:
    """The tasks of these names, in the order of the table; all for None."""
    for name in names or ():
        if name not in TASKS:
            raise ValueError(f"tasks must be among {', '.join(TASKS)}, got {name!r}")
    return [task for task in TASKS.values() if names is None or task.name in names]


@lru_cache(maxsize=1)
def loaded(task: Task, data_dir: Path | None) -> Table:
    """The table of a task; kept, since one fold after the other asks for it."""
    return task.load(data_dir)


def fit_to_test(table: Table, most: int = MOST) -> tuple[str, ...]:
    """The largest batches that hold at least two classes of the others, of equal ones the first by name."""
    y, batch = np.asarray(table.y), np.asarray(table.batch)
    names, counts = np.unique(batch, return_counts=True)
    fit = [
        str(name)
        for name in names[np.argsort(-counts, kind="stable")]
        if len(np.intersect1d(y[batch == name], y[batch != name])) > 1
    ]
    return tuple(fit[:most])


def with_columns(table: Table, columns: Rows) -> Table:
    """The table with these columns, in that order, in memory."""
    groups = None if table.feature_groups is None else np.asarray(table.feature_groups)[columns]
    return replace(
        table,
        X=_in_memory(table.X, columns),
        shift=None if table.shift is None else table.shift[:, columns],
        feature_names=None,
        feature_groups=None if groups is None else tuple(np.unique(groups, return_inverse=True)[1].tolist()),
    )


def most_variable(X: Any, k: int) -> Rows:
    """The k columns of the largest variance, in their order; all of them where there are no more."""
    if k >= X.shape[1]:
        return np.arange(X.shape[1])
    return np.sort(np.argsort(-moments(X)[1], kind="stable")[:k])


def _in_memory(X: Any, columns: Rows) -> NDArray[Any]:
    """Some of the columns as an array."""
    if not isinstance(X, StoredRows):
        return np.ascontiguousarray(X[:, columns])
    need = 4 * len(X) * len(columns)
    room(f"an array of {len(X):,} samples of {len(columns):,} features", need, "lower max_samples or max_features")
    return np.asarray(X.with_columns(columns))
