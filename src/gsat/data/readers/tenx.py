"""Counts in the folders of 10x Genomics' Cell Ranger: matrix.mtx, barcodes.tsv, features.tsv; plain or packed."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.memory import fits
from gsat.data.readers.columns import annotation, by_id, checked
from gsat.data.readers.text import MISSING, as_numbers, table_rows
from gsat.data.rules import among, brief, existing, listed, located, whole
from gsat.data.table import Table

HEADER = "%%matrixmarket matrix coordinate"
KINDS = ("integer general", "real general")
LONGEST = 2**16  # characters of a line
BLOCK = 2**18  # entries that are read at once
TEXT = 100  # bytes of a name in memory
ID = ("barcode", "cell", "id", "")  # what the column of barcodes is called in a table of cells


def read_10x(
    path: Path, *, label: str | None = None, batch: str | None = None, pheno: str | Path | None = None
) -> Table:
    """Counts (cells, features) of a matrix.mtx or matrix.mtx.gz with barcodes.tsv and features.tsv beside it.

    label, batch: columns of the table `pheno`, a .csv or .tsv file with a column barcode; the sample ids are the
    barcodes, the features the first column of features.tsv (or genes.tsv), Ensembl ids as a rule. The checksum is that
    of the three files, matrix first.
    """
    if (label is not None or batch is not None) and pheno is None:
        raise ValueError(f"label and batch of {path} must be columns of a table of the cells: name it with pheno=")
    features, barcodes = _beside(path, "features", "genes"), _beside(path, "barcodes")
    with _opened(path) as stream:
        n_features, n_cells, n_entries = _sizes(path, stream)
        fits(path, f"counts ({n_cells} cells, {n_features} features)", 4 * n_cells * n_features)
        fits(path, f"names of {n_cells} cells and {n_features} features", TEXT * (n_cells + n_features))
        names, ids = _names(features, n_features, path), _names(barcodes, n_cells, path)
        X = np.zeros((n_cells, n_features), np.float32)
        filled = 0
        for entries in _entries(path, stream):
            filled += len(entries)
            _put(path, X, entries, filled, n_entries)
    if filled != n_entries:
        raise ValueError(f"{path} must hold {n_entries} entries as it says, got {filled}")
    row = by_id(ids)
    found = {
        option: as_numbers(annotation(Path(str(pheno)), f"{option}={name!r}", _column(pheno, option, name, ids), row))
        for option, name in (("label", label), ("batch", batch))
        if name is not None
    }
    return checked(
        path,
        row,
        beside=(barcodes, features),
        X=X,
        y=found.get("label"),
        batch=found.get("batch"),
        feature_names=tuple(names),
        sample_ids=tuple(ids),
    )


def _beside(path: Path, *names: str) -> Path:
    """The file of one of these names beside the matrix, packed or not."""
    ways = [path.with_name(f"{name}.tsv{packed}") for name in names for packed in (".gz", "")]
    found = next((way for way in ways if way.exists()), ways[0])
    return existing(found, f"; a folder of counts has matrix.mtx, barcodes.tsv and features.tsv, beside {path}")


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked as they are read."""
    with whole(path, path.suffix, EOFError, zlib.error, OSError), path.open("rb") as plain:
        yield gzip.GzipFile(fileobj=plain) if path.suffix.lower() == ".gz" else plain  # type: ignore[misc]


def _line(path: Path, stream: IO[bytes]) -> str:
    """The next line, without its end; "" at the end of the file."""
    line = stream.readline(LONGEST + 1)
    if len(line) > LONGEST:
        raise ValueError(f"{path} must have lines of at most {LONGEST} characters, got a longer one")
    with whole(path, "UTF-8", UnicodeDecodeError):
        return line.decode()


def _sizes(path: Path, stream: IO[bytes]) -> tuple[int, int, int]:
    """Features, cells and entries that the matrix announces."""
    head = " ".join(_line(path, stream).lower().split())
    if not head.startswith(HEADER) or head.removeprefix(HEADER).strip() not in KINDS:
        raise ValueError(f"{path} must begin with %%MatrixMarket matrix coordinate integer general, got {brief(head)}")
    line = _line(path, stream)
    while line.startswith("%") or line.isspace():
        line = _line(path, stream)
    cells = line.split()
    if len(cells) != 3 or not all(cell.isascii() and cell.isdigit() and len(cell) < 16 for cell in cells):
        raise ValueError(f"{path} must give numbers of features, cells and entries, got {brief(line.strip())}")
    n_features, n_cells, n_entries = map(int, cells)
    if n_entries > n_features * n_cells:
        raise ValueError(f"{path} must have at most {n_features * n_cells} entries, got {n_entries}")
    return n_features, n_cells, n_entries


def _entries(path: Path, stream: IO[bytes]) -> Iterator[NDArray[np.float64]]:
    """Feature, cell and count (entries, 3), both counted from 1, a block at a time."""
    lines = []
    while line := _line(path, stream):
        cells = line.split()
        if not cells:
            continue
        try:
            first, second, value = cells
            lines.append((int(first), int(second), float(value)))
        except (ValueError, OverflowError):
            raise ValueError(
                f"{path} must hold feature, cell and count in each line, got {brief(line.strip())}"
            ) from None
        if len(lines) == BLOCK:
            yield np.array(lines, dtype=np.float64)
            lines = []
    if lines:
        yield np.array(lines, dtype=np.float64)


def _put(path: Path, X: NDArray[np.float32], entries: NDArray[np.float64], filled: int, n_entries: int) -> None:
    """Write entries into the matrix."""
    if filled > n_entries:
        raise ValueError(f"{path} must hold {n_entries} entries as it says, got more")
    limits = np.array(X.shape[::-1])
    if (entries[:, :2] < 1).any() or (entries[:, :2] > limits).any():
        raise ValueError(
            f"{path} must count features from 1 to {limits[0]} and cells from 1 to {limits[1]}, got others"
        )
    rows, columns = entries[:, 1].astype(np.int64) - 1, entries[:, 0].astype(np.int64) - 1
    with np.errstate(over="ignore"):
        X[rows, columns] = entries[:, 2]


def _names(path: Path, count: int, matrix: Path) -> list[str]:
    """The first cell of every line, as many as the matrix announces."""
    found: list[str] = []
    with _opened(path) as stream:
        while line := _line(path, stream):
            if len(found) == count:
                raise ValueError(f"{path} must have {count} lines, as {matrix.name} says, got more")
            found.append(line.rstrip("\r\n").split("\t")[0])
    if len(found) != count:
        raise ValueError(f"{path} must have {count} lines, as {matrix.name} says, got {len(found)}")
    return found


def _column(pheno: Any, option: str, name: str, ids: list[str]) -> list[str]:
    """Each cell's entry in the column `name` of the table, found by its barcode."""
    table = existing(located(pheno))
    rows = table_rows(table)
    header = next(rows)[1]
    at = header.index(among(table, option, name, header, "column"))
    key = next((header.index(each) for each in ID if each in header), None)
    if key is None:
        raise ValueError(f"{table} must have a column barcode, it has {listed(header)}")
    entries: dict[str, str] = {}
    for line, cells in rows:
        if cells[key] in entries:
            raise ValueError(
                f"{table}, line {line} must be of another cell than the lines above, got {brief(cells[key])}"
            )
        entries[cells[key]] = "" if cells[at].strip() in MISSING else cells[at]
    return [entries.get(each, "") for each in ids]
