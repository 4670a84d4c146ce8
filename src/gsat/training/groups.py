"""Groups of samples: which rows they hold, and the batches of these rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

RUN = 16  # samples that follow each other in a group of shuffle="block"


def draw(n: int, m: int, generator: Generator, run: int = 1) -> Tensor:
    """M different numbers below n, uniformly, in random order; or in runs of `run` numbers that follow each other.

    Each number is as likely as any other: the runs lie on a grid that begins at a random place and goes round. Where
    there are too few numbers for such runs, they are drawn one by one.
    """
    if run > 1 and (count := -(-m // run)) <= n // run:
        begins = torch.randint(n, (1,), generator=generator) + run * draw(n // run, count, generator)
        return ((begins[:, None] + torch.arange(run)) % n).flatten()[:m]
    if n <= 8 * m:
        return torch.randperm(n, generator=generator)[:m]
    chosen: dict[int, None] = {}
    while len(chosen) < m:
        chosen.update(dict.fromkeys(torch.randint(n, (m,), generator=generator).tolist()))
    return torch.tensor(list(chosen)[:m])


def take_ids(values: Any, rows: Tensor) -> Any:
    """The ids of the chosen rows as an array; None where there are none."""
    if values is None:
        return None
    values = np.asarray(values) if isinstance(values, list | tuple | Tensor) else values
    return np.asarray(getattr(values, "iloc", values)[rows.numpy()])
