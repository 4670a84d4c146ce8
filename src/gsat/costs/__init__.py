"""What it costs an adversary to move a group of samples: c(Δ) = α·g(Δ) + (1−α)·‖Δ‖²_F, a value and a prox each."""

from gsat.costs.base import (
    GroupCost,
    GroupSparse,
    LowRank,
    Penalised,
    Universal,
    Unstructured,
    block_numbers,
    flat_labels,
)
from gsat.costs.grouping import PerBatch, Scaled, bound, is_universal, scaled

__all__ = [
    "GroupCost",
    "GroupSparse",
    "LowRank",
    "Penalised",
    "PerBatch",
    "Scaled",
    "Universal",
    "Unstructured",
    "block_numbers",
    "bound",
    "flat_labels",
    "is_universal",
    "scaled",
]
