"""Genotypes of people from many populations: HapMap3, alone and beside 1000 Genomes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.files import needed
from gsat.data.readers.calls import NO_CALL, check_policy, encoded
from gsat.data.rules import picked
from gsat.data.sets.stored import arrays
from gsat.data.table import Table

CONTINENTS = ("Africa", "Asia", "Europe")  # the classes of the paper; SouthAsia and Admixed are left out
CHROMOSOMES = {"chr1": (1,), "genome": tuple(range(1, 23))}  # the X chromosome would tell men from women


def hapmap(
    folder: Path | None,
    *,
    label: str = "continent",
    layer: str = "chr1",
    one_hot: bool = True,
    missing: str | float = "mean",
) -> Table:
    """HapMap3 founders by continent: the paper's task, X (773, 3387), from the 1,129 SNPs of chromosome 1.

    label:   "continent" (773 people of Africa, Asia and Europe; `batch` is then the population) or "population"
             (all 957 people, eleven populations, no batches)
    layer:   "chr1", or "genome" for the 14,266 SNPs of the 22 autosomes; the file has 123 others, on the X chromosome
             and in mitochondria, which are left out
    one_hot: three indicators snp=0, snp=1, snp=2 per SNP, which share a number in `feature_groups`; else the count
             of allele 1, one column per SNP
    missing: a genotype without a call (0.15 %) becomes the "mean" of its SNP, with one_hot the shares of the three
             genotypes; or the number given; "error" refuses it

    A quarter of each class is the test side, with seed 0; `Table.split_at_random` makes others.
    """
    check_policy(missing, one_hot)
    chromosomes = picked("hapmap", "layer", layer, CHROMOSOMES)
    by_population = picked("hapmap", "label", label, {"continent": False, "population": True})
    (path,) = needed("hapmap", folder)
    content, checksum = arrays("hapmap", folder)
    people = np.ones(len(content["iid"]), bool) if by_population else np.isin(content["continent"], CONTINENTS)
    ids = content["iid"][people].tolist()
    calls, snps = _calls(content, "genotype", people, chromosomes)
    table = Table(
        **encoded(path, calls, ids, snps, missing=missing, one_hot=one_hot),
        y=content[label][people],
        batch=None if by_population else content["population"][people],
        sample_ids=tuple(ids),
        source="HapMap3",
        checksum=checksum,
    )
    return table.split_at_random(test_fraction=0.25, seed=0)


def hapmap_1kg(
    folder: Path | None,
    *,
    layer: str = "chr1",
    one_hot: bool = True,
    missing: str | float = "mean",
) -> Table:
    """HapMap3 (arrays) and 1000 Genomes phase 1 (sequencing) at the same SNPs, by continent: train and test side.

    Two batches, X (1151, 3357) from the 1,119 SNPs of chromosome 1; layer="genome" gives all 14,079 of the autosomes.
    The 564 people that both have measured are left out of 1000 Genomes, so that nobody is on both sides. Only HapMap3
    has genotypes without a call, so that "mean" is that of the training side. The options are those of `hapmap`.
    """
    check_policy(missing, one_hot)
    chromosomes = picked("hapmap-1kg", "layer", layer, CHROMOSOMES)
    (path,) = needed("hapmap-1kg", folder)
    content, checksum = arrays("hapmap-1kg", folder)
    sides = []
    for side, name, split in (("hapmap3", "HapMap3", "train"), ("1kg", "1000 Genomes", "test")):
        people = np.isin(content[f"continent_{side}"], CONTINENTS)
        if split == "test":
            people &= ~np.isin(content[f"iid_{side}"], content["iid_hapmap3"])
        ids = content[f"iid_{side}"][people].tolist()
        calls, snps = _calls(content, f"genotype_{side}", people, chromosomes)
        sides.append(
            Table(
                **encoded(path, calls, ids, snps, missing=missing, one_hot=one_hot),
                y=content[f"continent_{side}"][people],
                batch=np.full(len(ids), name),
                sample_ids=tuple(ids),
                source="HapMap3 and 1000 Genomes",
                checksum=checksum,
                split=np.full(len(ids), split),
            )
        )
    return _joined(*sides)


def _calls(
    content: dict[str, NDArray[Any]], name: str, people: NDArray[np.bool_], chromosomes: tuple[int, ...]
) -> tuple[NDArray[np.int8], list[str]]:
    """The genotypes of these people on the chromosomes, and the names of the SNPs."""
    there = np.isin(content["chrom"], chromosomes)
    calls = content[name][np.ix_(people, there)]
    return np.where(calls < 0, np.int8(NO_CALL), calls), content["snp"][there].tolist()


def _joined(first: Table, second: Table) -> Table:
    """The samples of two tables with the same features, one after the other."""
    both: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in ("X", "y", "batch", "split")
    }
    return replace(first, **both, sample_ids=(first.sample_ids or ()) + (second.sample_ids or ()))
