"""Labelled samples with their batches, real ones by name and synthetic ones with a known shift."""

from gsat.data.loading import available, fetch, load, names
from gsat.data.synthetic import make_batches, make_cell_types, make_shift
from gsat.data.table import Table

__all__ = ["Table", "available", "fetch", "load", "make_batches", "make_cell_types", "make_shift", "names"]
