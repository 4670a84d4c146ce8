"""Test samples on two principal components, and where the adversary moves them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.decomposition import PCA

from gsat.data import Table
from gsat.estimators.from_table import Plan, train
from gsat.estimators.places import SHOWN, places

SHORT = {"n_outer": 6, "n_inner": 2, "group_size": 30, "standardize": True}


def table(n=120, d=15, *, ids=True, batches=False, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, d)) * np.linspace(3, 0.5, d) + 2 * rng.normal(size=(3, d))[y]
    names = tuple(f"s{i}" for i in range(n)) if ids else None
    batch = np.array(["a", "b", "c"])[np.arange(n) % 3] if batches else None
    return Table(X, y, batch, sample_ids=names).split_where(np.arange(n) % 4 == 0)


@pytest.fixture(scope="module")
def trained():
    own = table()
    return own, train(own.train, Plan("low-rank", **SHORT))


def test_places_are_the_principal_components_of_the_training_samples(trained):
    own, fitted = trained
    found = places(fitted, own)
    z, new = (fitted.classifier.module_input(side.X) for side in (own.train, own.test))
    expected = PCA(2, svd_solver="full").fit(z).transform(new)
    assert found["id"].tolist() == list(own.test.sample_ids)
    for name, column in zip("xy", expected.T, strict=True):
        sign = np.sign(column @ found[name])
        np.testing.assert_allclose(found[name], sign * column, rtol=1e-3, atol=1e-3 * np.abs(column).max())


def test_the_push_is_that_of_the_adversary_of_training(trained):
    own, fitted = trained
    found = places(fitted, own)
    delta = fitted.classifier.perturb(own.test.X, own.test.y)
    X = np.concatenate([own.train.X, own.test.X + delta])
    y = np.concatenate([own.train.y, own.test.y])
    sides = np.repeat(["train", "test"], [len(own.train), len(own.test)])
    expected = places(fitted, replace(own, X=X, y=y, split=sides))
    assert np.abs(found["push_x"] - found["x"]).max() > 1e-3
    for name in "xy":
        np.testing.assert_allclose(found[f"push_{name}"], expected[name], rtol=1e-3, atol=1e-3)


def test_samples_without_names_have_the_row_of_the_file():
    own = table(ids=False)
    found = places(train(own.train, Plan("erm", n_outer=3, group_size=30)), own)
    assert found["id"].tolist() == list(range(0, 120, 4))
    assert (found["push_x"] == found["x"]).all()  # no adversary moves anything


def test_batches_are_centred_as_a_whole_and_many_samples_are_thinned():
    own = table(n=6 * SHOWN, d=6, batches=True)
    fitted = train(own.train, Plan("universal", prepare="centre", per_batch=True, **SHORT))
    found = places(fitted, own)
    assert len(found) == SHOWN
    z = fitted.classifier.module_input(own.test.X, own.test.batch)
    rows = [own.test.sample_ids.index(name) for name in found["id"]]
    seen = np.abs(found[["x", "y"]] - found[["x", "y"]].mean()).max(axis=None)
    assert 0.5 < seen / np.linalg.norm(z[rows] - z[rows].mean(0), axis=1).max() <= 1.001  # a projection


def test_nothing_to_show_is_an_empty_table():
    own = table().split_where(np.zeros(120, bool))
    found = places(train(own.train, Plan("erm", n_outer=3, group_size=30)), own)
    assert list(found) == ["id", "x", "y", "push_x", "push_y"]
    assert len(found) == 0


def test_a_single_feature_has_a_place_too():
    own = replace(table(), X=table().X[:, :1])
    found = places(train(own.train, Plan("erm", n_outer=3, group_size=30)), own)
    assert (found["y"] == 0).all()
    assert np.isfinite(found[["x", "y"]]).all().all()


def test_a_linear_model_has_places():
    own = table()
    found = places(train(own.train, Plan("linear", size=1.0)), own)
    assert len(found) == 30
    assert found["x"].std() > found["y"].std() > 0
