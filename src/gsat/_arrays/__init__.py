"""Numerics without a meaning of their own: norms, singular values of long matrices, chunks and standardising.

Others import from its modules: `norms`, `svd`, `chunks` and `standardise`.
"""
