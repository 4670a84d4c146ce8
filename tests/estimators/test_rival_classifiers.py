"""The rivals as classifiers: they learn, are reproducible, and are ERM where there are no batches to know."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import gsat
from gsat.estimators.rivals import CORALClassifier, GroupDROClassifier, RandomClassifier

QUICK = {"n_outer": 40, "group_size": 40, "hidden": 8, "eta0": 1e-2, "random_state": 3}
KINDS = [GroupDROClassifier(0.1, **QUICK), CORALClassifier(5.0, **QUICK), RandomClassifier(0.2, **QUICK)]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def shifted(n=120, d=6):
    rng = np.random.default_rng(0)
    y, batch = np.arange(n) % 3, np.array(["x", "y", "z", "w"])[np.arange(n) // 3 % 4]
    shifts = dict(zip("xyzw", rng.normal(size=(4, d)), strict=True))
    X = 3 * np.eye(3, d)[y] + np.stack([shifts[one] for one in batch]) + 0.4 * rng.normal(size=(n, d))
    return X.astype(np.float32), y, batch


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: type(one).__name__)
def test_rivals_learn_and_are_reproducible(kind):
    X, y, batch = shifted()
    first, again = (clone(kind).fit(X, y, batch=batch).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first.argmax(1) == y).mean() > 0.8
    assert not np.allclose(first, gsat.ERMClassifier(**QUICK).fit(X, y, batch=batch).predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("one_batch", [None, "x"])
def test_with_one_batch_they_are_erm(kind, one_batch):
    X, y, _ = shifted()
    batch = None if one_batch is None else np.full(len(y), one_batch)
    plain = gsat.ERMClassifier(**QUICK).fit(X, y, batch=batch).predict_proba(X)
    np.testing.assert_allclose(clone(kind).fit(X, y, batch=batch).predict_proba(X), plain, atol=1e-4)


def test_the_size_of_random_draws_is_a_fraction_of_the_mean_norm():
    X, y, _ = shifted()
    clf = RandomClassifier(0.3, **QUICK).fit(X, y)
    assert clf.history_.mean_norm == pytest.approx(0.3 * clf.mean_norm_, rel=1e-5)
    metric = gsat.Metric.from_batches(clf.module_input(X), y, gamma=10.0)
    assert not np.array_equal(clone(clf).set_params(metric=metric).fit(X, y).predict_proba(X), clf.predict_proba(X))
