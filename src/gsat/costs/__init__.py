"""What it costs an adversary to move a group of samples: c(Δ) = α·g(Δ) + (1−α)·‖Δ‖²_F, a value and a prox each.

Others use the named costs, `GroupCost` (the protocol of a cost of one's own), `Penalised` (all that solvers ask for),
`bound` (the cost of one group), `scaled` and the labels of blocks.
"""

from gsat.costs.base import GroupCost, Penalised, penalised
from gsat.costs.group_sparse import GroupSparse, block_numbers, flat_labels
from gsat.costs.low_rank import LowRank
from gsat.costs.per_batch import PerBatch, bound
from gsat.costs.scaled import Scaled, scaled
from gsat.costs.universal import Universal
from gsat.costs.unstructured import Unstructured

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
    "penalised",
    "scaled",
]
