"""Table: samples with what is known about each of them."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsat.data.counts import Counted, is_target
from gsat.data.rows import StoredRows, places, some_rows

PER_ROW = ("y", "batch", "split", "group")
PER_FEATURE = ("feature_names", "feature_groups")


@dataclass(frozen=True, eq=False, repr=False)
class Table(Counted):
    """Samples X (n, *features), with labels, batches, names and where they come from.

    Parameters
    ----------
    X
        The samples (n, *features), an array, or `StoredRows` (n, d) that stay in their file.
    y, batch, split
        One entry per sample, any dtype; `split` holds 'train' or 'test'.
    feature_names
        One per feature, in the order of the flattened features.
    sample_ids
        One per sample.
    source, checksum
        What was read and its sha256; a subset keeps those of the whole.
    shift
        (n, *features), what was added to the clean samples, where that is known.
    feature_groups
        One block number per feature, as the costs take them, where features belong together.
    group
        One entry per sample, any dtype: rows that belong together, as those of one person or place.
    left_out
        How many samples without a label or a batch `load` was told to leave out.

    Examples
    --------
    >>> import numpy as np
    >>> from gsat.data import Table
    >>> table = Table(np.eye(4), y=np.array(["a", "b", "a", "b"]), batch=np.array([1, 1, 2, 2]))
    >>> table
    Table(4 samples of 4 features, 2 classes, 2 batches)
    >>> table.subset(table.batch == 2).classes.tolist()
    ['a', 'b']
    >>> table.split_at_random(0.5).test.X.shape
    (2, 4)
    """

    X: Any
    y: NDArray[Any] | None = None
    batch: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    sample_ids: tuple[Any, ...] | None = None
    source: str = "memory"
    checksum: str = ""
    split: NDArray[Any] | None = None
    shift: NDArray[Any] | None = None
    feature_groups: tuple[int, ...] | None = None
    group: NDArray[Any] | None = None
    left_out: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.X, np.ndarray | StoredRows):
            raise TypeError(f"X must be a numpy array, got {type(self.X).__name__}")
        if self.X.ndim < 2:
            raise ValueError(f"X must have shape (samples, *features), got {self.X.shape}")
        for name in PER_ROW:
            if getattr(self, name) is not None:
                values = np.asarray(getattr(self, name))
                _one_per(name, values, "row of X", len(self))
                object.__setattr__(self, name, values)
        if self.sample_ids is not None:
            _one_per("sample_ids", self.sample_ids, "row of X", len(self))
        for name in PER_FEATURE:
            if getattr(self, name) is not None:
                _one_per(name, getattr(self, name), "feature of X", math.prod(self.X.shape[1:]))
        if self.split is not None and (other := set(self.split.tolist()) - {"train", "test"}):
            raise ValueError(f"split must hold only 'train' and 'test', got {sorted(other, key=repr)}")
        if self.shift is not None and np.shape(self.shift) != self.X.shape:
            raise ValueError(f"shift must have the shape of X {self.X.shape}, got {np.shape(self.shift)}")

    def __len__(self) -> int:
        return len(self.X)

    @property
    def flat(self) -> Any:
        """The samples with their features flattened, (n, d)."""
        return self.X if self.X.ndim == 2 else self.X.reshape(len(self), math.prod(self.X.shape[1:]))

    @property
    def classes(self) -> NDArray[Any]:
        """The distinct labels, sorted."""
        return np.unique(self._labels())

    @property
    def codes(self) -> NDArray[np.int64]:
        """Each label's position in `classes`; a subset that lacks a class is numbered anew."""
        return np.unique(self._labels(), return_inverse=True)[1].astype(np.int64)

    @property
    def train(self) -> Table:
        """The rows whose split is 'train'."""
        return self._side("train")

    @property
    def test(self) -> Table:
        """The rows whose split is 'test'."""
        return self._side("test")

    def subset(self, rows: ArrayLike) -> Table:
        """The rows that a boolean mask or a list of positions picks, in the order given.

        Parameters
        ----------
        rows
            A mask (n,), or positions.

        Returns
        -------
        Table
            These rows, with the same source and checksum.
        """
        index = places(rows, len(self))
        kept: dict[str, Any] = {name: getattr(self, name) for name in (*PER_ROW, "shift")}
        kept = {name: None if values is None else values[index] for name, values in kept.items()}
        kept["X"] = some_rows(self.X, index)
        if self.sample_ids is not None:
            kept["sample_ids"] = tuple(self.sample_ids[i] for i in index)
        return replace(self, **kept)

    def with_features(self, names: set[str]) -> Table:
        """The same samples with some of their features.

        Parameters
        ----------
        names
            Of the features to keep; the table must have names, and one number a feature.

        Returns
        -------
        Table
            The features in their order, with the same source and checksum.
        """
        kept = [j for j, name in enumerate(self.feature_names or ()) if name in names]
        if len(kept) == self.X.shape[1]:
            return self
        groups = None if self.feature_groups is None else tuple(self.feature_groups[j] for j in kept)
        shift = None if self.shift is None else self.shift[:, kept]
        chosen = tuple((self.feature_names or ())[j] for j in kept)
        X = self.X.with_columns(kept) if isinstance(self.X, StoredRows) else self.X[:, kept]
        return replace(self, X=X, shift=shift, feature_names=chosen, feature_groups=groups)

    def labelled_alone(self, lacking: dict[str, NDArray[np.bool_]], *, keep_others: bool = False) -> Table:
        """The samples that have a label and a batch, or with keep_others those alone that lack one.

        Parameters
        ----------
        lacking
            For "label" and "batch" which samples have none, (n,).
        keep_others
            Keep those that lack one: without labels, and with "unknown" as the batch of those that have none.

        Returns
        -------
        Table
            A subset; the table itself where nothing is lacking.
        """
        lacks = np.any([np.zeros(len(self), bool), *lacking.values()], axis=0)
        if not keep_others:
            return replace(self.subset(~lacks), left_out=int(lacks.sum())) if lacks.any() else self
        batch = self.batch
        if batch is not None and (unknown := lacking.get("batch", lacks & False)).any():
            batch = np.where(unknown, "unknown", batch.astype(str))
        return replace(self, y=None, batch=batch).subset(lacks)

    def split_where(self, is_test: ArrayLike) -> Table:
        """The same samples with a `split`.

        Parameters
        ----------
        is_test
            A mask (n,), true for the test side.

        Returns
        -------
        Table
            The same rows in the same order.
        """
        return replace(self, split=np.where(np.asarray(is_test, dtype=bool), "test", "train"))

    def split_at_random(self, test_fraction: float = 0.25, seed: int = 0) -> Table:
        """The same samples with a random `split`, in which every class has its share of the test rows.

        The rows are lined up class by class and every (1/test_fraction)-th goes to the test side: each class is within
        one row of its share, however small. Where there is a `group`, whole groups are lined up instead, each with the
        rarest class among its rows.

        Parameters
        ----------
        test_fraction
            The share of the test rows, or of the groups, above 0 and below 1.
        seed
            Same seed, same rows.

        Returns
        -------
        Table
            The same rows in the same order.
        """
        rng = np.random.default_rng(seed)
        codes, unit = self._units()
        line = rng.permutation(len(codes))
        class_order = rng.permutation(codes.max(initial=0) + 1)
        line = line[np.argsort(class_order[codes[line]], kind="stable")]
        count = np.floor(np.arange(len(codes) + 1) * test_fraction + 0.5)
        split = np.full(len(codes), "train")
        split[line[np.diff(count) > 0]] = "test"
        if not 0 < test_fraction < 1 or len(set(split.tolist())) < 2:
            what = "rows" if self.group is None else "groups"
            raise ValueError(
                f"test_fraction must leave at least one of {len(codes)} {what} on each side, got {test_fraction}"
            )
        return replace(self, split=split[unit])

    def describe(self) -> dict[str, Any]:
        """Counts of samples, features, classes, batches and groups, and where they come from.

        Labels that are not whole numbers are targets of a regression and have no classes.

        Returns
        -------
        dict
            n, features, classes and batches (each with its count, or None), source and checksum, as JSON can hold them;
            groups, their number, where rows belong together.
        """
        return {
            "n": len(self),
            "features": math.prod(self.X.shape[1:]),
            "classes": None if is_target(self.y) else _counts(self.y),
            "batches": _counts(self.batch),
            **({} if self.group is None else {"groups": len(np.unique(self.group))}),
            "source": self.source,
            "checksum": self.checksum,
        }

    def _side(self, side: str) -> Table:
        if self.split is None:
            raise ValueError(
                f"split must be given to take the {side} rows, got None; "
                "make one with .split_at_random(test_fraction, seed)"
            )
        return self.subset(self.split == side)

    def _units(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The class of each row, or of each group, for which its rarest stands; and which of them a row of X is in."""
        codes = np.zeros(len(self), dtype=np.int64) if self.y is None else self.codes
        if self.group is None:
            return codes, np.arange(len(self))
        names, unit = np.unique(self.group, return_inverse=True)
        rank = np.argsort(np.argsort(np.bincount(codes)))[codes]  # 0: the rarest class
        rarest = np.full(len(names), rank.max(initial=0))
        np.minimum.at(rarest, unit, rank)
        return rarest, unit

    def _labels(self) -> NDArray[Any]:
        if self.y is None:
            raise ValueError("y must be given to tell the classes, got None")
        return self.y


def content_checksum(*arrays: Any) -> str:
    """The sha256 of the arrays' dtypes, shapes and bytes, in hexadecimal; the same for `StoredRows`."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        for _, part in array.chunks() if isinstance(array, StoredRows) else [(None, array)]:
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _counts(values: NDArray[Any] | None) -> dict[str, int] | None:
    if values is None:
        return None
    distinct, counts = np.unique(values, return_counts=True)
    return dict(zip(map(str, distinct.tolist()), counts.tolist(), strict=True))


def _one_per(name: str, values: Any, what: str, expected: int) -> None:
    if np.ndim(values) != 1 or len(values) != expected:
        got = len(values) if np.ndim(values) == 1 else f"shape {np.shape(values)}"
        raise ValueError(f"{name} must have one entry per {what} ({expected}), got {got}")
