"""Which samples are kept for the test: whole batches where the batches are known, and what that test can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.table import Table

SHOWN = 10  # names of batches in a sentence
SHARE = 0.25  # of the samples: more batches are held out beside the largest as long as they are no more than that
MOST = 0.5  # of the samples in the largest batch that is held out, unless only a larger one leaves all classes
FLATTERS = (
    "random test samples come from the batches that were trained on: they flatter a classifier where a new batch "
    "differs, and tell nothing about a next batch"
)


@dataclass(frozen=True)
class HeldOut:
    """What was kept for the test.

    Parameters
    ----------
    kind
        "batches", "given batch", "random samples", "given samples" or "none".
    batches
        The names of the batches that are on the test side alone.
    why
        One sentence for the user.
    flatters
        Whether test and training samples share batches, or may.
    """

    kind: str
    batches: tuple[str, ...]
    why: str
    flatters: bool = False

    def describe(self) -> dict[str, Any]:
        """Kind, batches and the sentence, as JSON can hold them."""
        return {"kind": self.kind, "batches": list(self.batches), "why": self.why}


def largest_batches(table: Table) -> NDArray[np.bool_] | None:
    """The rows (n,) of the largest batches without which every class is still among the others.

    The largest batch of at most half of the samples comes first, or, where none of these leaves all classes, the
    smallest of the others; then the next ones in size as long as the test side is at most a quarter of the samples. A
    batch with a single class tests little and comes after those with several.

    Parameters
    ----------
    table
        Samples with labels and batches.

    Returns
    -------
    array or None
        A mask, true for the test side; None where no batch leaves all classes.
    """
    counts = batch_by_class(table)
    sizes, n = counts.sum(1), len(table)
    order = np.argsort(-sizes, kind="stable")
    fitting = [int(b) for b in order if (counts.sum(0) - counts[b] > 0).all()]
    several = [b for b in fitting if (counts[b] > 0).sum() > 1]
    fitting = several or fitting
    small = [b for b in fitting if sizes[b] <= MOST * n]
    if not fitting or len(sizes) < 2:
        return None
    chosen = [small[0] if small else fitting[-1]]
    for b in small[1:]:
        left = counts.sum(0) - counts[[*chosen, b]].sum(0)
        if sizes[[*chosen, b]].sum() <= SHARE * n and (left > 0).all():
            chosen.append(b)
    codes = np.unique(np.asarray(table.batch), return_inverse=True)[1]
    return np.isin(codes, chosen)


def batch_by_class(table: Table) -> NDArray[np.int64]:
    """How many samples of each class each batch has (batches, classes), both in the order of their names."""
    batch = np.unique(np.asarray(table.batch), return_inverse=True)[1]
    label, n_classes = table.codes, len(table.classes)
    flat = np.bincount(batch * n_classes + label, minlength=(int(batch.max(initial=0)) + 1) * n_classes)
    return np.asarray(flat.reshape(-1, n_classes), dtype=np.int64)


def apart(table: Table) -> tuple[str, ...]:
    """The batches of the test side, where no batch is on both sides; else none."""
    if table.batch is None or table.split is None:
        return ()
    test = np.unique(table.batch[table.split == "test"]).tolist()
    train = set(np.unique(table.batch[table.split == "train"]).tolist())
    return () if train.intersection(test) else tuple(map(str, test))


def described(table: Table, kind: str) -> HeldOut:
    """What the split of a table keeps for the test, in words.

    Parameters
    ----------
    table
        Samples with a split.
    kind
        As in `HeldOut`: how the split was made.

    Returns
    -------
    HeldOut
        With the sentence for the user.
    """
    n_test = int(np.sum(np.asarray(table.split) == "test"))
    share = f"{n_test} of {len(table)} samples"
    if n_test == 0:
        return HeldOut("none", (), "all samples are trained on, so nothing tells how good the model is on others")
    names = apart(table)
    held = f"{'batch' if len(names) == 1 else 'batches'} {_some(names)}"
    if kind == "given batch":
        return HeldOut(kind, names, f"{held}, as --test-batch says: {share}, none of this batch was trained on")
    if kind == "batches":
        why = f"{held}: {share}, {_size(names)} all classes in training; --test-fraction 0 trains on all samples"
        return HeldOut(kind, names, why)
    if kind == "given samples" and names:
        return HeldOut(kind, names, f"the test side of the data set, {share}: {held}, never trained on")
    if kind == "given samples":
        shared = table.batch is not None and len(np.unique(table.batch)) > 1
        return HeldOut(kind, (), f"the test side of the data set, {share}", shared)
    return HeldOut(kind, (), f"random samples, {share}; {_unheld(table)}", True)


def _size(names: tuple[str, ...]) -> str:
    return "the largest that leaves" if len(names) == 1 else "the largest that leave"


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _unheld(table: Table) -> str:
    """Why no whole batch is held out."""
    if table.batch is None:
        return "no batches were given (--batch), so nothing is known about a next batch"
    if len(names := np.unique(table.batch)) == 1:
        return "there is one batch, so nothing is known about a next one"
    if largest_batches(table) is None:
        return "no whole batch can be held out, since each has a class that the others lack"
    return f"they come from the {len(names)} batches that are trained on"
