"""check(): should robust training be used on some data, and how well will it do on the next batch?"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from gsat import _checks
from gsat.data import Table
from gsat.data.rows import StoredRows
from gsat.experiments.check_commands import BATCHES, WITHIN, advised, in_python
from gsat.experiments.check_folds import Speed
from gsat.experiments.check_methods import QUICK, QUICK_BATCHES, QUICK_SEEDS, REFERENCE, SEEDS, TITLES, USUAL
from gsat.experiments.check_result import CheckResult
from gsat.experiments.check_search import Search
from gsat.experiments.check_subject import Limits, Subject, drawn, subject_of, thinned
from gsat.experiments.plan import Place
from gsat.experiments.shift_candidates import Candidate, Setting

STARTING = 5.0  # seconds until the other processes have imported everything


def check(
    X: Any,
    y: Any,
    batch: Any = None,
    *,
    group: Any = None,
    quick: bool = False,
    n_jobs: int = 1,
    max_batches: int = Limits.batches,
    max_samples: int = Limits.samples,
    max_features: int = Limits.features,
    random_state: int = 0,
    out: str | Path | None = None,
    verbose: bool = False,
) -> CheckResult:
    """Should robust training be used on these samples, and how well will it do on the next batch?

    Every batch is left out in turn. Each method chooses its strength, of as many candidates as the others, on training
    batches that are left out besides, never on the tested one. Without batches random samples are left out, which says
    nothing about a next batch.

    Parameters
    ----------
    X
        Samples (n, features): an array, a frame, a sparse matrix or `StoredRows`.
    y
        Labels (n,), at least two classes.
    batch
        One id per sample, or None.
    group
        Rows that belong together (n,), as those of one person; they are never on both sides.
    quick
        Fewer candidates, shorter trainings, three batches: a first impression in a fifth of the time.
    n_jobs
        Trainings at a time, one core each.
    max_batches, max_samples, max_features
        The most that is looked at: the largest batches, samples drawn from all batches and classes, and the features
        that vary most in training.
    random_state
        Of random folds and of the samples that are drawn.
    out
        A folder for finished pieces: the same call goes on where it was stopped. None for a temporary one.
    verbose
        Whether to print an estimate of the time, and a bar.

    Returns
    -------
    CheckResult
        A table, a verdict in a sentence, and the line that trains the winner.

    Examples
    --------
    No figure is given where it would mean nothing; here each batch holds one class:

    >>> import gsat
    >>> gsat.check([[0.0], [1.0]] * 6, ["ill", "well"] * 6, batch=["lab 1", "lab 2"] * 6)
    Traceback (most recent call last):
        ...
    ValueError: batch must have a batch of 5 samples or more with two classes that others have too, got none of 2: ...

    Else `print(gsat.check(X, y, batch))` shows the table and the verdict.
    """
    n_jobs = _checks.count("n_jobs", n_jobs, least=1)
    _checks.not_anndata("X", X, "gsat.tl.check(adata, labels_key)")
    limits = Limits(
        _checks.count("max_batches", max_batches, least=1),
        _checks.count("max_samples", max_samples, least=10),
        _checks.count("max_features", max_features, least=1),
    )
    table, notes = _table(X, y, batch, group, limits, random_state)
    subject = subject_of(table, quicker(limits, quick), random_state)
    subject = replace(subject, notes=(*notes, *subject.notes))
    told = print if verbose else None
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as folder:
        result, one, setting = checked(
            subject,
            Path(folder),
            quick=quick,
            jobs=_checks.count("n_jobs", n_jobs, least=1),
            say=told,
            progress=verbose,
        )
    if result.method is None:
        return result
    line = in_python(one, setting, by_batch=subject.by_batch, learnt=learnt(subject))
    return replace(result, command=line)


def checked(
    subject: Subject,
    work: Path,
    *,
    quick: bool,
    jobs: int,
    say: Callable[[str], Any] | None = None,
    progress: bool = False,
) -> tuple[CheckResult, Candidate | None, Setting]:
    """The result without a command, what is advised (None: to choose anew), and the setting of its training.

    work: the folder of finished pieces; say: is told how long it will take; progress: whether to show a bar
    """
    setting, seeds = (QUICK, QUICK_SEEDS) if quick else (USUAL, SEEDS)
    place = Place(work, subject=subject)
    search = Search(subject, setting, seeds, place, jobs)
    if say is not None:
        search = replace(search, speed=Speed.measured(subject, setting))
        say(f"about {_time(search.seconds() / jobs + STARTING * (jobs > 1))} on {jobs} core{'s' * (jobs > 1)}")
    choice = search.run(progress=progress)
    result = CheckResult.of(choice, subject.counts(), subject.notes, by_batch=subject.by_batch)
    keys = {title: key for key, title in TITLES.items()}
    return result, advised(choice, keys[result.method or TITLES[REFERENCE]]), setting


def quicker(limits: Limits, quick: bool) -> Limits:
    """With `quick` three batches at the most."""
    return replace(limits, batches=min(limits.batches, QUICK_BATCHES)) if quick else limits


def learnt(subject: Subject) -> str:
    """From what the metric was learnt where a unit was left out: "batches", or "within" where one was left."""
    return BATCHES if len(np.unique(np.asarray(subject.table.batch))) > 2 else WITHIN


def _table(X: Any, y: Any, batch: Any, group: Any, limits: Limits, seed: int) -> tuple[Table, list[str]]:
    """The arguments as a table, and notes: of a sparse matrix only the rows that are looked at become dense."""
    stored = isinstance(X, StoredRows)
    names = X.feature_names if stored else tuple(map(str, X.columns)) if hasattr(X, "columns") else None
    X = X.tocsr() if sparse.issparse(X) else X if stored else np.asarray(X)
    columns = {"y": y, "batch": batch, "group": group}
    given: dict[str, Any] = {name: np.asarray(values) for name, values in columns.items() if values is not None}
    if X.ndim < 2:
        raise ValueError(f"X must have shape (samples, features), got {X.shape}")
    n = X.shape[0]
    for name, values in given.items():
        if values.shape != (n,):
            raise ValueError(f"{name} must have one entry per sample ({n}), got shape {values.shape}")
    if not sparse.issparse(X):
        return Table(X, feature_names=names, **given), []
    rows = thinned(given["y"].astype(str), given.get("batch", np.zeros(n)).astype(str), limits.samples, seed)
    given = {name: values[rows] for name, values in given.items()}
    return Table(X[rows].toarray(), feature_names=names, **given), drawn(len(rows), n)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(2, round(seconds))} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
