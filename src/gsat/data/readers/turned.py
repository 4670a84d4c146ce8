"""Matrices that are stored by columns, written once by rows: a file beside the source, made in bounded memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gsat._files import free_lock, remove_dead_drafts, whole_file
from gsat.data.folders import state_of
from gsat.data.memory import allowed

SCANNED = 2**21  # stored numbers that are looked at together
LEAST, MOST = 2**16, 2**24  # stored numbers that are sorted together, at 32 bytes each; every round reads all of them
ROOM = 64  # bytes of free memory for each
WAIT = 0.1  # seconds between two looks at what another process writes
Parts = Iterator[tuple[str, Any]]


def place_of(path: Path, name: str) -> Path:
    """Where the rows of the matrix /layers/counts of cells.h5ad are kept: cells.h5ad.layers-counts.rows.h5."""
    return path.with_name(f"{path.name}.{name.strip('/').replace('/', '-')}.rows.h5")


def is_fresh(path: Path, place: Path, h5py: Any) -> bool:
    """Whether the rows at `place` were made of the file as it is now, by its size and time."""
    try:
        with h5py.File(place, "r") as file:
            return [int(each) for each in file.attrs["source"]] == state_of(path)
    except (OSError, KeyError, TypeError, ValueError):
        return False  # missing, damaged, or another file


def once(path: Path, place: Path, h5py: Any, told: str, write: Callable[[], Parts]) -> Parts:
    """Let `write` make the rows at `place` of the file at `path`, unless they are there; what is done is `told` before.

    Of several processes that ask for the same rows one writes them, and the others wait, also for one that fails: then
    the next writes.
    """
    held = place.with_name(f"{place.name}.lock")
    while not is_fresh(path, place, h5py):
        lock = free_lock(held)
        if lock is None:
            yield "alive", None
            time.sleep(WAIT)
            continue
        try:
            if not is_fresh(path, place, h5py):  # of the one that had the lock before
                yield "told", told
                yield from write()
        finally:
            held.unlink(missing_ok=True)
            lock.release()


@contextmanager
def rows_of(path: Path, place: Path, h5py: Any) -> Iterator[Any]:
    """A block that fills the HDF5 file at `place` with rows of the file at `path`; it is there whole or not at all."""
    state = state_of(path)
    remove_dead_drafts(place.parent, place.name)
    with whole_file(place) as draft, h5py.File(draft, "w") as file:
        yield file
        file.attrs["source"] = state
        if state_of(path) != state:
            raise ValueError(f"{path} must stay as it is while its rows are written, but it changed; open it again")


def checked_rows(path: Path, place: Path, file: Any, name: str, shape: tuple[int, int], dtype: Any, h5py: Any) -> Any:
    """The data set of that name and form of a file of rows, which must hold it itself."""
    link, found = file.get(name, getlink=True), file.get(name)
    if (
        not (isinstance(link, h5py.HardLink) and isinstance(found, h5py.Dataset))
        or found.dtype != dtype
        or found.shape != shape
        or found.external
        or found.is_virtual
    ):
        raise ValueError(f"{place} must hold the rows of {path.name}; remove it, and it is written anew")
    return found


def turn(path: Path, place: Path, found: Any, shape: tuple[int, int], h5py: Any) -> Parts:
    """Write the CSR matrix of a CSC one, the group `found`, to `place`, whole or not at all.

    The numbers of each row are counted, then as many rows as fit are collected at a time: every time all of the matrix
    is read. "alive" is answered in between.
    """
    from scipy.sparse import csc_array

    data, indices, ends = found["data"], found["indices"], found["indptr"][...].astype(np.int64)
    n, d = shape
    counts = np.zeros(n, np.int64)
    for part in _parts(len(data)):
        rows = indices[part]
        if not 0 <= rows.min() <= rows.max() < n:
            raise ValueError(f"indices of {found.name} must be from 0 to {n - 1}, got {rows.min()} to {rows.max()}")
        counts += np.bincount(rows, minlength=n)
        yield "alive", None
    begins = np.append(0, np.cumsum(counts))
    with rows_of(path, place, h5py) as file:
        made = file.create_group("X")
        made.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": shape})
        made["indptr"] = begins
        values = made.create_dataset("data", len(data), np.float32)
        columns = made.create_dataset("indices", len(data), np.int32 if d < 2**31 else np.int64)
        most, first = min(max(allowed() // ROOM, LEAST), MOST), 0
        while first < n:
            last = max(first + 1, int(np.searchsorted(begins, begins[first] + most, side="right")) - 1)
            size = int(begins[last] - begins[first])
            some, rows, widths = np.empty(size, np.float32), np.empty(size, np.int64), np.zeros(d, np.int64)
            filled = 0
            for part in _parts(len(data)):
                place_in = indices[part]
                here = np.flatnonzero((place_in >= first) & (place_in < last))
                if len(here):
                    to = slice(filled, filled + len(here))
                    with np.errstate(over="ignore"):
                        some[to] = data[part][here]
                    rows[to] = place_in[here] - first
                    own = np.searchsorted(ends, part.start + here, side="right") - 1
                    widths += np.bincount(own, minlength=d)
                    filled = to.stop
                yield "alive", None
            block = csc_array((some, rows, np.append(0, np.cumsum(widths))), shape=(last - first, d)).tocsr()
            values[begins[first] : begins[last]] = block.data
            columns[begins[first] : begins[last]] = block.indices
            first = last


def _parts(n: int) -> Iterator[slice]:
    return (slice(start, min(start + SCANNED, n)) for start in range(0, n, SCANNED))
