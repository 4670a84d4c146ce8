"""Could the batches be one? A permutation test of batch labels within classes."""

from __future__ import annotations

import numpy as np

from gsat.diagnosis.cells import Design
from gsat.diagnosis.moments import Array


def exchangeability(X: Array, design: Design, n_permutations: int, rng: np.random.Generator) -> float:
    """The p-value of the hypothesis that a sample's batch says nothing once its class is known.

    Statistics are Σ_b ‖Σ_{i in b} φ(x_i)‖²/n_b without the terms i = j, for samples X (n, d) centred by class and five
    maps φ, which see differences of means, of means within classes, of variances, of covariances and of size. Each
    is measured in its own deviations over the permutations, and the largest counts: the level is exact.
    """
    cells = [*design.rows]
    where = np.concatenate([design.rows[cell] for cell in cells])
    sizes = [len(design.rows[cell]) for cell in cells]
    batch, label = (np.repeat([cell[side] for cell in cells], sizes) for side in (0, 1))
    member = (label[:, None] == np.unique(label)).astype(X.dtype)
    average = (member / member.sum(0)).T

    def centred(values: Array) -> Array:
        return np.asarray(values - member @ (average @ values))

    x = centred(X[where])
    squares = centred(np.square(x))
    gram = x @ x.T
    size = centred(np.square(x).sum(1))
    kernels = [
        gram,
        gram * (label[:, None] == label),
        squares @ squares.T,
        centred(centred(np.square(gram)).T),
        np.outer(size, size),
    ]
    for kernel in kernels:
        np.fill_diagonal(kernel, 0)
    orders = np.tile(np.arange(len(where)), (n_permutations + 1, 1))
    for c in np.unique(label):
        members = np.flatnonzero(label == c)
        orders[1:, members] = rng.permuted(np.tile(members, (n_permutations, 1)), axis=1)
    statistics = np.zeros((n_permutations + 1, len(kernels)))
    for b in np.unique(batch):
        inside = (batch[orders] == b).astype(X.dtype)
        for i, kernel in enumerate(kernels):
            statistics[:, i] += np.einsum("pn,pn->p", inside @ kernel, inside) / inside[0].sum()
    spread = statistics.std(0)
    largest = ((statistics - statistics.mean(0)) / np.where(spread > 0, spread, 1)).max(1)
    return float((largest >= largest[0] * (1 - 1e-9)).mean())
