"""Genotypes in PLINK file sets: .bed with .bim and .fam beside it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsat.data.asked import now
from gsat.data.memory import fits, stays_on_disk
from gsat.data.readers.calls import calls_beside, check_policy, encoded, named, opened_bed
from gsat.data.readers.columns import annotation, by_id, checked
from gsat.data.readers.text import MISSING, as_numbers, table_rows
from gsat.data.rows import StoredRows
from gsat.data.rules import AbsentError, among, distinct, existing, listed, located, needs, not_utf8
from gsat.data.table import Table

MAGIC = b"\x6c\x1b\x01"  # the third byte: SNP by SNP, the only order PLINK has written since 2009
FAM = ("family", "iid", "father", "mother", "sex", "phenotype")
BIM = ("chromosome", "snp", "centimorgan", "position", "allele 1", "allele 2")
FROM_FAM = ("family", "sex", "phenotype")
NONE = MISSING | {"-9"}  # PLINK's sign for a missing phenotype
SEXES = {"1": "male", "2": "female"}
TEXT_GROWS = 16  # bytes of memory for a byte of a .fam or .bim file, whose cells are short
ENOUGH = 20  # SNPs; nobody carries allele 1 twice at so many


def read_plink(
    path: Path,
    *,
    label: str | None = None,
    batch: str | None = None,
    pheno: str | Path | None = None,
    missing: str | float = "mean",
    one_hot: bool = False,
) -> Table:
    """Genotypes (samples, SNPs): how often a sample carries allele 1 of the .bim file, 0, 1 or 2.

    label, batch: a column of the table `pheno`, a .csv or .tsv file (any other ending: tabs) with a column IID,
                  or FID and IID; or "family", "sex" or "phenotype" of the .fam file
    missing:      genotypes without a call become the "mean" of the calls of their SNP, or this number; "error"
                  refuses them
    one_hot:      (samples, 3 SNPs), three indicators snp=0, snp=1, snp=2 for each SNP, which share a number in
                  `feature_groups`; without a call they are the shares of the three genotypes ("mean")

    The sample ids are the IIDs, or FID_IID where people of two families share an IID. The checksum is that of
    the .bed, .bim and .fam files, in this order. Samples that stay on disk are in a file beside, a byte a genotype.
    """
    check_policy(missing, one_hot)
    if pheno is not None and label is None and batch is None:
        raise ValueError(f"pheno must come with label= or batch=, the names of its columns, got only {pheno}")
    people, ids, columns = _described(path)
    snps, size = columns["snp"], (len(ids), len(columns["snp"]))
    odd = None
    if stays_on_disk((size[0], size[1] * (3 if one_hot else 1)), now().stream):
        store = calls_beside(path, ids, snps, missing=missing, one_hot=one_hot)
        features = {"X": StoredRows(store), **named(snps, one_hot)}
        odd = (0, 0, 0) if np.isfinite(store.instead).all() else None
    else:
        calls = _calls(path, size, None, one_hot)
        features = encoded(path, calls, ids, snps, missing=missing, one_hot=one_hot)
    bim, fam = path.with_suffix(".bim"), path.with_suffix(".fam")
    return checked(
        path,
        by_id(ids),
        beside=(bim, fam),
        odd=odd,
        **features,
        y=_annotation(path, fam, "label", label, people, pheno),
        batch=_annotation(path, fam, "batch", batch, people, pheno),
        sample_ids=tuple(ids),
    )


def some_genotypes(
    path: Path, only: Callable[[dict[str, list[str]]], list[int]], *, one_hot: bool
) -> tuple[list[str], list[str], NDArray[np.int8]]:
    """Sample ids, names of SNPs, and the calls (samples, SNPs) of some SNPs of a file set.

    only: from the columns of the .bim file the places of the SNPs to read; the others are not read
    """
    _, ids, columns = _described(path)
    taken = only(columns)
    calls = _calls(path, (len(ids), len(columns["snp"])), taken, one_hot)
    return ids, [columns["snp"][j] for j in taken], calls


def _described(path: Path) -> tuple[dict[str, list[str]], list[str], dict[str, list[str]]]:
    """The columns of the .fam file, sample ids, and the columns of the .bim file, once they and the .bed file agree."""
    needs("bed_reader", "bed-reader", ".bed")
    triplet = f"; a PLINK file set is {path.stem}.bed, {path.stem}.bim and {path.stem}.fam in one folder"
    bim, fam = (existing(path.with_suffix(ending), triplet) for ending in (".bim", ".fam"))
    people, snps = _columns(fam, FAM), _columns(bim, BIM)
    ids = people["iid"]
    if len(set(ids)) < len(ids):
        ids = [f"{family}_{iid}" for family, iid in zip(people["family"], ids, strict=True)]
    distinct(fam, "samples (FID and IID)", ids)
    distinct(bim, "SNP names", snps["snp"], "; name them with plink --set-missing-var-ids @:# or drop the repeated")
    _check_bytes(path, ids, snps["snp"])
    return people, ids, snps


def _calls(path: Path, size: tuple[int, int], taken: list[int] | None, one_hot: bool) -> NDArray[np.int8]:
    """The calls (samples, SNPs) of all SNPs or of those `taken`, of a file set of so many samples and SNPs."""
    n, d = size[0], size[1] if taken is None else len(taken)
    width = (12 if one_hot else 4) + 2  # bytes of a genotype in X, as a call, and whether it is missing
    fits(path, f"genotypes ({n} samples, {d} SNPs)", width * n * d)
    with opened_bed(path, size) as bed:
        found: NDArray[np.int8] = bed.read(None if taken is None else np.s_[:, taken], dtype="int8", order="C")
    return found


def _columns(path: Path, names: tuple[str, ...]) -> dict[str, list[str]]:
    """The columns of a .fam or .bim file, separated by blanks or tabs, by name."""
    fits(path, "a table of text", TEXT_GROWS * path.stat().st_size)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise not_utf8(path) from error
    rows = []
    for number, line in enumerate(lines, 1):
        cells = line.split()
        if cells and len(cells) != len(names):
            raise ValueError(
                f"{path}, line {number} must have {len(names)} columns ({', '.join(names)}), got {len(cells)}"
            )
        if cells:
            rows.append(cells)
    if not rows:
        raise ValueError(f"{path} must have at least one line, got none")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _check_bytes(path: Path, ids: list[str], snps: list[str]) -> None:
    """Raise unless the .bed file starts as one and holds what the two others say: no sample more and none less.

    A SNP takes whole bytes of four samples each, first sample lowest, and what is left of the last byte is zero.
    A .fam file that lacks a line often asks for as many bytes; what is not zero then tells it.
    """
    with path.open("rb") as stream:
        magic = stream.read(3)
    if magic != MAGIC:
        raise ValueError(
            f"{path} must start with the bytes {MAGIC.hex(' ')} of a PLINK 1 .bed file, got {magic.hex(' ') or 'none'}"
        )
    width = -(-len(ids) // 4)
    expected = len(MAGIC) + width * len(snps)
    if (found := path.stat().st_size) != expected:
        raise ValueError(
            f"{path} must hold {expected} bytes for the {len(ids)} samples of the .fam and the {len(snps)} SNPs of "
            f"the .bim file, got {found}"
        )
    last = np.memmap(path, np.uint8, "r", offset=len(MAGIC), shape=(len(snps), width))[:, -1]
    bits = 2 * (len(ids) - 4 * (width - 1))  # of the last byte, those of samples
    if bits < 8 and (more := last >> bits).any():
        raise ValueError(
            f"{path} must hold zeros after the {len(ids)} samples of the .fam file, got genotypes of more samples, the "
            f"first at SNP {snps[int(more.argmax())]!r}; is a line of the .fam file missing?"
        )
    if len(snps) >= ENOUGH and not (last >> (bits - 2)).any():
        warnings.warn(
            f"{path} has no genotypes but 00 for the last sample {ids[-1]!r} of {len(ids)}, as if it were not there; "
            "is there a line too many in the .fam file?",
            stacklevel=4,
        )


def _annotation(
    path: Path, fam: Path, option: str, name: str | None, people: dict[str, list[str]], pheno: str | Path | None
) -> NDArray[np.generic] | None:
    """The column `name` of the table `pheno`, or of the .fam file, one entry per sample."""
    if name is None:
        return None
    row = by_id(people["iid"])
    if pheno is not None:
        table = existing(located(pheno))
        found = _from_table(table, fam, option, name, people)
        return as_numbers(annotation(table, f"{option}={name!r}", found, row))
    if name not in FROM_FAM:
        raise AbsentError(
            f"{option} must be one of {listed(FROM_FAM)} for {path}, or a column of the table that pheno= names, "
            f"got {name!r}"
        )
    found = people[name]
    if name == "sex":
        found = [SEXES.get(code, "") for code in found]
    elif name == "phenotype":
        # 0 is missing where the phenotype is 1 (control) or 2 (case), and a number like any other elsewhere
        none = NONE | {"0"} if set(found) <= NONE | {"0", "1", "2"} else NONE
        found = ["" if value in none else value for value in found]
    values = annotation(fam, f"{option}={name!r}", found, row)
    return as_numbers(values) if name == "phenotype" else values


def _from_table(table: Path, fam: Path, option: str, name: str, people: dict[str, list[str]]) -> list[str]:
    """Each sample's entry in the column `name`, found by IID, or by FID and IID where the table has both."""
    rows = table_rows(table)
    header = next(rows)[1]
    header[0] = header[0].removeprefix("#")  # PLINK 2 writes #FID
    among(table, option, name, header, "column")
    if "IID" not in header:
        raise ValueError(f"{table} must have a column IID, or FID and IID, it has {listed(header)}")
    by_family = "FID" in header
    at = [header.index(key) for key in (("FID", "IID") if by_family else ("IID",))]
    keys = list(zip(*([people["family"]] if by_family else []), people["iid"], strict=True))
    if not by_family:
        distinct(fam, "IIDs", people["iid"], f"; give {table} a column FID too")
    entries: dict[tuple[str, ...], str] = {}
    for line, cells in rows:
        key = tuple(cells[j] for j in at)
        if key in entries:
            raise ValueError(
                f"{table}, line {line} must be of another sample than the lines above, got {' '.join(key)}"
            )
        cell = cells[header.index(name)]
        entries[key] = "" if cell.strip() in NONE else cell
    return [entries.get(key, "") for key in keys]
