"""Which allele a genotype counts: two PLINK files may count the two alleles of the same SNP, and 0 then means 2.

In a model the features of a PLINK file are called rs123_A, as PLINK's own .raw files call them, A being the allele that
is counted (allele 1 of the .bim file), or rs123_A=0, rs123_A=1, rs123_A=2.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsat.data.rows import Index, Store, StoredRows
from gsat.data.table import Table


def with_alleles(table: Table, bed: Path) -> Table:
    """The table of a .bed file with the counted allele in the names of its features."""
    counted = [first for first, _ in _alleles(bed)]
    return replace(table, feature_names=_named(table, counted))


def counted_alike(table: Table, bed: Path, wanted: Collection[str]) -> tuple[Table, int]:
    """The table counting those alleles that the features `wanted` do, and for how many SNPs that was the other one."""
    known = {*wanted, *(name.rpartition("=")[0] for name in wanted)}
    snps, alleles = _snps(table), _alleles(bed)
    if known.intersection(snps):  # a model that was trained without alleles in the names
        return table, 0
    flipped = np.array(
        [
            f"{snp}_{first}" not in known and f"{snp}_{second}" in known
            for snp, (first, second) in zip(snps, alleles, strict=True)
        ]
    )
    X, one_hot = table.X, table.feature_groups is not None
    if flipped.any() and isinstance(X, StoredRows):
        X = StoredRows(OtherAllele(X.store, flipped, one_hot), X.rows, X.columns, X.feature_names)
    elif flipped.any():
        X = _turned(X.copy(), flipped, one_hot)
    counted = [pair[int(other)] for pair, other in zip(alleles, flipped, strict=True)]
    return replace(table, X=X, feature_names=_named(table, counted)), int(flipped.sum())


class OtherAllele:
    """Genotypes of a store, of which some SNPs count the other allele.

    Parameters
    ----------
    store
        Of all SNPs.
    flipped
        One for each SNP.
    one_hot
        Whether a SNP has three columns.
    """

    def __init__(self, store: Store, flipped: NDArray[np.bool_], one_hot: bool) -> None:
        self.store, self.flipped, self.one_hot = store, flipped, one_hot
        self.shape, self.path = store.shape, store.path

    def read(self, rows: Index) -> NDArray[np.float32]:
        """These rows."""
        return _turned(self.store.read(rows), self.flipped, self.one_hot)


def _turned(X: NDArray[np.float32], flipped: NDArray[np.bool_], one_hot: bool) -> NDArray[np.float32]:
    """The genotypes, changed in place, that count the other allele of some SNPs."""
    if one_hot:
        blocks = X.reshape(len(X), len(flipped), 3)  # a view
        blocks[:, flipped] = blocks[:, flipped, ::-1]
    else:
        X[:, flipped] = 2 - X[:, flipped]
    return X


def _snps(table: Table) -> list[str]:
    names = list(table.feature_names or ())
    return names if table.feature_groups is None else [name.rpartition("=")[0] for name in names[::3]]


def _named(table: Table, counted: list[str]) -> tuple[str, ...]:
    names = [f"{snp}_{allele}" for snp, allele in zip(_snps(table), counted, strict=True)]
    if table.feature_groups is None:
        return tuple(names)
    return tuple(f"{name}={count}" for name in names for count in range(3))


def _alleles(bed: Path) -> list[tuple[str, str]]:
    """The two alleles of each SNP; the reader of the .bed file has checked that there are six columns."""
    lines = bed.with_suffix(".bim").read_text(encoding="utf-8-sig").splitlines()
    return [(cells[4], cells[5]) for line in lines if (cells := line.split())]
