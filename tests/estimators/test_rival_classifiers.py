"""The rivals as classifiers: they learn, are reproducible, and are ERM where there are no batches to know."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

import gsat
from gsat import CORALClassifier, GroupDROClassifier, RandomDrawsClassifier

QUICK = {"n_outer": 40, "group_size": 40, "hidden": 8, "eta0": 1e-2, "random_state": 3}
KINDS = [GroupDROClassifier(0.1, **QUICK), CORALClassifier(5.0, **QUICK), RandomDrawsClassifier(0.2, **QUICK)]


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
    clf = RandomDrawsClassifier(0.3, **QUICK).fit(X, y)
    assert clf.history_.mean_norm == pytest.approx(0.3 * clf.mean_norm_, rel=1e-5)
    metric = gsat.Metric.from_batches(clf.module_input(X), y, gamma=10.0)
    assert not np.array_equal(clone(clf).set_params(metric=metric).fit(X, y).predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("batches", [True, False])
def test_saved_and_loaded_they_are_the_same(kind, batches, tmp_path):
    X, y, batch = shifted()
    batch = batch if batches else None
    clf = clone(kind).fit(X, y, batch=batch)
    clf.save(tmp_path / "model")
    again = gsat.load(tmp_path / "model")
    assert type(again) is type(clf)
    assert again.get_params() == clf.get_params()
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(again.perturb(X, y, batch=batch), clf.perturb(X, y, batch=batch))
    again.partial_fit(X, y, batch=batch)
    assert again.n_iter_ > clf.n_iter_


@pytest.mark.parametrize("given", [False, True], ids=["learnt", "given"])
def test_random_draws_keep_their_metric(given, tmp_path):
    X, y, batch = shifted()
    clf = RandomDrawsClassifier(0.3, metric="batches", gamma=5.0, **QUICK).fit(X, y, batch=batch)
    expected = gsat.Metric.from_batches(clf.module_input(X), y, batch, gamma=5.0)
    np.testing.assert_allclose(clf.metric_.stretch, expected.stretch, rtol=1e-4)
    if given:
        clf = clone(clf).set_params(metric=expected).fit(X, y)
    clf.save(tmp_path / "model")
    again = gsat.load(tmp_path / "model")
    assert isinstance(again.metric, gsat.Metric) == given
    np.testing.assert_array_equal(again.metric_.directions, clf.metric_.directions)
    np.testing.assert_array_equal(again.perturb(X, y), clf.perturb(X, y))


def test_random_draws_have_a_metric_where_there_are_batches():
    X, y, batch = shifted()
    assert RandomDrawsClassifier(**QUICK).fit(X, y).metric_ is None
    assert RandomDrawsClassifier(**QUICK).fit(X, y, batch=batch).metric_ is not None
    assert RandomDrawsClassifier(metric=None, **QUICK).fit(X, y, batch=batch).metric_ is None


def test_the_batches_of_a_saved_model_are_needed(tmp_path):
    from gsat.estimators.folder import read_folder, write_folder

    X, y, batch = shifted()
    clone(KINDS[0]).fit(X, y, batch=batch).save(tmp_path / "model")
    tensors, about = read_folder(tmp_path / "model")
    del about["fitted"]["batches_"]
    write_folder(tmp_path / "model", tensors, {name: about[name] for name in about if name not in ("format", "sha256")})
    with pytest.raises(ValueError, match="fitted must have batches_, got none"):
        gsat.load(tmp_path / "model")


@dataclass(eq=False, repr=False, kw_only=True)
class OfAnotherKind(gsat.ERMClassifier):
    colour: str = "red"


def test_a_parameter_that_cannot_be_saved_is_named(tmp_path):
    X, y, _ = shifted()
    with pytest.raises(ValueError, match="params must have only those that can be saved, got 'colour'"):
        OfAnotherKind(**QUICK).fit(X, y).save(tmp_path / "model")
