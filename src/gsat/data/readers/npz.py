"""Arrays in .npz files, as numpy writes them."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.asked import now
from gsat.data.memory import fits, stays_on_disk
from gsat.data.readers.columns import annotation, as_float32, by_id, checked
from gsat.data.rows import StoredRows
from gsat.data.rules import among, distinct, listed, whole
from gsat.data.stores import DenseStore, Raw
from gsat.data.table import Table

KEYS = {"sample_ids": "ids", "y": "label", "batch": "batch", "feature_names": "feature_names"}
LOCAL = 30  # bytes of a local header of a zip file, without the name
COMPRESSED = {zipfile.ZIP_STORED: "not compressed", zipfile.ZIP_DEFLATED: "compressed"}
PIECE = 2**20  # bytes read at once
Arrays = dict[str, NDArray[Any]]


def read_npz(path: Path, *, label: str | None = None, batch: str | None = None, ids: str | None = None) -> Table:
    """An .npz file with the arrays X (n, *features) and, if they are there, y, batch, feature_names, sample_ids.

    label, batch and ids name other arrays than y, batch and sample_ids. Pickled objects are refused. An X (n, d) that
    `numpy.savez` wrote, without compression, can stay in the file.
    """
    content: dict[str, Any] = {}
    with _open_npz(path) as arrays:
        wanted = {"y": label, "batch": batch, "sample_ids": ids, "X": None, "feature_names": None}
        for default, name in wanted.items():
            if name is not None:
                among(path, {"y": "label", "sample_ids": "ids"}.get(default, default), name, arrays, "array")
            if (name or default) in arrays:
                content[default] = arrays[name or default](**({"may_stay": True} if default == "X" else {}))
        if "X" not in content:
            raise ValueError(f"{path} must have an array X of samples, it has {listed([*arrays])}")
    X = content["X"] if isinstance(content["X"], StoredRows) else as_float32(path, "X", content["X"])
    row = by_id(None)
    found: Arrays = {}
    for default in ("sample_ids", "y", "batch", "feature_names"):
        if default in content:
            found[default] = annotation(path, wanted[default] or default, content[default], row, key=KEYS[default])
            row = by_id(found["sample_ids"].tolist()) if "sample_ids" in found else row
    names, samples = found.get("feature_names"), found.get("sample_ids")
    return checked(
        path,
        row,
        X=X,
        y=found.get("y"),
        batch=found.get("batch"),
        feature_names=None if names is None else tuple(names.astype(str).tolist()),
        sample_ids=None if samples is None else tuple(samples.tolist()),
    )


def all_arrays(path: Path, only: Container[str] | None = None) -> Arrays:
    """Every array of an .npz file, or those of `only` that it has, in the order of their names; no pickled objects."""
    with _open_npz(path) as arrays:
        return {name: arrays[name]() for name in sorted(arrays) if only is None or name in only}


@contextmanager
def _open_npz(path: Path) -> Iterator[dict[str, Callable[..., Any]]]:
    """Functions that read the arrays of an .npz file, by name."""
    with path.open("rb") as stream:
        if stream.read(2) != b"PK":
            raise ValueError(f"{path} must be a whole .npz file, got one that does not start as a zip file")
        # what zipfile raises depends on the piece that is broken
        with whole(path, ".npz", Exception), zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            names = [member.filename.removesuffix(".npy") for member in members]
            distinct(path, "arrays", names)
            for member in members:
                archive.open(member).close()  # a name that differs from the one beside the data is an error
            yield {
                name: partial(_array, path, name, archive, member) for name, member in zip(names, members, strict=True)
            }


def _array(path: Path, name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo, *, may_stay: bool = False) -> Any:
    """One array, once its header, its length and the memory there is agree; or its rows, where it stays in the file."""
    if member.compress_type not in COMPRESSED:
        raise ValueError(
            f"{path}, array {name!r} must be stored or deflated, as numpy does it, got method {member.compress_type}"
        )
    with archive.open(member) as stream:
        shape, by_column, dtype = _header(path, name, stream)
        begin = stream.tell()
        if dtype.hasobject:
            raise ValueError(
                f"{path}, array {name!r} must hold numbers or text and no pickled objects, got {dtype}; "
                f"save it as {name}.astype(str) or as numbers"
            )
        size = math.prod(shape) * dtype.itemsize
        expected = begin + size
        if member.file_size != expected:
            raise ValueError(
                f"{path}, array {name!r} must have {expected} bytes for shape {shape} of {dtype}, "
                f"got {member.file_size}"
            )
    asked = now().stream
    if may_stay and shape and size and dtype.kind in "biuf" and stays_on_disk((shape[0], math.prod(shape[1:])), asked):
        if member.compress_type == zipfile.ZIP_STORED and not by_column and len(shape) == 2:
            _read_once(archive, member)
            return StoredRows(DenseStore(Raw(path, dtype, shape, _offset(path, member) + begin), shape))
        if asked:
            got = f"{shape}{' in the order of columns' if by_column else ''}, {COMPRESSED[member.compress_type]}"
            raise ValueError(f"{path} must hold X (n, d) as numpy.savez writes it, by rows, to stay there, got {got}")
    fits(path, f"array {name!r} {shape} of {dtype}", size)
    with archive.open(member) as stream:
        found: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)  # the end, where the sum is checked
    return found


def _read_once(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Read a member to its end, where its sum is checked."""
    with archive.open(member) as stream:
        while stream.read(PIECE):
            pass


def _offset(path: Path, member: zipfile.ZipInfo) -> int:
    """Where the bytes of a member that is not compressed begin in the archive: after its local header."""
    with path.open("rb") as stream:
        stream.seek(member.header_offset)
        name, more = struct.unpack("<HH", stream.read(LOCAL)[-4:])  # bytes of the name and of what is added to it
    return member.header_offset + LOCAL + int(name) + int(more)


def _header(path: Path, name: str, stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape that an array announces, whether its numbers are in the order of columns, and its dtype."""
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, by_column, dtype = read(stream)
        if any(size < 0 for size in shape):
            raise ValueError(f"shape {shape}")
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError):
        raise  # of the archive
    except Exception as error:  # the header is a literal of Python, which can be wrong in any way
        raise ValueError(
            f"{path}, array {name!r} must be a whole .npy array, got: {str(error) or type(error).__name__}"
        ) from error
    return shape, bool(by_column), dtype
