"""Train classifiers robust to perturbations that are structured across samples."""

from gsat import attacks, data, models
from gsat._numeric import mean_norm
from gsat.adversary import Adversary
from gsat.costs import GroupCost, GroupSparse, LowRank, PerBatch, Universal, Unstructured
from gsat.solvers import ADMM, Linearised, Proximal, Solution, maximise

__version__ = "0.1.0"

__all__ = [
    "ADMM",
    "Adversary",
    "GroupCost",
    "GroupSparse",
    "Linearised",
    "LowRank",
    "PerBatch",
    "Proximal",
    "Solution",
    "Universal",
    "Unstructured",
    "__version__",
    "attacks",
    "data",
    "maximise",
    "mean_norm",
    "models",
]
