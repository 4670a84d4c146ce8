"""Train classifiers robust to perturbations that are structured across samples.

Names are imported when they are first used, so that `import gsat` loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what `_HOME` says, for type checkers and editors
    from gsat import attacks, data, defences, models, pl, tl, transport
    from gsat._arrays.norms import mean_norm
    from gsat.adversary import Adversary
    from gsat.costs import GroupCost, GroupSparse, LowRank, PerBatch, Universal, Unstructured
    from gsat.diagnosis import Diagnosis, diagnose
    from gsat.estimators import (
        AverageClassifier,
        CORALClassifier,
        ERMClassifier,
        FGMClassifier,
        FGSMClassifier,
        GroupDROClassifier,
        GSATClassifier,
        GSATClassifierCV,
        GSATRegressor,
        LDAClassifier,
        LinearClassifier,
        PGDClassifier,
        RandomDrawsClassifier,
        StructuredATClassifier,
        UniversalATClassifier,
        load,
    )
    from gsat.evaluation import evaluate
    from gsat.experiments.check_result import CheckResult
    from gsat.experiments.checking import check
    from gsat.metric import Metric
    from gsat.selectors import GroupSparseSelector, LowRankBasis
    from gsat.solvers import ADMM, Linearised, Proximal, Solution, maximise
    from gsat.theory import Certificate, Schedule, certify, curvature_bound, schedule, stationarity
    from gsat.training import Validation, gdadmm

__version__ = "0.2.0"

_HOME = {  # public name -> the module it comes from
    "ADMM": "gsat.solvers",
    "Adversary": "gsat.adversary",
    "AverageClassifier": "gsat.estimators",
    "CORALClassifier": "gsat.estimators",
    "Certificate": "gsat.theory",
    "CheckResult": "gsat.experiments.check_result",
    "Diagnosis": "gsat.diagnosis",
    "ERMClassifier": "gsat.estimators",
    "FGMClassifier": "gsat.estimators",
    "FGSMClassifier": "gsat.estimators",
    "GSATClassifier": "gsat.estimators",
    "GSATClassifierCV": "gsat.estimators",
    "GSATRegressor": "gsat.estimators",
    "GroupCost": "gsat.costs",
    "GroupDROClassifier": "gsat.estimators",
    "GroupSparse": "gsat.costs",
    "GroupSparseSelector": "gsat.selectors",
    "LDAClassifier": "gsat.estimators",
    "LinearClassifier": "gsat.estimators",
    "Linearised": "gsat.solvers",
    "LowRank": "gsat.costs",
    "LowRankBasis": "gsat.selectors",
    "Metric": "gsat.metric",
    "PGDClassifier": "gsat.estimators",
    "PerBatch": "gsat.costs",
    "Proximal": "gsat.solvers",
    "RandomDrawsClassifier": "gsat.estimators",
    "Schedule": "gsat.theory",
    "Solution": "gsat.solvers",
    "StructuredATClassifier": "gsat.estimators",
    "Universal": "gsat.costs",
    "UniversalATClassifier": "gsat.estimators",
    "Unstructured": "gsat.costs",
    "Validation": "gsat.training",
    "certify": "gsat.theory",
    "check": "gsat.experiments.checking",
    "curvature_bound": "gsat.theory",
    "diagnose": "gsat.diagnosis",
    "evaluate": "gsat.evaluation",
    "gdadmm": "gsat.training",
    "load": "gsat.estimators",
    "maximise": "gsat.solvers",
    "mean_norm": "gsat._arrays.norms",
    "schedule": "gsat.theory",
    "stationarity": "gsat.theory",
}
_ROOMS = ("attacks", "data", "defences", "models", "pl", "tl", "transport")

__all__ = [
    "__version__",
    *_HOME,
    *_ROOMS,
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, once."""
    if name in _ROOMS:
        return import_module(f"gsat.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'gsat' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
