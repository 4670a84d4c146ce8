"""Which features or directions an adversary moves: feature selection and a low-rank basis."""

from gsat.selectors.basis import LowRankBasis
from gsat.selectors.selector import GroupSparseSelector

__all__ = ["GroupSparseSelector", "LowRankBasis"]
