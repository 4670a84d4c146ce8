"""Accuracy and loss of a model under attacks: `evaluate` is for all; `COLUMNS` are those of its table."""

from gsat.evaluation.evaluating import COLUMNS, evaluate

__all__ = ["COLUMNS", "evaluate"]
