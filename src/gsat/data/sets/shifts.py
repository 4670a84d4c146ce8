"""Seven sets whose batches shift what is measured: months, speakers, areas, users, studies, people, weeks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gsat.data.catalogue import KNOWN
from gsat.data.sets.stored import arrays
from gsat.data.table import Table

READ = ("X", "y", "batch", "feature_names", "group")  # what else a file holds is left out, pickled objects among it


def shift(name: str, test_batch: str, folder: Path | None) -> Table:
    """The set called `name`, X (n, d) float32 with labels, batches and, where rows belong together, groups.

    The test side is the batch `test_batch`.
    """
    content, checksum = arrays(name, folder, READ)
    return Table(
        content["X"].astype(np.float32),
        content["y"],
        content["batch"],
        feature_names=tuple(content["feature_names"].tolist()),
        source=KNOWN[name].title,
        checksum=checksum,
        group=content.get("group"),
    ).split_where(content["batch"] == test_batch)
