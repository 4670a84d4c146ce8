"""MNIST: grey images of handwritten digits with their published split."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.catalogue import KNOWN
from gsat.data.files import needed, same_sum
from gsat.data.readers.idx import parse_idx, unpacked
from gsat.data.table import Table, content_checksum


def mnist(folder: Path | None) -> Table:
    """MNIST, images (70000, 1, 28, 28) in [0, 1] from the four files in `folder`/mnist, split by file."""
    train_images, train_labels, test_images, test_labels = map(_idx, needed("mnist", folder))
    pixels = np.concatenate([train_images, test_images])[:, None]
    labels = np.concatenate([train_labels, test_labels])
    return Table(
        np.true_divide(pixels, 255, dtype=np.float32),
        labels.astype(np.int64),
        source="MNIST",
        checksum=content_checksum(pixels, labels),
        split=np.repeat(["train", "test"], [len(train_labels), len(test_labels)]),
    )


def _idx(path: Path) -> NDArray[Any]:
    """The array of an MNIST file; a broken file is told by its fault, any other by its sum."""
    content = unpacked(path)
    array = parse_idx(path, content)
    same_sum(path, hashlib.sha256(content).hexdigest(), KNOWN["mnist"].sums[path.stem])
    return array
