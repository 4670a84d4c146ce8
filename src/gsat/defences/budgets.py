"""How much of a budget of lengths is used, where rare classes have a smaller one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor

from gsat._ranks import sharing

CLASSES = 4096  # that are told apart


def by_class(norms: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
    """Σ‖δ_i‖ and the number of samples of each class 0, 1, ...; targets that are no whole numbers are one class.

    They are those of all ranks that share the group.
    """
    classes = torch.zeros_like(norms, dtype=torch.long)
    if y.ndim == 1 and not y.is_floating_point():
        classes = y.long() % CLASSES  # also labels such as -1 get a place
    ranks = sharing()
    n = int(ranks.most(torch.tensor(float(classes.max()), device=ranks.device))) + 1 if not ranks.alone else 0
    found = torch.stack([torch.bincount(classes, norms.double(), n), torch.bincount(classes, minlength=n).double()])
    sums, sizes = ranks.summed(found).tolist()
    return sums, sizes


def budget_used(sums: Sequence[float], sizes: Sequence[float], targets: Sequence[float]) -> float | None:
    """The mean over classes of mean‖δ_i‖/t_c: 1 where the budget is met; None where no class has samples or a target.

    sums, sizes: Σ‖δ_i‖ and the number of samples of each class; targets: t_c
    """
    known = zip(sums, sizes, targets, strict=False)
    ratios = [total / size / target for total, size, target in known if size and target]
    return fmean(ratios) if ratios else None
