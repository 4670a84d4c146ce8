"""Numerics without a meaning of their own: norms, singular values of long thin matrices, chunks, standardisation."""
