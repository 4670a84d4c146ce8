"""Three synthetic problems with ten relevant features among 2,000; fixed before any method was tuned on them.

Each gives 600 samples, two classes, and the positions of the ten features that the label depends on. Every relevant
feature has five decoys, correlated with it at RHO = 0.8 (between the underlying normal variables) and of no use beside
it; the other 1,940 features are independent noise. The columns are in random order.

Two more, `INTERACTIONS`, have four and two relevant features among 50, the labels depending on pairs of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.datasets import make_classification

N, D, RELEVANT, DECOYS, RHO = 600, 2000, 10, 5, 0.8
FEW = 50  # features of the problems of pure interaction


@dataclass(frozen=True)
class Problem:
    """X (600, 2000), y (600,) in {0, 1}, and the sorted positions of the ten relevant columns."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    relevant: NDArray[np.int64]


def friedman(seed: int) -> Problem:
    """Two Friedman-1 functions of five uniform features each, summed, with standard normal noise; split at the median.

    f(x) = 10·sin(π·x1·x2) + 20·(x3 − ½)² + 10·x4 + 5·x5 has five relevant features; two of them have ten.
    """
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(N, RELEVANT))
    x = ndtr(normal)
    target = sum(
        10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e for a, b, c, d, e in (x[:, :5].T, x[:, 5:].T)
    )
    target = target + rng.normal(size=N)
    return _padded(normal, _split(target), rng, ndtr)


def hypercube(seed: int) -> Problem:
    """scikit-learn's make_classification: two clusters per class on the corners of a cube, ten informative features."""
    rng = np.random.default_rng(seed)
    x, y = make_classification(N, RELEVANT, n_informative=RELEVANT, n_redundant=0, shuffle=False, random_state=seed)
    return _padded((x - x.mean(0)) / x.std(0), y.astype(np.int64), rng)


def squares_and_sines(seed: int) -> Problem:
    """Five squares and five sines of normal features, each term of about unit variance, and noise; split at the median.

    f(x) = Σ_{j≤5} (x_j² − 1)/√2 + Σ_{j>5} √2·sin(π·x_j/2); the squares have no linear effect at all.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, RELEVANT))
    target = ((x[:, :5] ** 2 - 1) / np.sqrt(2)).sum(1) + (np.sqrt(2) * np.sin(np.pi * x[:, 5:] / 2)).sum(1)
    target = target + rng.normal(size=N)
    return _padded(x, _split(target), rng)


def xor(seed: int) -> Problem:
    """The sign of x1·x2 + x3·x4 for normal features, of which none tells anything alone.

    Four relevant features with their decoys among 50: among 2,000, no method finds any of them in 600 samples.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 4))
    return _padded(x, (x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] > 0).astype(np.int64), rng, width=FEW)


def ring(seed: int) -> Problem:
    """Whether two normal features lie in a ring: half of the samples, between two radii; 50 features in all."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2))
    radius = np.square(x).sum(1)
    low, high = np.quantile(radius, [0.25, 0.75])
    return _padded(x, ((radius > low) & (radius < high)).astype(np.int64), rng, width=FEW)


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "friedman": friedman,
    "make_classification": hypercube,
    "squares and sines": squares_and_sines,
}
INTERACTIONS: dict[str, Callable[[int], Problem]] = {"xor": xor, "ring": ring}


def _split(target: NDArray[np.float64]) -> NDArray[np.int64]:
    return (target > np.median(target)).astype(np.int64)


def _padded(
    relevant: NDArray[np.float64],
    y: NDArray[np.int64],
    rng: np.random.Generator,
    margin: Callable[[NDArray[np.float64]], NDArray[np.float64]] = lambda normal: normal,
    width: int = D,
) -> Problem:
    """The relevant columns among their decoys and noise, all with the same margin, in random order."""
    near = np.repeat(relevant, DECOYS, axis=1)
    decoys = RHO * near + np.sqrt(1 - RHO**2) * rng.normal(size=near.shape)
    noise = rng.normal(size=(N, width - relevant.shape[1] * (1 + DECOYS)))
    X = margin(np.concatenate([relevant, decoys, noise], axis=1)).astype(np.float32)
    order = rng.permutation(width)
    return Problem(X[:, order], y, np.flatnonzero(order < relevant.shape[1]))
