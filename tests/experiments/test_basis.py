"""Basis selection: planted subspaces, what directions keep of the labels, and who finds them."""

import numpy as np
import pytest

from gsat.experiments import basis_selection as basis
from gsat.experiments.plan import Place


@pytest.mark.parametrize("name", basis.PLANTED)
def test_labels_depend_on_the_planted_directions_alone(name):
    table, directions = basis.planted(name, 3)
    np.testing.assert_allclose(directions @ directions.T, np.eye(basis.RANK), atol=1e-9)
    assert table.X.shape == (basis.N, basis.D)
    Z = (table.X - table.X.mean(0)) / table.X.std(0)
    sizes = np.sort(np.linalg.svd(Z / np.sqrt(len(Z)), compute_uv=False))[::-1]
    assert sizes[basis.LOUD - 1] > 1.5 * sizes[basis.LOUD]  # others have more variance
    inside = Z @ directions.T
    other = Z @ basis.pca(Z, table.y, basis.RANK, 0).T
    if name == "curved":
        inside, other = (np.square(part / part.std(0)) for part in (inside, other))
    train, test = table.subset(np.arange(basis.N) < 600), table.subset(np.arange(basis.N) >= 600)
    assert basis._kept(inside[:600], inside[600:], train, test) > 0.4
    assert basis._kept(other[:600], other[600:], train, test) < 0.1


def test_who_finds_the_linear_subspace(tmp_path):
    found = basis.compared(Place(tmp_path), "linear", 0, 60).set_index(["method", "k"])
    assert found.loc[("LDA", 3), "overlap"] > 0.8
    assert found.loc[(basis.GSAT, 3), "overlap"] > 0.5
    assert found.loc[("PCA", 3), "overlap"] < 0.2
    assert found.loc[("LDA", 10), "dimensions"] == 3
    assert found.loc[("LDA", 3), "kept"] > found.loc[("PCA", 3), "kept"] + 0.2
    assert found.loc[("LDA", 3), "accuracy"] > found.loc[("random", 1), "accuracy"] + 0.2
    for name in (basis.GSAT, "PCA", "PLS"):
        assert found.loc[(name, 10), "overlap"] >= found.loc[(name, 3), "overlap"]
