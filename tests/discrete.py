"""Small discrete problems of group transport, and costs for them."""

import numpy as np

import gsat
from gsat.costs import scaled

FINITE = {
    "group-sparse": gsat.GroupSparse(0.3),
    "low-rank": gsat.LowRank(0.7),
    "unstructured": gsat.Unstructured(),
    "blocks": gsat.GroupSparse(0.6, feature_groups="aba"),
    "scaled low-rank": scaled(gsat.LowRank(0.2), 0.4),
}


def problem(n_x, n_z, seed, d=3):
    """Atoms and weights of P and Q in general position."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(n_x)), rng.dirichlet(np.ones(n_z))
    return rng.normal(size=(n_x, d)), p, 0.3 + rng.normal(size=(n_z, d)), q


class FirstIsDear:
    """Moving the first sample costs more: the order of the samples matters."""

    def value(self, delta):
        return delta.square().sum() + 9 * delta[0].square().sum()
