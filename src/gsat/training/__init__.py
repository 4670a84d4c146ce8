"""GDADMM, the paper's Algorithm 1: the loop, its state, and what watches it."""

from gsat.training.divergence import Diverged
from gsat.training.history import History, Step
from gsat.training.loop import gdadmm
from gsat.training.validation import Validation

__all__ = ["Diverged", "History", "Step", "Validation", "gdadmm"]
