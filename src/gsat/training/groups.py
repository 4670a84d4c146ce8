"""Groups of samples: which rows they hold, and the batches of these rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor


def draw(n: int, m: int, generator: Generator) -> Tensor:
    """M different numbers below n, uniformly, in random order."""
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
