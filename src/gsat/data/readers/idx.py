"""The idx format of MNIST, plain or gzip-compressed."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | Path) -> NDArray[Any]:
    """The array in an idx file, plain or gzip-compressed."""
    return parse_idx(path, unpacked(path))


def unpacked(path: str | Path) -> bytes:
    """The bytes of a file, decompressed if it is a gzip file."""
    content = Path(path).read_bytes()
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} must be a whole gzip file, got one that breaks off: {error}") from error


def parse_idx(path: str | Path, content: bytes) -> NDArray[Any]:
    """The array that the bytes of an idx file hold.

    Layout: two zero bytes, a type code, the number of dimensions, each dimension as a big-endian
    32-bit number, then the values, big-endian, last index fastest.
    """
    magic = content[:4]
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in IDX_TYPES or magic[3] == 0:
        raise ValueError(f"{path} must start with an idx magic number, got bytes {magic.hex(' ') or 'none'}")
    dtype = np.dtype(IDX_TYPES[magic[2]])
    start = 4 + 4 * magic[3]
    if len(content) < start:
        raise ValueError(f"{path} must have an idx header of {start} bytes, got {len(content)} bytes in all")
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise ValueError(f"{path} must hold {expected} bytes for shape {shape}, got {len(content)}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))
