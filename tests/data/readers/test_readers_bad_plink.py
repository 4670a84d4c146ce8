"""Bad PLINK files fail with the path, the place and the reason."""

import re

import numpy as np
import pytest
from test_readers import CALLS, write_plink
from test_readers_bad import refuses

from gsat import data

FAM = "".join(f"f i{i} 0 0 {i % 3} {i % 2}\n" for i in range(6))
BIM = "".join(f"1\trs{j}\t0\t{j}\tA\tG\n" for j in range(1, 5))


@pytest.mark.parametrize(
    ("ending", "content", "reason"),
    [
        (".fam", None, r" is missing; a PLINK file set is bad.bed, bad.bim and bad.fam in one folder$"),
        (".bim", None, r" is missing; a PLINK file set is bad.bed, bad.bim and bad.fam in one folder$"),
        (".fam", FAM.replace("i2 0 0 2", "i2 0 2"), r", line 3 must have 6 columns \(family, iid, .*type\), got 5$"),
        (".bim", BIM.replace("rs2", "rs 2"), r", line 2 must have 6 columns \(chromosome, snp, .* allele 2\), got 7$"),
        (".fam", "\n", r" must have at least one line, got none$"),
        (".bim", "", r" must have at least one line, got none$"),
        (".fam", FAM.encode("utf-16"), r", line 1 must be UTF-8 text, got byte 0xff; save the file as UTF-8$"),
        (".bim", BIM.replace("rs3", "rß").encode("latin-1"), r", line 3 must be UTF-8 text, got byte 0xdf;"),
        (
            ".fam",
            FAM.replace("i4", "i1"),
            r" must have distinct samples \(FID and IID\), got 'f_i1' at positions 1 and 4",
        ),
        (
            ".bim",
            BIM.replace("rs2", "rs1"),
            r" must have distinct SNP names, got 'rs1' at positions 0 and 1 .*--set-missing",
        ),
        (".bed", b"", r" must start with the bytes 6c 1b 01 of a PLINK 1 .bed file, got none$"),
        (".bed", b"chr1\t100\t200\n", r" must start with the bytes 6c 1b 01 of a PLINK 1 .bed file, got 63 68 72$"),
        (".bed", b"\x6c\x1b\0" + bytes(8), r" must start with the bytes 6c 1b 01 .*, got 6c 1b 00$"),
        (
            ".bed",
            b"\x6c\x1b\x01" + bytes(7),
            r" must hold 11 bytes for the 6 samples .* 4 SNPs of the .bim file, got 10$",
        ),
        (
            ".bed",
            b"\x6c\x1b\x01" + bytes(9),
            r" must hold 11 bytes for the 6 samples .* 4 SNPs of the .bim file, got 12$",
        ),
    ],
)
def test_plink_files(tmp_path, ending, content, reason):
    path = write_plink(tmp_path / "bad.bed")
    bad = path.with_suffix(ending)
    bad.unlink()
    if content is not None:
        bad.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((ValueError, FileNotFoundError), match=f"^{re.escape(str(bad))}{reason}"):
        data.load(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "median"}, r'missing must be "mean", "error" or a number, got \'median\'$'),
        ({"missing": float("nan")}, r"missing must be finite, got nan$"),
        ({"missing": 0.5, "one_hot": True}, r"missing must be 0, 1 or 2 with one_hot=True, got 0.5$"),
        ({"missing": "error"}, r'.*bad.bed must have .*="error", got none for 3 of 24, .* sample \'i0\', SNP \'rs4\'$'),
        ({"label": "pop"}, r"label must be one of 'family', 'sex', 'phenotype' for .*bad.bed, or a .* got 'pop'$"),
        ({"label": "sex"}, r".*bad.fam must have a value of label='sex' .* none for 2 of 6, .* sample 'i0';"),
        (
            {"label": "phenotype"},
            r".*bad.fam must have a value of label='phenotype' .* none for 3 of 6, .* sample 'i0';",
        ),
        ({"pheno": "pheno.tsv"}, r"pheno must come with label= or batch=, .* got only pheno.tsv$"),
        ({"pheno": "none.tsv", "label": "pop"}, r"none.tsv is missing$"),
    ],
)
def test_plink_options(tmp_path, options, message):
    path = write_plink(tmp_path / "bad.bed")
    path.with_suffix(".fam").write_text(FAM)
    with pytest.raises((ValueError, FileNotFoundError), match=f"^{message}"):
        data.load(path, **options)


def test_plink_mean_of_a_snp_without_calls(tmp_path):
    calls = np.where(np.arange(4) % 2 == 1, np.nan, CALLS)
    path = write_plink(tmp_path / "bad.bed", calls)
    refuses(path, r" must have a call for every SNP to take its mean, got none for 2 SNPs, the first 'rs2'; drop")
    assert (data.load(path, missing=0).X[:, 1] == 0).all()


ROWS = "".join(f"i{i}\tp{i % 2}\n" for i in range(6))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("IID\tcountry\n" + ROWS, r" must have the column that label='pop' names, it has 'IID', 'country'$"),
        ("sample\tpop\n" + ROWS, r" must have a column IID, or FID and IID, it has 'sample', 'pop'$"),
        (
            "IID\tpop\n" + ROWS[:-6],
            r" must have a value of label='pop' .* got none for 1 of 6, the first at sample 'i5';",
        ),
        (
            "IID\tpop\n" + ROWS.replace("i2\tp0", "i2\t-9"),
            r" must have a value of label='pop' .* 1 of 6, .* sample 'i2';",
        ),
        ("IID\tpop\n" + ROWS + "i3\tp0\n", r", line 8 must be of another sample than the lines above, got i3$"),
        ("IID\tpop\n" + ROWS + "i7\n", r", line 8 must have 2 cells as the header has, got 1$"),
        ("", r" must start with a header of column names, got an empty file$"),
    ],
)
def test_plink_phenotype_table(tmp_path, content, reason):
    path, pheno = write_plink(tmp_path / "bad.bed"), tmp_path / "pheno.tsv"
    pheno.write_text(content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(pheno))}{reason}"):
        data.load(path, label="pop", pheno=pheno)


def test_plink_phenotype_table_by_iid_alone_when_families_share_iids(tmp_path):
    path, pheno = write_plink(tmp_path / "bad.bed", fid=list("uuuvvv"), iid=list("123123")), tmp_path / "pheno.tsv"
    pheno.write_text("IID\tpop\n1\ta\n2\tb\n3\tc\n")
    with pytest.raises(
        ValueError, match=r"bad.fam must have distinct IIDs, got '1' at .*; give .*pheno.tsv a column FID"
    ):
        data.load(path, label="pop", pheno=pheno)


def test_plink_a_fam_file_with_one_line_missing(tmp_path):
    calls = np.random.default_rng(0).integers(0, 3, (119, 40)).astype(np.float32)
    known = {"fid": ["0"] * 119, "iid": [f"i{i}" for i in range(119)], "sid": [f"rs{j}" for j in range(40)]}
    path = write_plink(tmp_path / "bad.bed", calls, **known)
    assert data.load(path).X.shape == (119, 40)
    fam = path.with_suffix(".fam")
    lines = fam.read_text().splitlines(keepends=True)
    fam.write_text("".join(lines[:10] + lines[11:]))  # 118 people fill as many bytes as 119
    refuses(path, r" must hold zeros after the 118 samples of the \.fam file, got genotypes of more .* SNP 'rs\d+'")


def test_plink_a_fam_file_with_one_line_too_many(tmp_path):
    calls = np.random.default_rng(0).integers(0, 3, (6, 40)).astype(np.float32)
    path = write_plink(tmp_path / "bad.bed", calls, sid=[f"rs{j}" for j in range(40)])
    fam = path.with_suffix(".fam")
    fam.write_text(fam.read_text() + "0 i6 0 0 0 0\n")
    with pytest.warns(UserWarning, match=r"bad\.bed has no genotypes but 00 for the last sample 'i6' .* \.fam"):
        data.load(path)


def test_plink_a_table_of_labels_that_is_a_folder_or_a_home_of_nobody(tmp_path):
    path = write_plink(tmp_path / "bad.bed")
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(str(tmp_path))} is a folder, not a file$"):
        data.load(path, label="pop", pheno=tmp_path)
    with pytest.raises(ValueError, match=r"^~nosuchuser/x.tsv must start with the home folder of a user, "):
        data.load(path, label="pop", pheno="~nosuchuser/x.tsv")
