"""Attacks for evaluation: the largest loss under a structure across samples and ‖δ_i‖₂ ≤ eps for each sample."""

from gsat.attacks.base import Attack, Fitted
from gsat.attacks.flat import Candidate
from gsat.attacks.pgd import FGM, PGD
from gsat.attacks.structured import GroupSparse, LowRank, Structured, Universal

__all__ = ["FGM", "PGD", "Attack", "Candidate", "Fitted", "GroupSparse", "LowRank", "Structured", "Universal"]
