"""Attacks for evaluation: the largest loss under a structure across samples and ‖δ_i‖₂ ≤ eps for each sample."""

from gsat.attacks.base import Attack, Fitted, Found
from gsat.attacks.pgd import FGM, PGD
from gsat.attacks.structured import GroupSparse, LowRank, Structured, Universal

__all__ = ["FGM", "PGD", "Attack", "Fitted", "Found", "GroupSparse", "LowRank", "Structured", "Universal"]
