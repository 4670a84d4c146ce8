"""What perturbs a group during training: the GSAT adversary, the baselines, or nothing.

Others use the named defences, `Defence` (the base of one's own), and `budgets` (how much of a budget is used).
"""

from gsat.defences.base import ERM, Defence
from gsat.defences.baselines import FGM, PGD, Structured, UniversalAT, match_norm
from gsat.defences.gsat import GSAT

__all__ = ["ERM", "FGM", "GSAT", "PGD", "Defence", "Structured", "UniversalAT", "match_norm"]
