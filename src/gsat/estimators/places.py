"""The test samples on a plane: two principal components of the training samples, and where the adversary moves them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from gsat._arrays.svd import right_singular_vectors
from gsat.data import Table
from gsat.estimators.from_table import Trained, known_rows, predictable_rows, samples

FITTED = 500  # training rows that the components are found from, at the most
SHOWN = 1000  # test rows with a place: a picture has no room for more


def places(trained: Trained, table: Table) -> pd.DataFrame:
    """The coordinates of test samples, and of what the adversary of training makes of them, x + δ.

    With z the samples as the module sees them, m the mean and v_1, v_2 the first two principal components of the
    training samples, x = ⟨z − m, v_1⟩, y = ⟨z − m, v_2⟩ and push_x = ⟨z + δ − m, v_1⟩. The components come from 500
    training rows at the most, and 1000 test rows have a place, spread evenly over each side. A defence without an
    adversary moves nothing.

    Parameters
    ----------
    trained
        The classifier, with its plan.
    table
        The samples with the split that it was trained by.

    Returns
    -------
    DataFrame
        id (the number of the row in the table where samples have none), x, y, push_x, push_y; without rows where no
        test sample can be predicted.
    """
    classifier, per_batch = trained.classifier, trained.plan.per_batch
    if table.sample_ids is None:
        table = replace(table, sample_ids=tuple(range(len(table))))
    train = table.train
    there = known_rows(predictable_rows(table.test, classifier, per_batch=per_batch), classifier)
    if len(there) == 0:
        return pd.DataFrame(columns=["id", "x", "y", "push_x", "push_y"])
    mean, axes = _components(_flat(_seen(trained, train), _spread(len(train), FITTED)))
    rows, chosen = _seen(trained, there), _spread(len(there), SHOWN)
    at = (_flat(rows, chosen) - mean) @ axes.T
    to = at + _moves(trained, rows, there, chosen) @ axes.T
    ids = [(there.sample_ids or ())[i] for i in chosen]
    return pd.DataFrame({"id": ids, "x": at[:, 0], "y": at[:, 1], "push_x": to[:, 0], "push_y": to[:, 1]})


def _seen(trained: Trained, table: Table) -> Any:
    """The samples as the module sees them, made when they are asked for."""
    return trained.classifier._rows(samples(table), table.batch if trained.plan.per_batch else None)


def _spread(n: int, most: int) -> NDArray[np.int64]:
    return np.linspace(0, n - 1, min(most, n)).astype(np.int64)


def _flat(rows: Any, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(rows[chosen], dtype=np.float64).reshape(len(chosen), -1)


def _components(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean (d,) and the first two principal components (2, d), each with its largest entry above 0."""
    mean = z.mean(0)
    found = right_singular_vectors(torch.from_numpy(z - mean), min(2, *z.shape)).numpy()
    axes = np.zeros((2, z.shape[1]))
    axes[: len(found)] = found * np.sign(found[np.arange(len(found)), np.abs(found).argmax(1)])[:, None]
    return mean, axes


def _moves(trained: Trained, rows: Any, table: Table, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """δ of the chosen rows (m, d), by the adversary of training, a group at a time."""
    classifier = trained.classifier
    targets = torch.as_tensor(classifier._codes(table.y))
    defence = classifier._trained_defence(classifier._loss, targets[chosen])
    batch = table.batch if trained.plan.per_batch else None
    parts = [chosen[begin : begin + classifier.group_size] for begin in range(0, len(chosen), classifier.group_size)]
    found = [classifier._moved(defence, rows, targets, batch, part) for part in parts]
    return np.concatenate(found).astype(np.float64)
