"""Labelled samples with their batches, real ones by name and synthetic ones with a known shift.

Others use the names below, `readers` and `sets` through `load`. What needs numpy is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gsat.data.loading import available, fetch, load, names

if TYPE_CHECKING:
    from gsat.data.synthetic import make_batches, make_cell_types, make_shift
    from gsat.data.table import Table

__all__ = ["Table", "available", "fetch", "load", "make_batches", "make_cell_types", "make_shift", "names"]

_HOME = {
    "Table": "gsat.data.table",
    "make_batches": "gsat.data.synthetic",
    "make_cell_types": "gsat.data.synthetic",
    "make_shift": "gsat.data.synthetic",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, once."""
    if name not in _HOME:
        raise AttributeError(f"module 'gsat.data' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found
