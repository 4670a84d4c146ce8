"""Groups of samples: which rows, and the rows themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from gsat._arrays.weighted import View


def draw(n: int, m: int, generator: Generator) -> Tensor:
    """M different numbers below n, uniformly, in random order."""
    if n <= 8 * m:
        return torch.randperm(n, generator=generator)[:m]
    chosen: dict[int, None] = {}
    while len(chosen) < m:
        chosen.update(dict.fromkeys(torch.randint(n, (m,), generator=generator).tolist()))
    return torch.tensor(list(chosen)[:m])


def take(values: Any, rows: Tensor) -> Tensor:
    """The chosen rows as a tensor of their own; of a memory map only these rows are read."""
    if isinstance(values, Tensor):
        return values[rows.to(values.device)]
    if isinstance(values, list | tuple):
        values = np.asarray(values)
    by_place = getattr(values, "iloc", values)  # a pandas object is indexed by its labels otherwise
    return torch.as_tensor(np.require(by_place[rows.numpy()], requirements="W"))


def take_labels(values: Any, rows: Tensor) -> Tensor:
    """As `take`, for labels: whole numbers of any size become int64, which the cross-entropy asks for."""
    labels = take(values, rows)
    return labels if labels.is_floating_point() else labels.long()


def take_ids(values: Any, rows: Tensor) -> Any:
    """The ids of the chosen rows as an array; None where there are none."""
    if values is None:
        return None
    return (values if isinstance(values, View) else np.asarray(values))[rows.numpy()]
