"""Readers of files: one module a family of formats, each from a path to a `Table`; `READERS` has them by ending."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from gsat.data.lazy import LazyFunction

if TYPE_CHECKING:
    from gsat.data.table import Table

__all__ = ["READERS"]

READERS: dict[str, "Callable[..., Table]"] = {  # ending: function(path, *, options)
    ".h5ad": LazyFunction("gsat.data.readers.h5ad", "read_h5ad"),
    ".zarr": LazyFunction("gsat.data.readers.h5ad", "read_zarr"),
    ".bed": LazyFunction("gsat.data.readers.plink", "read_plink"),
    ".csv": LazyFunction("gsat.data.readers.text", "read_text"),
    ".tsv": LazyFunction("gsat.data.readers.text", "read_text"),
    ".xlsx": LazyFunction("gsat.data.readers.text", "read_text"),
    ".parquet": LazyFunction("gsat.data.readers.parquet", "read_parquet"),
    ".mtx": LazyFunction("gsat.data.readers.tenx", "read_10x"),
    ".npz": LazyFunction("gsat.data.readers.npz", "read_npz"),
}
