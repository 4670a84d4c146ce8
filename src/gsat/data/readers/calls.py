"""Genotypes as features: what stands for those without a call, three indicators for a SNP; in memory or on disk."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat import _checks
from gsat.data.memory import allowed
from gsat.data.readers.turned import Parts, checked_rows, once, place_of, rows_of
from gsat.data.rows import Index
from gsat.data.rules import extra
from gsat.data.stores import DenseStore, Opened

NO_CALL = -127  # bed-reader's sign for a missing genotype in int8
KINDS = np.arange(3, dtype=np.int8)  # how often a sample carries allele 1
LEAST, MOST = 2**22, 2**28  # calls that are read at a time to write them by rows, a byte each
ROOM = 8  # bytes of free memory for each


class CallStore:
    """Genotypes as features, of which the calls are read.

    Parameters
    ----------
    calls
        Where the calls (n, SNPs) are.
    instead
        (SNPs, 1 or 3) What stands for those that are missing; 3: a SNP has three indicators.
    """

    def __init__(self, calls: DenseStore, instead: NDArray[np.float32]) -> None:
        self.calls, self.instead, self.path = calls, instead, calls.path
        self.shape = (calls.shape[0], instead.size)

    def read(self, rows: Index) -> NDArray[np.float32]:
        """These rows."""
        return _features(self.calls.read(rows), self.instead)


def encoded(
    path: Path, calls: NDArray[np.int8], ids: list[str], snps: list[str], *, missing: str | float, one_hot: bool
) -> dict[str, Any]:
    """X, feature_names and feature_groups of genotypes (samples, SNPs), NO_CALL where there is none, from `path`."""
    counts = _counted(calls)
    _check_missing(path, missing, counts, [calls], ids, snps)
    return {"X": _features(calls, _instead(path, counts, snps, missing, one_hot)), **named(snps, one_hot)}


def calls_beside(path: Path, ids: list[str], snps: list[str], *, missing: str | float, one_hot: bool) -> CallStore:
    """The features of a .bed file whose calls are kept by rows in a file beside it, which is written if need be.

    A .bed file has them SNP by SNP. It is read once, as many SNPs at a time as there is memory for.
    """
    h5py = extra("h5py", "anndata", ".bed files larger than memory")
    place, shape = place_of(path, "X"), (len(ids), len(snps))
    told = f"{path} has its genotypes SNP by SNP; they are written by rows to {place}, once"
    for name, text in once(path, place, h5py, told, lambda: _write(path, place, shape, h5py)):
        if name == "told":
            warnings.warn(text, stacklevel=4)
    with h5py.File(place, "r") as file:
        checked_rows(path, place, file, "X", shape, np.int8, h5py)
        counts = checked_rows(path, place, file, "counts", (3, len(snps)), np.int64, h5py)[...]
    calls = DenseStore(Opened(place, "X"), shape, np.int8)
    _check_missing(path, missing, counts, _blocks(calls), ids, snps)
    return CallStore(calls, _instead(path, counts, snps, missing, one_hot))


def named(snps: list[str], one_hot: bool) -> dict[str, Any]:
    """feature_names and feature_groups of SNPs."""
    return {
        "feature_names": tuple(f"{snp}={count}" for snp in snps for count in range(3)) if one_hot else tuple(snps),
        "feature_groups": tuple(j // 3 for j in range(3 * len(snps))) if one_hot else None,
    }


def check_policy(missing: str | float, one_hot: bool) -> None:
    """Raise unless `missing` says what to put for genotypes without a call."""
    if isinstance(missing, str):
        if missing not in ("mean", "error"):
            raise ValueError(f'missing must be "mean", "error" or a number, got {missing!r}')
    elif _checks.number("missing", missing) not in (0, 1, 2) and one_hot:
        raise ValueError(f"missing must be 0, 1 or 2 with one_hot=True, got {missing!r}")


def opened_bed(path: Path, size: tuple[int, int]) -> Any:
    """The .bed file of so many samples and SNPs."""
    return extra("bed_reader", "bed-reader", ".bed").open_bed(path, *size, count_A1=True)


def _write(path: Path, place: Path, shape: tuple[int, int], h5py: Any) -> Parts:
    """Write the calls by rows to `place`, whole or not at all, and how many of each kind a SNP has."""
    n, d = shape
    step = max(1, min(max(allowed() // ROOM, LEAST), MOST) // n)
    with rows_of(path, place, h5py) as made, opened_bed(path, shape) as bed:
        rows, counts = made.create_dataset("X", shape, np.int8), np.empty((3, d), np.int64)
        for begin in range(0, d, step):
            here = np.s_[:, begin : min(begin + step, d)]
            calls = bed.read(here, dtype="int8", order="C")
            rows[here], counts[here] = calls, _counted(calls)
            yield "alive", None
        made["counts"] = counts


def _blocks(calls: DenseStore) -> Iterator[NDArray[np.int8]]:
    n, d = calls.shape
    step = max(1, LEAST // d)
    return (calls.read(np.arange(begin, min(begin + step, n))) for begin in range(0, n, step))


def _counted(calls: NDArray[np.int8]) -> NDArray[np.int64]:
    """(3, SNPs): how many samples carry allele 1 never, once, twice."""
    return np.stack([(calls == kind).sum(axis=0) for kind in KINDS])


def _check_missing(
    path: Path,
    missing: str | float,
    counts: NDArray[np.int64],
    blocks: Iterable[NDArray[np.int8]],
    ids: list[str],
    snps: list[str],
) -> None:
    """Raise where genotypes without a call are errors and there are some, the first of which is in `blocks` of rows."""
    size = len(ids) * len(snps)
    lacking = size - counts.sum()
    if missing != "error" or lacking == 0:
        return
    begin = 0
    for calls in blocks:
        where = np.flatnonzero(calls == NO_CALL)
        if len(where):
            i, j = divmod(int(where[0]), len(snps))
            raise ValueError(
                f'{path} must have a call for every genotype with missing="error", got none for {lacking} of {size}, '
                f"the first at sample {ids[begin + i]!r}, SNP {snps[j]!r}"
            )
        begin += len(calls)


def _instead(
    path: Path, counts: NDArray[np.int64], snps: list[str], missing: str | float, one_hot: bool
) -> NDArray[np.float32]:
    """(SNPs, 1 or 3): what stands for a genotype without a call."""
    n_calls = counts.sum(axis=0)
    found = np.zeros((len(snps), 3 if one_hot else 1), np.float32)
    if missing == "mean":
        if not n_calls.all():
            empty = np.flatnonzero(n_calls == 0)
            raise ValueError(
                f"{path} must have a call for every SNP to take its mean, got none for {len(empty)} SNPs, the first "
                f"{snps[empty[0]]!r}; drop them with plink --geno or give missing= a number"
            )
        found[:] = (counts if one_hot else KINDS[None] @ counts).T / n_calls[:, None]
    elif missing != "error":
        with np.errstate(over="ignore"):  # which is told as a number that is not finite
            found[:] = np.equal(KINDS, missing) if one_hot else missing
    return found


def _features(calls: NDArray[np.int8], instead: NDArray[np.float32]) -> NDArray[np.float32]:
    """(samples, SNPs x 1 or 3) of calls (samples, SNPs): how often allele 1 is there, or which of 0, 1, 2 that is."""
    made = (np.equal(calls[:, :, None], KINDS) if instead.shape[1] == 3 else calls[:, :, None]).astype(np.float32)
    rows, columns = np.nonzero(calls == NO_CALL)
    made[rows, columns] = instead[columns]
    return made.reshape(len(calls), instead.size)
