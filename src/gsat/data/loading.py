"""load(): a data set by its name, or a file by its path."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gsat.data.bundled import digits
from gsat.data.expression import read_h5ad
from gsat.data.genotypes import read_plink
from gsat.data.images import mnist
from gsat.data.matrices import read_npz, read_parquet, read_text
from gsat.data.rules import existing
from gsat.data.table import Table

BUNDLED = {"digits": digits}
FROM_FILES = {"mnist": mnist}
READERS: dict[str, tuple[Callable[..., Table], tuple[str, ...]]] = {  # and the options each takes
    ".h5ad": (read_h5ad, ("label", "batch", "ids", "layer")),
    ".bed": (read_plink, ("label", "batch", "pheno", "missing", "one_hot")),
    ".csv": (read_text, ("label", "batch", "ids")),
    ".tsv": (read_text, ("label", "batch", "ids")),
    ".parquet": (read_parquet, ("label", "batch", "ids")),
    ".npz": (read_npz, ("label", "batch", "ids")),
}


def names() -> tuple[str, ...]:
    """The names that `load` knows."""
    return (*BUNDLED, *FROM_FILES)


def load(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    label: str | None = None,
    batch: str | None = None,
    ids: str | None = None,
    layer: str | None = None,
    pheno: str | Path | None = None,
    missing: str | float = "mean",
    one_hot: bool = False,
) -> Table:
    """The data set called `name`, or the file at the path `name` as float32 samples.

    Data that no package carries is read from the folder `data_dir`, or from the folder that the
    environment variable GSAT_DATA names when `data_dir` is not given. The options are those of files:

    .csv, .tsv, .parquet: label, batch and ids name columns; all others are features
    .npz:                 the arrays X, y, batch, feature_names, sample_ids; label, batch and ids name others
    .h5ad:                label, batch and ids name keys of .obs; layer names a layer to take instead of .X
    .bed (PLINK):         label and batch name columns of the table `pheno`, or "family", "sex" or "phenotype"
                          of the .fam file; genotypes without a call become the "mean" of their SNP or the number
                          `missing` (or an "error"); `one_hot` gives three columns per SNP, one feature group
    """
    options = {"label": label, "batch": batch, "ids": ids, "layer": layer, "pheno": pheno}
    given: dict[str, Any] = {option: value for option, value in options.items() if value is not None}
    if missing != "mean":
        given["missing"] = missing
    if one_hot:
        given["one_hot"] = one_hot
    if name in names():
        if given:
            raise ValueError(f"{next(iter(given))} must not be given for the data set {name}: it is an option of files")
        if name in BUNDLED:
            return BUNDLED[name]()
        folder = data_dir or os.environ.get("GSAT_DATA")
        return FROM_FILES[name](Path(folder) if folder else None)
    path = Path(name).expanduser()
    ending = path.suffix.lower()
    if isinstance(name, str) and not ending and path.name == name:
        raise ValueError(f"name must be one of {', '.join(names())}, got {name!r}")
    if ending not in READERS:
        raise ValueError(f"{path} must end in one of {', '.join(READERS)}, got {ending or 'no ending'!r}")
    reader, takes = READERS[ending]
    for option in given:
        if option not in takes:
            raise ValueError(f"{option} must not be given for {path}: a {ending} file takes {', '.join(takes)}")
    return reader(existing(path), **given)
