"""On how many threads torch computes: sums are rounded in another order on another number of them."""

from __future__ import annotations

import torch

from gsat import _checks


def use_threads(n: int | None) -> int:
    """Let torch compute on n threads, or, for None, on as many as it does; the number of them.

    Parameters
    ----------
    n
        How many, at least 1.

    Returns
    -------
    int
        The number of threads from now on.
    """
    if n is not None:
        torch.set_num_threads(_checks.count("threads", n, least=1))
    return torch.get_num_threads()
