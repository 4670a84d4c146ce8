"""Rows of a data set: a few at a time, so that what is made of them stays small, or those that were chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor


def at_a_time(d: int) -> int:
    """How many samples of d entries are worked on at a time where X must not be copied whole: 2 to 8 MB in float64."""
    return 1024 if d <= 1024 else max(1, 2**18 // d)


def pieces(n: int, d: int, times: int = 1) -> Iterator[slice]:
    """The rows of an (n, d) matrix as slices of a few megabytes each, or some times that."""
    step = times * at_a_time(d)
    return (slice(begin, min(begin + step, n)) for begin in range(0, n, step))


def on_disk(X: Any) -> bool:
    """Whether rows of X are read from a file when they are asked for; what wraps such rows says it of itself."""
    return isinstance(X, np.memmap) or bool(getattr(X, "on_disk", False))


class Dealt:
    """Every world-th of some samples or labels, from number `rank` on: those of one of `world` ranks, nothing copied.

    values: (n, ...), indexed by arrays of row numbers
    """

    def __init__(self, values: Any, rank: int, world: int) -> None:
        self.values, self.rank, self.world = values, rank, world
        self.mean_norm: float | None = getattr(values, "mean_norm", None)
        self.on_disk = on_disk(values)

    def __len__(self) -> int:
        return max(0, -(-(len(self.values) - self.rank) // self.world))

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return (len(self), *self.values.shape[1:])

    def places(self, index: Any) -> Any:
        """Where in `values` the rows of these numbers (an array or a tensor) are."""
        return index * self.world + self.rank

    def __getitem__(self, index: Any) -> Any:
        """The rows of these numbers, an array; as `values` gives them."""
        values = np.asarray(self.values) if isinstance(self.values, list | tuple) else self.values
        return getattr(values, "iloc", values)[self.places(index)]


def take(values: Any, chosen: Tensor) -> Tensor:
    """The chosen rows as a tensor of their own; of a memory map only these rows are read."""
    if isinstance(values, Dealt):
        return take(values.values, values.places(chosen))
    if isinstance(values, Tensor):
        return values[chosen.to(values.device)]
    if isinstance(values, list | tuple):
        values = np.asarray(values)
    by_place = getattr(values, "iloc", values)  # a pandas object is indexed by its labels otherwise
    return torch.as_tensor(np.require(by_place[chosen.numpy()], requirements="W"))


def take_labels(values: Any, chosen: Tensor) -> Tensor:
    """As `take`, for labels: whole numbers of any size become int64, which the cross-entropy asks for."""
    labels = take(values, chosen)
    return labels if labels.is_floating_point() else labels.long()
