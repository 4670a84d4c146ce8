"""Labelled samples with their batches, real ones by name and synthetic ones with a known shift."""

from gsat.data.loading import load, names
from gsat.data.synthetic import make_batches, make_cell_types
from gsat.data.table import Table

__all__ = ["Table", "load", "make_batches", "make_cell_types", "names"]
