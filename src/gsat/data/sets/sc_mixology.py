"""sc_mixology: single cells of five cancer cell lines, measured with two technologies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from gsat.data.rules import picked
from gsat.data.sets.stored import arrays
from gsat.data.table import Table

PER_CELL = 10_000  # counts that every cell is scaled to


def sc_mixology(folder: Path | None, *, batch: str = "batch", layer: str = "log") -> Table:
    """Single cells of five cancer cell lines, X (1408, 11533), whose line is known by genotype.

    batch: "batch" (five) or "technology" (CEL-seq2, Drop-seq)
    layer: "log" for log(1 + counts per 10,000 of the cell), "counts" for the counts of molecules
    The cells of Drop-seq are the test side. Two of the lines, A549 and H838, are in the three *_5cl batches only.
    """
    content, checksum = arrays("sc-mixology", folder)
    columns = {"batch": content["batch"], "technology": content["technology"]}
    batches = picked("sc-mixology", "batch", batch, columns)
    counts = csr_array(
        (content["data"].astype(np.float32), content["indices"].astype(np.int32), content["indptr"]),
        shape=tuple(content["shape"].tolist()),
    )
    if picked("sc-mixology", "layer", layer, {"log": True, "counts": False}):
        total = np.asarray(counts.sum(axis=1), dtype=np.float32)
        counts.data = np.log1p(counts.data * np.repeat(PER_CELL / total, np.diff(counts.indptr)))
    return Table(
        counts.toarray(),
        content["cell_line"],
        batches,
        feature_names=tuple(content["gene"].tolist()),
        sample_ids=tuple(np.char.add(np.char.add(content["batch"], ":"), content["cell"]).tolist()),
        source="sc_mixology",
        checksum=checksum,
        split=np.where(content["technology"] == "Drop-seq", "test", "train"),
    )
