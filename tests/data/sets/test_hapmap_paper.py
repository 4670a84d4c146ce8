"""The paper's genotypes from files of the user's own, in PLINK's form and as a table, and wrong ones."""

import re

import numpy as np
import pytest

from gsat import data
from gsat.data.sets import hapmap_paper

CALLS = np.array(
    [[0, 1, 2, 0], [2, 2, -1, 1], [1, 0, 0, 1], [0, 0, 1, 2], [1, 1, 1, 0], [2, 0, 2, 0], [0, 2, 0, 1], [1, 1, 2, 2]]
)
IDS = [f"NA{i}" for i in range(len(CALLS))]
LABELS = "IID,continent\n" + "".join(f"{name},{'Africa' if i % 2 else 'Europe'}\n" for i, name in enumerate(IDS))
TABLE = "IID,rs1,rs2,rs3,rs4\n" + "".join(
    f"{name},{','.join('NA' if call < 0 else str(call) for call in row)}\n"
    for name, row in zip(IDS, CALLS, strict=True)
)


@pytest.fixture
def folder(tmp_path):
    """A data folder with the table and its labels, in another order."""
    (tmp_path / "hapmap-paper").mkdir()
    (tmp_path / "hapmap-paper" / "genotypes.csv").write_text(TABLE)
    header, *lines = LABELS.splitlines()
    (tmp_path / "hapmap-paper" / "labels.csv").write_text("\n".join([header, *reversed(lines)]))
    return tmp_path


def write_plink(folder, chromosomes):
    """The four SNPs as a PLINK file set in which they have these chromosomes."""
    code = {2: 0b00, 1: 0b10, 0: 0b11, -1: 0b01}  # of allele 1
    bed = bytearray(b"\x6c\x1b\x01")
    for column in CALLS.T:
        for start in range(0, len(column), 4):
            bed.append(sum(code[int(call)] << 2 * i for i, call in enumerate(column[start : start + 4])))
    (folder / "genotypes.bed").write_bytes(bytes(bed))
    (folder / "genotypes.bim").write_text("".join(f"{c} rs{j + 1} 0 {j} A G\n" for j, c in enumerate(chromosomes)))
    (folder / "genotypes.fam").write_text("".join(f"F {name} 0 0 1 -9\n" for name in IDS))


def test_a_table_and_plink_files_give_the_same(folder, monkeypatch):
    table = data.load("hapmap-paper", data_dir=folder)
    assert table.X.shape == (8, 12)
    assert table.feature_names[3:6] == ("rs2=0", "rs2=1", "rs2=2")
    assert table.y.tolist() == ["Europe", "Africa"] * 4
    shown = table.X.reshape(8, 4, 3)
    there = CALLS >= 0
    np.testing.assert_array_equal(shown.argmax(2)[there], CALLS[there])
    np.testing.assert_allclose(shown[1, 2], [2 / 7, 2 / 7, 3 / 7], rtol=1e-6)  # the shares of the others
    (folder / "hapmap-paper" / "genotypes.csv").unlink()
    write_plink(folder / "hapmap-paper", ["1", "1", "1", "1"])
    same = data.load("hapmap-paper", data_dir=folder)
    np.testing.assert_array_equal(same.X, table.X)
    assert same.y.tolist() == table.y.tolist()
    assert same.checksum != table.checksum
    counts = data.load("hapmap-paper", data_dir=folder, one_hot=False, missing=0)
    np.testing.assert_array_equal(counts.X, np.maximum(CALLS, 0))
    write_plink(folder / "hapmap-paper", ["2", "1", "1", "1"])
    monkeypatch.setattr(hapmap_paper, "FIRST", 2)
    assert data.load("hapmap-paper", data_dir=folder, one_hot=False).feature_names == ("rs2", "rs3")


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("genotypes.csv", "NA3,0,0,1,2", "NA3,0,0,3,2", "line 5, SNP rs3 must be 0, 1, 2 or NA, got '3'"),
        ("genotypes.csv", "NA3,0,0,1,2", "NA3,0,0,1", "genotypes.csv, line 5 must have 5 cells"),
        ("genotypes.csv", "NA3,", "NA2,", "genotypes.csv must have distinct ids of samples, got 'NA2'"),
        ("genotypes.csv", ",2", ",1", "genotypes.csv must hold genotypes 0, 1 and 2, got no 2"),
        ("genotypes.csv", "\nNA0,", "\n", "genotypes.csv, line 2 must have 5 cells"),
        ("labels.csv", "NA3,Africa", "NA9,Africa", "must have a label for each of the 8 samples, got none for 1"),
        ("labels.csv", "NA3,Africa", "NA3,", "must have a label for NA3, got ''"),
        ("labels.csv", "NA3,Africa", "NA4,Africa", "must be of another sample than the lines above, got NA"),
        ("labels.csv", "continent", "continent,sex", "labels.csv must have two columns"),
        ("labels.csv", "Africa", "Europe", "labels.csv must have two labels or more, got 'Europe' alone"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused(folder, name, old, new, message):
    path = folder / "hapmap-paper" / name
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=re.escape(message)):
        data.load("hapmap-paper", data_dir=folder)


def test_plink_files_without_chromosome_1_and_none_at_all(folder):
    (folder / "hapmap-paper" / "genotypes.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"genotypes.csv is missing .* put genotypes.csv .* into hapmap-paper/"):
        data.load("hapmap-paper", data_dir=folder)
    write_plink(folder / "hapmap-paper", ["2", "2", "X", "X"])
    with pytest.raises(ValueError, match=r"genotypes.bim must have SNPs of chromosome 1, got those of 2, X"):
        data.load("hapmap-paper", data_dir=folder)
