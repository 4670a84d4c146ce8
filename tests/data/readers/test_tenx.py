"""Folders of counts as Cell Ranger writes them."""

import gzip
import re

import numpy as np
import pandas as pd
import pytest

from gsat.data import load

N, D = 13, 6
COUNTS = np.random.default_rng(6).integers(0, 3, (N, D)).astype(np.float32)
COUNTS[0, 0] = 1
CELLS, GENES = [f"s{i}" for i in range(N)], [f"g{j}" for j in range(D)]
KINDS, LABS = [f"kind{i % 3}" for i in range(N)], [f"lab{i % 2}" for i in range(N)]


def write(folder):
    """Counts beside barcodes.tsv and features.tsv, and samples.tsv with what is known of the cells."""
    rows, columns = np.nonzero(COUNTS)
    lines = [f"{j + 1} {i + 1} {int(COUNTS[i, j])}" for i, j in zip(rows, columns, strict=True)]
    head = ["%%MatrixMarket matrix coordinate integer general", "%", f"{D} {N} {len(lines)}"]
    (folder / "matrix.mtx").write_text("\n".join([*head, *lines, ""]))
    (folder / "barcodes.tsv").write_text("\n".join([*CELLS, ""]))
    (folder / "features.tsv").write_text("".join(f"{name}\tsymbol\tGene Expression\n" for name in GENES))
    pd.DataFrame({"barcode": CELLS, "y": KINDS, "b": LABS}).to_csv(folder / "samples.tsv", sep="\t", index=False)


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_of_cell_ranger(tmp_path, packed):
    write(tmp_path)
    if packed:
        for name in ("matrix.mtx", "barcodes.tsv", "features.tsv"):
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
            (tmp_path / name).unlink()
    (tmp_path / "samples.tsv").rename(tmp_path / "cells.tsv")
    table = load(tmp_path, label="y", batch="b", pheno=tmp_path / "cells.tsv")
    np.testing.assert_array_equal(table.X, COUNTS)
    assert (table.y.tolist(), table.batch.tolist()) == (KINDS, LABS)
    assert (list(table.feature_names), list(table.sample_ids)) == (GENES, CELLS)
    same = load(tmp_path / ("matrix.mtx.gz" if packed else "matrix.mtx"))
    assert same.y is None
    assert same.checksum == table.checksum


@pytest.mark.parametrize(
    ("name", "before", "after", "reason"),
    [
        ("matrix.mtx", "integer general", "complex general", "must begin with %%MatrixMarket"),
        ("matrix.mtx", "6 13 ", "6 13000000000 ", "must fit into memory"),
        ("matrix.mtx", "6 13 ", "6 12 ", "barcodes.tsv must have 12 lines, as matrix.mtx says, got more"),
        ("matrix.mtx", "6 13 ", "7 13 ", "features.tsv must have 7 lines, as matrix.mtx says, got 6"),
        ("matrix.mtx", "\n6 13 ", "\n6 13 x", "must give numbers of features, cells and entries"),
        ("matrix.mtx", "\n1 1 ", "\n0 1 ", "must count features from 1 to 6"),
        ("barcodes.tsv", "s1\n", "s0\n", "must have distinct sample ids"),
        ("samples.tsv", "s1\t", "s0\t", "line 3 must be of another cell"),
        ("samples.tsv", "barcode", "well", "must have a column barcode"),
    ],
)
def test_a_wrong_folder_of_cell_ranger(tmp_path, name, before, after, reason):
    write(tmp_path)
    path = tmp_path / name
    text = path.read_text()
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(ValueError, match=re.escape(reason)):
        load(tmp_path, label="y", batch="b", pheno=tmp_path / "samples.tsv")


def test_a_folder_of_cell_ranger_needs_its_files(tmp_path):
    write(tmp_path)
    (tmp_path / "features.tsv").unlink()
    with pytest.raises(FileNotFoundError, match=r"a folder of counts has matrix\.mtx, barcodes\.tsv and features\.tsv"):
        load(tmp_path)
    with pytest.raises(ValueError, match="name it with pheno="):
        load(tmp_path / "matrix.mtx", label="y")
