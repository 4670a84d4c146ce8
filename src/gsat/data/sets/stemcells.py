"""Fibroblasts and stem cells of four studies."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gsat.data.sets.stored import arrays
from gsat.data.table import Table


def stemcells(folder: Path | None) -> Table:
    """Fibroblasts, embryonic and induced stem cells, X (125, 400) in [0, 1], of four studies (batch).

    The values are cumulative proportions (YuGene), computed by their source. Study 3 is the test side.
    """
    content, checksum = arrays("stemcells", folder)
    return Table(
        content["X"],
        content["celltype"],
        content["study"],
        feature_names=tuple(content["gene"].tolist()),
        sample_ids=tuple(content["sample"].tolist()),
        source="stem cells of four studies",
        checksum=checksum,
        split=np.where(content["study"] == "3", "test", "train"),
    )
