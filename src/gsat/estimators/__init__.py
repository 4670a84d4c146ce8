"""Classifiers and a regressor with scikit-learn's interface, saved and loaded as folders without a pickle."""

from gsat.estimators.average import AverageClassifier
from gsat.estimators.baselines import (
    ERMClassifier,
    FGMClassifier,
    FGSMClassifier,
    PGDClassifier,
    StructuredATClassifier,
    UniversalATClassifier,
)
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.cv import GSATClassifierCV
from gsat.estimators.gsat import GSATClassifier
from gsat.estimators.lda import LDAClassifier
from gsat.estimators.linear import LinearClassifier
from gsat.estimators.loading import load
from gsat.estimators.regressor import GSATRegressor
from gsat.estimators.rivals import CORALClassifier, GroupDROClassifier, RandomDrawsClassifier

__all__ = [
    "AverageClassifier",
    "CORALClassifier",
    "ERMClassifier",
    "FGMClassifier",
    "FGSMClassifier",
    "GSATClassifier",
    "GSATClassifierCV",
    "GSATRegressor",
    "GroupDROClassifier",
    "LDAClassifier",
    "LinearClassifier",
    "PGDClassifier",
    "RandomDrawsClassifier",
    "StructuredATClassifier",
    "TorchClassifier",
    "UniversalATClassifier",
    "load",
]
