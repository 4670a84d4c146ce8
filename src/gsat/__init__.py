"""Train classifiers robust to perturbations that are structured across samples."""

from gsat import attacks, data, defences, models, transport
from gsat._numeric import mean_norm
from gsat.adversary import Adversary
from gsat.costs import GroupCost, GroupSparse, LowRank, Universal, Unstructured
from gsat.estimators import (
    ERMClassifier,
    FGMClassifier,
    GSATClassifier,
    GSATRegressor,
    PGDClassifier,
    UniversalATClassifier,
    load,
)
from gsat.evaluation import evaluate
from gsat.grouping import PerBatch
from gsat.selectors import GroupSparseSelector, LowRankBasis
from gsat.solvers import ADMM, Linearised, Proximal, Solution, maximise
from gsat.train import Validation, gdadmm

__version__ = "0.1.0"

__all__ = [
    "ADMM",
    "Adversary",
    "ERMClassifier",
    "FGMClassifier",
    "GSATClassifier",
    "GSATRegressor",
    "GroupCost",
    "GroupSparse",
    "GroupSparseSelector",
    "Linearised",
    "LowRank",
    "LowRankBasis",
    "PGDClassifier",
    "PerBatch",
    "Proximal",
    "Solution",
    "Universal",
    "UniversalATClassifier",
    "Unstructured",
    "Validation",
    "__version__",
    "attacks",
    "data",
    "defences",
    "evaluate",
    "gdadmm",
    "load",
    "maximise",
    "mean_norm",
    "models",
    "transport",
]
