"""Selectors with frames, in pipelines, on sparse samples and memory maps."""

import pickle

import numpy as np
import pandas as pd
import polars
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import gsat

NAMES = [f"gene{j}" for j in range(12)]
SELECTOR = gsat.GroupSparseSelector(k=2, n_outer=30, hidden=20, n_groups=5, random_state=0)
BASIS = gsat.LowRankBasis(3, n_outer=30, n_inner=3, hidden=20, n_groups=3, eta0=1e-2, random_state=0)
FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: polars.DataFrame({name: X[:, j] for j, name in enumerate(NAMES)}),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(2, 3, (160, 12)).astype(np.float32)
    return X, np.where(X[:, 3] + X[:, 8] > 4, "case", "control")


@pytest.fixture(scope="module")
def plain(data):
    return clone(BASIS).fit(*data)


@pytest.mark.parametrize("given", FRAMES)
@pytest.mark.parametrize("wanted", FRAMES)
def test_set_output(given, wanted, data, plain):
    X, y = data
    frame = FRAMES[given](X)
    selector = clone(SELECTOR).set_output(transform=wanted).fit(frame, y)
    chosen = selector.transform(frame)
    assert type(chosen) is type(FRAMES[wanted](X))
    assert list(chosen.columns) == selector.get_feature_names_out().tolist() == ["gene3", "gene8"]
    assert np.array_equal(chosen.to_numpy(), X[:, [3, 8]])
    basis = clone(BASIS).set_output(transform=wanted).fit(frame, y)
    places = basis.transform(frame)
    assert type(places) is type(FRAMES[wanted](X))
    assert list(places.columns) == ["lowrankbasis0", "lowrankbasis1", "lowrankbasis2"]
    assert np.array_equal(places.to_numpy(), plain.transform(X))
    assert basis.inverse_transform(places) == pytest.approx(plain.inverse_transform(plain.transform(X)))


@pytest.mark.parametrize("selector", [SELECTOR, BASIS], ids=lambda s: type(s).__name__)
def test_pipelines_and_searches(selector, data):
    X, y = data
    pipeline = make_pipeline(clone(selector), LogisticRegression())
    assert cross_val_score(pipeline, X, y, cv=2).min() > 0.7
    option = "k" if selector is SELECTOR else "n_components"
    name = f"{type(selector).__name__.lower()}__{option}"
    search = GridSearchCV(pipeline, {name: [1, 3]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.7
    assert search.best_estimator_.predict(X).shape == (160,)


@pytest.mark.parametrize("selector", [SELECTOR, BASIS], ids=lambda s: type(s).__name__)
def test_sparse_samples_memory_maps_and_pickles(selector, data, tmp_path):
    X, y = data
    X = np.where(np.abs(X) < 1, 0, X).astype(np.float32)
    X.tofile(tmp_path / "X")
    fitted = clone(selector).fit(X, y)
    wanted = fitted.transform(X)
    for samples in (sparse.csr_array(X), np.memmap(tmp_path / "X", np.float32, "r", shape=X.shape)):
        found = clone(selector).fit(samples, y).transform(samples)
        assert (found.toarray() if sparse.issparse(found) else found) == pytest.approx(wanted, abs=1e-4)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), wanted)
