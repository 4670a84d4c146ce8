"""Numerics without a meaning of their own: norms, singular values of long matrices, chunks and standardising."""
