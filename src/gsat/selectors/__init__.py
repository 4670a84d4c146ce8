"""Which features or directions an adversary moves: feature selection and a low-rank basis."""

from gsat.selectors.selector import GroupSparseSelector, LowRankBasis

__all__ = ["GroupSparseSelector", "LowRankBasis"]
