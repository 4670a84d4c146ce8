"""Synthetic samples in batches, whose test side is moved by a shift of known structure.

A sample is clean + shift, and the table's `shift` keeps the second part. Batches of the test side are
moved by `strength` times the mean row norm of the clean samples, on average over their rows; batches of
the training side carry a quarter of it, as laboratories that once agreed on a protocol would. Shifts lean
towards what tells the classes apart: one that no classifier looks at would be harmless. `make_shift` is
plainer: its training side does not move, and its shift has no direction that it prefers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsat.data.table import Table, content_checksum

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

SHIFTS = ("universal", "low-rank", "group-sparse")
STRUCTURES = ("none", "universal", "per class", "group-sparse", "low-rank", "unstructured")
TRAIN_SHARE = 0.25
CLASS_DISTANCE = 4.0  # between class means, in standard deviations: about 5 % of three classes overlap


def make_batches(
    n: int = 600,
    d: int = 50,
    n_classes: int = 3,
    n_batches: int = 4,
    *,
    shift: str = "universal",
    strength: float = 0.3,
    rank: int = 2,
    k: int = 5,
    seed: int = 0,
) -> Table:
    """Gaussian classes measured in batches, X (n, d); the later half of the batches is the test side.

    Parameters
    ----------
    n, d, n_classes, n_batches
        Numbers of samples, features, classes and batches.
    shift
        "universal": all samples of a batch move by one vector, another one for each batch.
        "low-rank": every sample moves by its own mixture of `rank` directions that all batches share; the mixture's
        mean and spread differ by batch.
        "group-sparse": the same `k` features move in all batches, by another amount in every sample.
    strength
        Mean norm of the shift of the test side, as a fraction of that of the clean samples.
    rank, k
        Of the low-rank and of the group-sparse shift.
    seed
        Same seed, same bits.

    Returns
    -------
    Table
        X, y (numbers), batch, feature_names, split and shift.

    Examples
    --------
    >>> import gsat
    >>> gsat.data.make_batches(100, 20, n_batches=3, shift="low-rank")
    Table(100 samples of 20 features, 3 classes, 3 batches)
    """
    if shift not in SHIFTS:
        raise ValueError(f"shift must be one of {', '.join(SHIFTS)}, got {shift!r}")
    rng = np.random.default_rng(seed)
    y, batch = _design(rng, n, n_classes, "n_batches", n_batches)
    means = rng.normal(size=(n_classes, d)) * rng.exponential(size=d)  # few strong features, many weak ones
    apart = np.linalg.norm(means[:, None] - means[None], axis=2)
    means *= CLASS_DISTANCE / apart[np.triu_indices(n_classes, 1)].mean()
    clean = means[y] + rng.normal(size=(n, d))
    is_test = batch >= n_batches - n_batches // 2
    if shift == "universal":
        delta = _directions(rng, n_batches, means)[batch]
    elif shift == "low-rank":
        _between("rank", rank, 1, min(d, int(is_test.sum())))
        delta = _mixtures(rng, batch, rank) @ _directions(rng, rank, means)
    else:
        _between("k", k, 1, d)
        delta = _on_support(_support(rng, k, means), rng.normal(size=(n_batches, k))[batch], rng, d)
    names = tuple(f"feature{j}" for j in range(d))
    labels = np.char.add("batch", batch.astype(str))
    return _table(clean, delta, y, labels, is_test, strength, names, f"{shift} batches")


def make_shift(
    n: int = 400,
    d: int = 50,
    n_classes: int = 3,
    *,
    shift: str = "universal",
    strength: float = 0.5,
    rank: int = 2,
    k: int = 5,
    seed: int = 0,
) -> Table:
    """Gaussian classes in two batches, X (n, d): "reference", and "moved" by a shift that has one structure only.

    The reference is the training side. The shift has no direction that it prefers, such as one that tells classes.

    Parameters
    ----------
    n, d, n_classes
        Numbers of samples, features and classes.
    shift
        "none": nothing moves. "universal": all samples move by one vector. "per class": the samples of a class move by
        one vector, another one for each class. "group-sparse": `k` features move, by another amount around 0 in every
        sample. "low-rank": every sample moves by its own mixture, with weights around 0, of `rank` directions.
        "unstructured": every sample moves in a direction of its own.
    strength
        Mean norm of the shift of the moved batch, as a fraction of that of the clean samples.
    rank, k
        Of the low-rank and of the group-sparse shift.
    seed
        Same seed, same bits.

    Returns
    -------
    Table
        X, y (numbers), batch, feature_names, split (the moved batch is the test side) and shift.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_shift(100, 20, shift="group-sparse", k=2)
    >>> int((table.shift != 0).any(0).sum())  # features that move
    2
    """
    if shift not in STRUCTURES:
        raise ValueError(f"shift must be one of {', '.join(STRUCTURES)}, got {shift!r}")
    rng = np.random.default_rng(seed)
    y, batch = _design(rng, n, n_classes, "n_batches", 2)
    means = rng.normal(size=(n_classes, d))
    means *= CLASS_DISTANCE / np.sqrt(2 * d)
    clean = means[y] + rng.normal(size=(n, d))
    delta = np.zeros((n, d))
    if shift == "universal":
        delta += rng.normal(size=d)
    elif shift == "per class":
        delta += rng.normal(size=(n_classes, d))[y]
    elif shift == "group-sparse":
        _between("k", k, 1, d)
        delta[:, rng.choice(d, size=k, replace=False)] = rng.normal(size=(n, k))
    elif shift == "low-rank":
        _between("rank", rank, 1, d)
        delta += rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
    elif shift == "unstructured":
        delta += rng.normal(size=(n, d))
    delta[batch == 0] = 0
    names = tuple(f"feature{j}" for j in range(d))
    labels = np.array(["reference", "moved"])[batch]
    return _table(clean, delta, y, labels, batch == 1, strength, names, f"{shift} shift")


def make_cell_types(
    n: int = 600,
    d: int = 200,
    k: int = 10,
    n_types: int = 4,
    *,
    strength: float = 0.3,
    seed: int = 0,
) -> Table:
    """Log expression X (n, d) >= 0 of healthy and diseased cells; the test cells are of unseen types.

    `k` marker genes are switched on to another degree in each cell type (`batch`), and in each cell: a
    group-sparse shift. The rest is log(1 + counts), which depends on the disease but not on the type.

    Parameters
    ----------
    n, d, k, n_types
        Numbers of cells, genes, marker genes and cell types.
    strength
        Mean norm of the shift of the test side, as a fraction of that of the clean samples.
    seed
        Same seed, same bits.

    Returns
    -------
    Table
        X, y ("healthy" or "diseased"), batch (the cell type), feature_names, split and shift.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_cell_types(100, 30)
    >>> table.classes.tolist()
    ['diseased', 'healthy']
    """
    _between("k", k, 1, d)
    rng = np.random.default_rng(seed)
    y, batch = _design(rng, n, 2, "n_types", n_types)
    base = rng.normal(0.5, 1.0, size=d)  # log mean count of a gene
    effect = rng.normal(0.0, 0.16, size=d) * rng.exponential(size=d)  # log fold change in disease
    means = np.stack([base - effect / 2, base + effect / 2])
    depth = rng.normal(0.0, 0.2, size=(n, 1))  # cells are sequenced to different depths
    clean = np.log1p(rng.poisson(np.exp(means[y] + depth)))
    is_test = batch >= n_types - n_types // 2
    delta = _on_support(_support(rng, k, means), rng.exponential(size=(n_types, k))[batch], rng, d)
    names = tuple(f"gene{j}" for j in range(d))
    labels = np.char.add("type", batch.astype(str))
    phenotype = np.array(["healthy", "diseased"])[y]
    return _table(clean, delta, phenotype, labels, is_test, strength, names, "cell types")


def _design(rng: np.random.Generator, n: int, n_classes: int, name: str, n_batches: int) -> tuple[Codes, Codes]:
    """Class and batch of every sample, in random order, with all classes equally frequent in every batch."""
    _between("n_classes", n_classes, 2, n)
    _between(name, n_batches, 2, n)
    _between("n", n, n_classes * n_batches, None)
    order = rng.permutation(n)
    return order // n_batches % n_classes, order % n_batches


def _directions(rng: np.random.Generator, count: int, means: Array) -> Array:
    """Unit vectors (count, d), made in equal parts of a difference between the classes and of noise."""
    contrast = _unit(rng.normal(size=(count, len(means))) @ (means - means.mean(axis=0)))
    return _unit(contrast + _unit(rng.normal(size=(count, means.shape[1]))))


def _mixtures(rng: np.random.Generator, batch: Codes, rank: int) -> Array:
    """Weights (n, rank) of every sample, around another mean and with another spread in each batch."""
    n_batches = batch.max() + 1
    mean = rng.normal(size=(n_batches, rank))
    spread = rng.uniform(0.25, 0.75, size=(n_batches, 1))
    return mean[batch] + spread[batch] * rng.normal(size=(len(batch), rank))


def _support(rng: np.random.Generator, k: int, means: Array) -> Codes:
    """The k features that move, drawn with a probability that grows with the variance between the classes."""
    between = means.var(axis=0)
    return rng.choice(len(between), size=k, replace=False, p=between / between.sum())


def _on_support(support: Codes, amounts: Array, rng: np.random.Generator, d: int) -> Array:
    """`amounts` (n, k), varied from sample to sample without a change of sign, on k of d features."""
    delta = np.zeros((len(amounts), d))
    delta[:, support] = amounts * rng.uniform(0.5, 1.5, size=amounts.shape)
    return delta


def _table(
    clean: Array,
    delta: Array,
    y: NDArray[np.generic],
    batch: NDArray[np.str_],
    is_test: NDArray[np.bool_],
    strength: float,
    feature_names: tuple[str, ...],
    source: str,
) -> Table:
    """X = clean + delta, with delta scaled to its mean row norm on the training and on the test side."""
    if not 0 <= strength < np.inf:
        raise ValueError(f"strength must be >= 0 and finite, got {strength}")
    wanted = strength * np.linalg.norm(clean, axis=1).mean()
    for side, share in ((~is_test, TRAIN_SHARE), (is_test, 1.0)):
        if delta[side].any():
            delta[side] *= share * wanted / np.linalg.norm(delta[side], axis=1).mean()
    shift = delta.astype(np.float32)
    X = clean.astype(np.float32) + shift
    return Table(
        X,
        y,
        batch,
        feature_names,
        source=f"synthetic {source}",
        checksum=content_checksum(X, y, batch),
        split=np.where(is_test, "test", "train"),
        shift=shift,
    )


def _unit(rows: Array) -> Array:
    lengths: Array = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / lengths


def _between(name: str, value: int, least: int, most: int | None) -> None:
    if value < least or (most is not None and value > most):
        rule = f">= {least}" + ("" if most is None else f" and <= {most}")
        raise ValueError(f"{name} must be {rule}, got {value}")
