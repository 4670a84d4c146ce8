"""What about labels and batches makes a result doubtful: said before it is trained on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data import headings, values
from gsat.data.holding import FLATTERS, HeldOut, batch_by_class
from gsat.data.table import Table

SHOWN = 10  # names in a sentence
FEW = 5  # samples of a class in training
LARGE = 5  # samples of a batch from which on one class alone is no chance
TELLS = 0.5  # of the way from the largest class to certainty: a batch that tells so much of the label is confounded
NUMBERS, EACH = 20, 10  # distinct whole numbers, and samples of each on average: more and fewer are no classes
UNKNOWN = ("nan", "na", "none", "null", "unknown", "unassigned", "unlabelled", "unlabeled", "?")
REGRESSOR = "gsat.GSATRegressor is trained on numbers"


def continuous(y: NDArray[Any]) -> str | None:
    """What makes labels look like measurements or ids and not like classes; None where they look like classes.

    Parameters
    ----------
    y
        Labels (n,).

    Returns
    -------
    str or None
        What was found, for a message.
    """
    distinct = np.unique(y)
    if y.dtype.kind == "f" and (broken := y[y % 1 != 0]).size:
        return f"numbers such as {broken[0]:g}"
    if y.dtype.kind in "iuf" and len(distinct) > NUMBERS and len(y) < EACH * len(distinct):
        return f"{len(distinct)} different numbers from {distinct[0]:g} to {distinct[-1]:g} in {len(y)} samples"
    return None


def before_training(table: Table, held_out: HeldOut | None, normalise: str, *, pixels: bool) -> list[str]:
    """What a user should know before the training begins.

    Parameters
    ----------
    table
        Samples with labels and a split.
    held_out
        What is kept for the test, if anything.
    normalise
        What the model does to each sample.
    pixels
        Whether the samples are images of a known scale, whose features need no look.

    Returns
    -------
    list of str
        A sentence each.
    """
    found = [] if pixels else of_samples(table, normalise)
    found += doubts(table)
    return [*found, *([FLATTERS] if held_out is not None and held_out.flatters else [])]


def of_samples(table: Table, normalise: str = "none") -> list[str]:
    """What a user should know of the numbers and the names of the features.

    Parameters
    ----------
    table
        Samples.
    normalise
        What the model does to each sample.

    Returns
    -------
    list of str
        A sentence each.
    """
    found = [values.of_training(values.looks(table.X), normalise)]
    if table.feature_names and (strange := headings.odd(table.feature_names)):
        found.append(
            f"{_counted(strange, 'the feature', 'the features')} {'is' if len(strange) == 1 else 'are'} unlike the "
            f"others and trained on with them; --drop {','.join(strange[:SHOWN])} leaves out what is no measurement"
        )
    return list(filter(None, found))


def doubts(table: Table) -> list[str]:
    """What a user should know of the training labels and batches before believing a result.

    Parameters
    ----------
    table
        Samples with labels, a split, and batches or not.

    Returns
    -------
    list of str
        A sentence each.
    """
    classes, y = table.classes, np.asarray(table.y)
    in_training = y if table.split is None else y[table.split == "train"]
    found = []
    if blank := [str(name) for name in classes.tolist() if str(name).strip().lower() in UNKNOWN]:
        found.append(f"the label has the {_counted(blank, 'class', 'classes')}: is that a missing label?")
    sizes = {str(name): int(np.sum(in_training == name)) for name in classes.tolist()}
    if small := [f"{name} ({size})" for name, size in sizes.items() if 0 < size < FEW]:
        found.append(f"fewer than {FEW} training samples of {_counted(small, 'class', 'classes')}")
    if gone := [name for name, size in sizes.items() if size == 0]:
        found.append(f"no training samples of {_counted(gone, 'class', 'classes')}: neither learnt nor tested")
    return found if table.batch is None else [*found, *_confounded(table)]


def _confounded(table: Table) -> list[str]:
    """What batches and labels have to do with each other."""
    counts = batch_by_class(table)
    names = [str(name) for name in np.unique(np.asarray(table.batch)).tolist()]
    if len(names) < 2:
        return ["there is one batch: nothing in the samples tells how another batch differs"]
    found = []
    classes = [str(name) for name in table.classes.tolist()]
    of_one = ((counts > 0).sum(1) == 1) & (counts.sum(1) > 1)
    if counts[of_one].sum(1).max(initial=0) >= LARGE:
        single = [name for name, one in zip(names, of_one, strict=True) if one]
        found.append(
            f"a single class in {_counted(single, 'batch', 'batches')}: what is special to such a batch cannot be told "
            "from what is special to the class"
        )
    known, largest = counts.max(1).sum() / counts.sum(), counts.sum(0).max() / counts.sum()
    mostly_large = counts[counts.sum(1) >= LARGE].sum() > 0.5 * counts.sum()  # in tiny batches one class is no surprise
    if known - largest > TELLS * (1 - largest) and mostly_large:
        found.append(
            f"label and batch are confounded: the batch alone gives the label of {known:.0%} of the samples, where the "
            f"largest class has {largest:.0%}; a classifier may have learnt to tell batches"
        )
    if lonely := [name for name, column in zip(classes, counts.T, strict=True) if (column > 0).sum() == 1]:
        found.append(f"one batch alone has {_counted(lonely, 'class', 'classes')}: no other batch can test that")
    return found


def _counted(names: list[str], one: str, several: str) -> str:
    """The names after their word: "class T cell", "classes B cell, T cell"."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{one if len(names) == 1 else several} {', '.join(names[:SHOWN])}{more}"
