"""The idx format of MNIST, plain or gzip-compressed."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gsat.data.memory import fits

IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MOST_DIMENSIONS = 32


def read_idx(path: str | Path) -> NDArray[Any]:
    """The array in an idx file, plain or gzip-compressed."""
    return parse_idx(path, unpacked(path))


def unpacked(path: str | Path) -> bytes:
    """The bytes of an idx file, decompressed if it is a gzip file, and never more than its header announces."""
    with Path(path).open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        try:
            return _bounded(path, gzip.GzipFile(fileobj=stream) if packed else stream, packed)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} must be a whole gzip file, got one that breaks off: {error}") from error


def parse_idx(path: str | Path, content: bytes) -> NDArray[Any]:
    """The array that the bytes of an idx file hold; `path` is for messages."""
    dtype, shape = _announced(path, content)
    return np.frombuffer(content, dtype, offset=4 + 4 * len(shape)).reshape(shape).astype(dtype.newbyteorder("="))


def _bounded(path: str | Path, stream: BinaryIO | gzip.GzipFile, packed: bool) -> bytes:
    head = stream.read(4)
    head += stream.read(4 * head[3]) if len(head) == 4 else b""
    dtype, shape = _announced(path, head)
    size = math.prod(shape) * dtype.itemsize
    fits(path, f"shape {shape} of {dtype}", 2 * size)  # the bytes, and the array made of them
    content = head + stream.read(size)
    if (more := bool(stream.read(1))) or len(content) != len(head) + size:
        found = len(content) if not more else "more" if packed else Path(path).stat().st_size
        raise ValueError(f"{path} must hold {len(head) + size} bytes for shape {shape}, got {found}")
    return content


def _announced(path: str | Path, head: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The type and the shape in the header.

    Layout: two zero bytes, a type code, the number of dimensions, each dimension as a big-endian
    32-bit number, then the values, big-endian, last index fastest.
    """
    magic = head[:4]
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in IDX_TYPES or not 1 <= magic[3] <= MOST_DIMENSIONS:
        raise ValueError(f"{path} must start with an idx magic number, got bytes {magic.hex(' ') or 'none'}")
    start = 4 + 4 * magic[3]
    if len(head) < start:
        raise ValueError(f"{path} must have an idx header of {start} bytes, got {len(head)} bytes in all")
    return np.dtype(IDX_TYPES[magic[2]]), tuple(int.from_bytes(head[at : at + 4], "big") for at in range(4, start, 4))
