"""UCI's "gene expression cancer RNA-Seq", as the archive or as the two tables in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gsat.data.catalogue import KNOWN, UCI_ARCHIVE
from gsat.data.fetching.archives import extract
from gsat.data.files import needed
from gsat.data.readers.text import read_text
from gsat.data.rules import sha256_of
from gsat.data.sets.labels import labels_of
from gsat.data.table import Table

COUNTS = {"BRCA": 300, "COAD": 78, "KIRC": 146, "LUAD": 141, "PRAD": 136}
TABLES = ("data.csv", "labels.csv")


def tcga_uci(folder: Path | None) -> Table:
    """Tumours of five types, X (801, 20531) = log2(RSEM + 1) of genes that are numbered, not named.

    The files in `folder`/tcga-uci may be UCI's .zip, the .tar.gz in it, or data.csv and labels.csv. They are told by
    their size and the counts of their labels. The split is random, a quarter of each type on the test side.
    """
    paths = needed("tcga-uci", folder)
    with _tables(paths) as (data, labels):
        table = read_text(data)
        y = labels_of(labels, table.sample_ids or ())
        checksum = sha256_of(data, labels)
    known = KNOWN["tcga-uci"]
    if table.X.shape != (known.samples, known.features):
        raise ValueError(f"{paths[0]} must hold {known.samples} x {known.features} numbers, got {table.X.shape}")
    found = replace(
        table,
        y=y,
        source="TCGA, gene expression cancer RNA-Seq of UCI",
        checksum=checksum,
    )
    if (counts := found.describe()["classes"]) != COUNTS:
        raise ValueError(f"{paths[-1]} must label the samples of the data as {COUNTS}, got {counts}")
    return found.split_at_random(0.25, seed=0)


@contextmanager
def _tables(paths: tuple[Path, ...]) -> Iterator[tuple[Path, Path]]:
    """data.csv and labels.csv, which are unpacked for as long as they are needed."""
    if len(paths) == len(TABLES):
        yield paths[0], paths[1]
        return
    (archive,) = paths
    with tempfile.TemporaryDirectory() as room:
        if archive.suffix == ".zip":
            inner = Path(room, UCI_ARCHIVE)
            extract(archive, {UCI_ARCHIVE: inner})
            archive = inner
        inside = UCI_ARCHIVE.removesuffix(".tar.gz")
        data, labels = (Path(room, name) for name in TABLES)
        extract(archive, {f"{inside}/{path.name}": path for path in (data, labels)})
        yield data, labels
