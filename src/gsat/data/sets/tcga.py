"""TCGA: gene expression of tumours, with the plates, sites and platforms they were measured on.

Two files, several tasks. A table's batches are columns of TCGA's barcodes: `plate` is the plate in the
laboratory, `tss` the hospital that sent the tissue. A plate or site holds, with few exceptions, one kind of tumour.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat import _checks
from gsat.data.readers.npz import Arrays
from gsat.data.rules import picked
from gsat.data.sets.stored import arrays
from gsat.data.table import Table

UCI_TYPES = ("BRCA", "COAD", "KIRC", "LUAD", "PRAD")
PRIMARY, NORMAL = "01", "11"  # sample types in a barcode
NOT_MEASURED = -1  # as int16, in the file of LUAD and COADREAD, in place of 1000·log2(RSEM + 1)
PARTICIPANT = 12  # letters of a barcode that name a person: TCGA-A7-A0CE


def tcga(folder: Path | None, *, batch: str = "plate") -> Table:
    """Tumours of the five types of UCI's set, X (335, 3341) log2 expression >= 0, labelled by type.

    batch: "plate" or "tss". The split is random, a quarter of each type on the test side.
    """
    content, checksum = arrays("tcga", folder)
    rows = (content["sample_type"] == PRIMARY) & np.isin(content["cohort"], UCI_TYPES)
    batches = picked("tcga", "batch", batch, _columns(content, "plate", "tss"))
    return _log2(content, checksum, rows, content["cohort"], batches).split_at_random(0.25, seed=0)


def tcga_11types(folder: Path | None, *, batch: str = "plate") -> Table:
    """Tumours of all eleven types, X (602, 3341) log2 expression >= 0, labelled by type.

    batch: "plate" or "tss". The split is random, a quarter of each type on the test side.
    """
    content, checksum = arrays("tcga-11types", folder)
    batches = picked("tcga-11types", "batch", batch, _columns(content, "plate", "tss"))
    rows = content["sample_type"] == PRIMARY
    return _log2(content, checksum, rows, content["cohort"], batches).split_at_random(0.25, seed=0)


def tcga_tumour_normal(folder: Path | None, *, batch: str = "tss") -> Table:
    """A tumour and the normal tissue beside it of 602 people, X (1204, 3341) log2 expression >= 0.

    batch: "tss", "plate" or "cohort". The split is random over people: both samples of one are on the same side.
    So they are in the same site and cohort, but not on the same plate.
    """
    content, checksum = arrays("tcga-tumour-normal", folder)
    batches = picked("tcga-tumour-normal", "batch", batch, _columns(content, "tss", "plate", "cohort"))
    whole = _log2(content, checksum, np.full(len(batches), True), _tissue(content), batches)
    return _by_person(whole).split_at_random(0.25, seed=0)


def tcga_luad_coadread(folder: Path | None, *, batch: str = "platform", missing: str | float = "drop") -> Table:
    """Primary tumours of lung (LUAD) and of colon and rectum (COADREAD), X (1107, 17507) = log2(RSEM + 1).

    batch:   "platform" (inferred from the genes that were not measured) or "tss"
    missing: the 3023 genes that GA did not measure are left out ("drop"), or filled in with the "mean" of the
             other samples or with a number
    The two cohorts come from different distributors, which may add to what tells them apart.
    """
    content, checksum = arrays("tcga-luad-coadread", folder)
    batches = picked("tcga-luad-coadread", "batch", batch, _columns(content, "platform", "tss"))
    rows = content["sample_type"] == PRIMARY
    made = _rsem("tcga-luad-coadread", content, checksum, rows, content["cohort"], batches, missing)
    return made.split_at_random(0.25, seed=0)


def tcga_luad(folder: Path | None, *, batch: str = "plate") -> Table:
    """Primary lung tumours and the normal lung beside some of them, X (574, 20530) = log2(RSEM + 1).

    batch: "plate" or "tss". The split is random over people: all samples of one are on the same side.
    """
    content, checksum = arrays("tcga-luad", folder)
    batches = picked("tcga-luad", "batch", batch, _columns(content, "plate", "tss"))
    rows = (content["cohort"] == "LUAD") & np.isin(content["sample_type"], (PRIMARY, NORMAL))
    made = _rsem("tcga-luad", content, checksum, rows, _tissue(content), batches, "drop")
    return _by_person(made).split_at_random(0.25, seed=0)


def tcga_coadread(folder: Path | None, *, batch: str = "platform", missing: str | float = "drop") -> Table:
    """Primary tumours of the colon (COAD) and of the rectum (READ), X (592, 17507) = log2(RSEM + 1).

    batch and missing are those of `tcga_luad_coadread`. The file does not tell colon from rectum: the labels are
    inferred from the sites that sent the tissue, and both inferences may be wrong for single samples.
    """
    content, checksum = arrays("tcga-coadread", folder)
    batches = picked("tcga-coadread", "batch", batch, _columns(content, "platform", "tss"))
    rows = content["cohort"] == "COADREAD"
    made = _rsem("tcga-coadread", content, checksum, rows, content["cancer_by_tss"], batches, missing)
    return made.split_at_random(0.25, seed=0)


def _columns(content: Arrays, *names: str) -> Arrays:
    return {name: _platform(content) if name == "platform" else content[name] for name in names}


def _platform(content: Arrays) -> NDArray[np.str_]:
    return np.where(np.char.startswith(content["platform"], "GA"), "GA", "HiSeq")


def _tissue(content: Arrays) -> NDArray[np.str_]:
    return np.where(content["sample_type"] == NORMAL, "normal", "tumour")


def _log2(content: Arrays, checksum: str, rows: NDArray[np.bool_], y: NDArray[Any], batch: NDArray[Any]) -> Table:
    """The chosen rows of the file of eleven types, floored at 0.

    The file's own floor is -2 for nine cohorts and about -10 for COAD and STAD: left in, it tells them by itself.
    """
    return Table(
        np.maximum(content["X"][rows], 0),
        y[rows],
        batch[rows],
        feature_names=tuple(content["gene"].tolist()),
        sample_ids=tuple(content["barcode"][rows].tolist()),
        source="TCGA, eleven tumour types",
        checksum=checksum,
    )


def _rsem(
    name: str,
    content: Arrays,
    checksum: str,
    rows: NDArray[np.bool_],
    y: NDArray[Any],
    batch: NDArray[Any],
    missing: str | float,
) -> Table:
    """The chosen rows of the file of LUAD and COADREAD, floored at 0.

    RSEM is negative in places of the samples of GA, as a correction for batch effects would make it: stored as
    uint16, 1000·log2(RSEM + 1) < 0 wraps around, and a floor below 0 would tell the platform. The genes that GA did
    not measure hold the same number as -0.001; they are the ones where all samples of GA hold it.
    """
    if isinstance(missing, str) and missing not in ("drop", "mean"):
        raise ValueError(f'missing must be "drop", "mean" or a number for the data set {name}, got {missing!r}')
    is_ga = _platform(content) == "GA"
    stored = content["X_uint16"].view(np.int16)
    not_measured = (stored[is_ga] == NOT_MEASURED).all(axis=0)
    X = np.maximum(stored[rows], 0) / np.float32(content["scale"])
    names = _gene_names(content)
    if is_ga[rows].any():
        if missing == "drop":
            X, names = X[:, ~not_measured], names[~not_measured]
        elif missing == "mean":
            X[np.ix_(is_ga[rows], not_measured)] = X[np.ix_(~is_ga[rows], not_measured)].mean(axis=0)
        else:
            X[np.ix_(is_ga[rows], not_measured)] = _checks.number("missing", missing)
    return Table(
        X,
        y[rows],
        batch[rows],
        feature_names=tuple(names.tolist()),
        sample_ids=tuple(content["barcode"][rows].tolist()),
        source="TCGA LUAD and COADREAD",
        checksum=checksum,
    )


def _gene_names(content: Arrays) -> NDArray[np.str_]:
    """The symbols; symbol|entrez, as TCGA writes it, where a symbol is unknown or stands for several genes."""
    symbol = content["symbol"]
    _, inverse, counts = np.unique(symbol, return_inverse=True, return_counts=True)
    full = np.char.add(np.char.add(symbol, "|"), content["entrez"].astype(str))
    return np.where((counts[inverse] > 1) | (symbol == "?"), full, symbol)


def _by_person(table: Table) -> Table:
    """The same samples, those of a person as a group."""
    return replace(table, group=np.asarray(table.sample_ids, dtype=f"U{PARTICIPANT}"))
