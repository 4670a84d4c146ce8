"""Classifiers and a regressor with scikit-learn's interface, saved and loaded as folders without a pickle."""

from gsat.estimators.baselines import (
    ERMClassifier,
    FGMClassifier,
    FGSMClassifier,
    PGDClassifier,
    StructuredATClassifier,
    UniversalATClassifier,
)
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.gsat import GSATClassifier, GSATRegressor
from gsat.estimators.loading import load

__all__ = [
    "ERMClassifier",
    "FGMClassifier",
    "FGSMClassifier",
    "GSATClassifier",
    "GSATRegressor",
    "PGDClassifier",
    "StructuredATClassifier",
    "TorchClassifier",
    "UniversalATClassifier",
    "load",
]
