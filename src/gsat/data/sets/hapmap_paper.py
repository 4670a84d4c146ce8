"""The genotypes of the paper's HapMap experiment, from files of your own: PLINK's, or a table of 0, 1 and 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.files import needed
from gsat.data.readers.calls import NO_CALL, check_policy, encoded
from gsat.data.readers.plink import some_genotypes
from gsat.data.readers.text import MISSING, text_rows
from gsat.data.rules import distinct, sha256_of
from gsat.data.sets.labels import labels_of
from gsat.data.table import Table

FIRST = 3475  # SNPs of the paper, the first of chromosome 1
CHROMOSOME = ("1", "01", "chr1")
CALLS = {**{f"{count}{zeros}": count for count in range(3) for zeros in ("", ".0")}, **dict.fromkeys(MISSING, NO_CALL)}


def hapmap_paper(folder: Path | None, *, one_hot: bool = True, missing: str | float = "mean") -> Table:
    """Genotypes and the native continent of people, as the paper has them: X (1600, 10425), from 3,475 SNPs.

    In `folder`/hapmap-paper are labels.csv, with an id and a continent on each line after the header, and

    - genotypes.bed, .bim and .fam, of which the first 3,475 SNPs of chromosome 1 are taken, or
    - genotypes.csv, a header of SNPs, then an id and as many of 0, 1, 2 on each line; NA or nothing without a call.

    Which 1,600 people and which SNPs these were the paper does not say, so that any number of both will do. The
    options are those of `hapmap`. A quarter of each class is the test side, with seed 0, as the paper's 400 of 1,600.
    """
    check_policy(missing, one_hot)
    paths = needed("hapmap-paper", folder)
    first, labels = paths[0], paths[-1]
    if first.suffix == ".bed":
        ids, snps, calls = some_genotypes(first, lambda bim: _first_of_chromosome_1(first, bim), one_hot=one_hot)
    else:
        ids, snps, calls = _of_table(first)
    y = labels_of(labels, ids)
    if len(set(y.tolist())) == 1:
        raise ValueError(f"{labels} must have two labels or more, got {str(y[0])!r} alone")
    table = Table(
        **encoded(first, calls, ids, snps, missing=missing, one_hot=one_hot),
        y=y,
        sample_ids=tuple(ids),
        source="HapMap, files of your own",
        checksum=sha256_of(*paths),
    )
    return table.split_at_random(test_fraction=0.25, seed=0)


def _first_of_chromosome_1(path: Path, bim: dict[str, list[str]]) -> list[int]:
    there = [j for j, name in enumerate(bim["chromosome"]) if name.lower() in CHROMOSOME]
    if not there:
        raise ValueError(
            f"{path.with_suffix('.bim')} must have SNPs of chromosome 1, got those of "
            f"{', '.join(dict.fromkeys(bim['chromosome']))}"
        )
    return there[:FIRST]


def _of_table(path: Path) -> tuple[list[str], list[str], NDArray[np.int8]]:
    """Sample ids, names of SNPs, and the calls (samples, SNPs) of a table of genotypes."""
    rows = text_rows(path, ",")
    snps = next(rows)[1][1:]
    ids: list[str] = []
    calls: list[NDArray[Any]] = []
    for line, (sample, *cells) in rows:
        try:
            calls.append(np.array([CALLS[cell.strip()] for cell in cells], np.int8))
        except KeyError as error:
            snp = snps[[cell.strip() for cell in cells].index(error.args[0])]
            raise ValueError(f"{path}, line {line}, SNP {snp} must be 0, 1, 2 or NA, got {error.args[0]!r}") from None
        ids.append(sample)
    distinct(path, "ids of samples", ids)
    if not snps or not ids:
        raise ValueError(f"{path} must hold samples and SNPs, got {len(ids)} x {len(snps)}")
    found = np.stack(calls)
    if not (found == 2).any():
        raise ValueError(f"{path} must hold genotypes 0, 1 and 2, got no 2; are its columns indicators already?")
    return ids, snps, found
