"""bladderbatch: bladder tissue on arrays of five batches."""

from __future__ import annotations

from pathlib import Path

from gsat.data.rules import picked
from gsat.data.sets.stored import arrays
from gsat.data.table import Table


def bladderbatch(folder: Path | None, *, label: str = "cancer") -> Table:
    """Bladder tissue on arrays of five batches, X (57, 22283) RMA log2 expression.

    label: "cancer" (Cancer, Normal, Biopsy) or "outcome", which tells three kinds of cancer apart
    The probes have no names if the set was fetched from a package: that one has none.
    Batch and class are strongly confounded: batches 1, 3 and 4 hold one class each. The split is random.
    """
    content, checksum = arrays("bladderbatch", folder)
    columns = {"cancer": content["cancer"], "outcome": content["outcome"]}
    return Table(
        content["X"],
        picked("bladderbatch", "label", label, columns),
        content["batch"],
        feature_names=tuple(content["probe"].tolist()) if "probe" in content else None,
        sample_ids=tuple(content["sample"].tolist()),
        source="bladderbatch",
        checksum=checksum,
    ).split_at_random(0.25, seed=0)
