"""Train classifiers robust to perturbations that are structured across samples."""

from gsat import attacks, data, defences, models, tl, transport
from gsat._numeric import mean_norm
from gsat.adversary import Adversary
from gsat.certificate import Certificate, certify
from gsat.costs import GroupCost, GroupSparse, LowRank, Universal, Unstructured
from gsat.curvature import curvature_bound
from gsat.diagnosis import Diagnosis, diagnose
from gsat.estimators import (
    ERMClassifier,
    FGMClassifier,
    FGSMClassifier,
    GSATClassifier,
    GSATRegressor,
    PGDClassifier,
    StructuredATClassifier,
    UniversalATClassifier,
    load,
)
from gsat.evaluation import evaluate
from gsat.grouping import PerBatch
from gsat.selectors import GroupSparseSelector, LowRankBasis
from gsat.solvers import ADMM, Linearised, Proximal, Solution, maximise
from gsat.theory import Schedule, schedule, stationarity
from gsat.train import Validation, gdadmm

__version__ = "0.1.0"

__all__ = [
    "ADMM",
    "Adversary",
    "Certificate",
    "Diagnosis",
    "ERMClassifier",
    "FGMClassifier",
    "FGSMClassifier",
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
    "Schedule",
    "Solution",
    "StructuredATClassifier",
    "Universal",
    "UniversalATClassifier",
    "Unstructured",
    "Validation",
    "__version__",
    "attacks",
    "certify",
    "curvature_bound",
    "data",
    "defences",
    "diagnose",
    "evaluate",
    "gdadmm",
    "load",
    "maximise",
    "mean_norm",
    "models",
    "schedule",
    "stationarity",
    "tl",
    "transport",
]
