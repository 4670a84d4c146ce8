"""prepare= is what one would do by hand before fit, for any kind of matrix; a centred model says what it needs."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import gsat
from gsat.estimators.folder import seal
from gsat.estimators.matching import align, probabilities
from gsat.estimators.preparing import prepared

QUICK = {"n_outer": 40, "eta0": 1e-2, "hidden": 12, "group_size": 50, "random_state": 0}
CLASSES, BATCHES = np.array(["x", "y", "z"]), np.array(["a", "b", "c", "d"])
N, D = 160, 7


def draw(seed, names=BATCHES):
    """Counts with zeros, whose batches have means of their own."""
    rng = np.random.default_rng(seed)
    code, kind = rng.integers(0, len(names), N), rng.integers(0, 3, N)
    X = rng.poisson(2.0, (N, D)) + rng.poisson(8.0, (len(names), D))[code] * (rng.random((N, D)) < 0.8)
    X[np.arange(N), kind] += 6
    return X.astype(np.float32), CLASSES[kind], names[code]


def by_hand(X, prepare, batch, weights=None):
    X = np.asarray(X, np.float64).copy()
    weights = np.ones(len(X)) if weights is None else weights
    if prepare == "centre":
        for name in set(batch.tolist()):
            X[batch == name] -= np.average(X[batch == name], axis=0, weights=weights[batch == name])
    elif prepare == "zscore":
        X = (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)
    return X.astype(np.float32)


@pytest.fixture(scope="module")
def data():
    return draw(0)


@pytest.fixture(scope="module")
def new():
    return draw(1, np.array(["c", "new", "newer"]))


@pytest.fixture(scope="module")
def centred(data):
    X, y, batch = data
    return gsat.GSATClassifier(prepare="centre", **QUICK).fit(X, y, batch=batch)


def near(found, wanted):
    """Samples differ by the rounding of float32, which training makes larger."""
    np.testing.assert_allclose(found, wanted, atol=1e-3, rtol=0)


@pytest.mark.parametrize("prepare", ["centre", "zscore"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_classifier_is_that_of_samples_prepared_by_hand(prepare, weighted, data, new):
    X, y, batch = data
    weights = np.where(y == "x", 3.0, 1.0) if weighted else None
    clf = gsat.GSATClassifier(prepare=prepare, **QUICK).fit(X, y, weights, batch=batch)
    ready = by_hand(X, prepare, batch, weights)
    plain = gsat.GSATClassifier(**QUICK).fit(ready, y, weights, batch=batch)
    np.testing.assert_allclose(clf.mean_, np.average(ready.astype(np.float64), axis=0, weights=weights), atol=1e-6)
    np.testing.assert_allclose(clf.scale_, plain.scale_, rtol=1e-5)
    assert clf.mean_norm_ == pytest.approx(plain.mean_norm_, rel=1e-5)
    X, y, batch = new  # of which one batch was in training and two were not
    ready = by_hand(X, prepare, batch)
    near(clf.predict_proba(X, batch), plain.predict_proba(ready))
    near(clf.module_input(X, batch), plain.module_input(ready))
    near(clf.decision_function(X, batch=batch), plain.decision_function(ready))
    assert np.array_equal(clf.predict(X, batch), clf.classes_[clf.predict_proba(X, batch).argmax(1)])
    assert clf.score(X, y, batch=batch) == np.mean(clf.predict(X, batch) == y)
    assert clf.score(X, y) == np.mean(clf.predict(X) == y)


def test_a_regressor_is_that_of_samples_prepared_by_hand(data, new):
    X, _, batch = data
    target = by_hand(X, "centre", batch)[:, 1]
    reg = gsat.GSATRegressor(prepare="centre", **QUICK).fit(X, target, batch=batch)
    plain = gsat.GSATRegressor(**QUICK).fit(by_hand(X, "centre", batch), target, batch=batch)
    X, _, batch = new
    ready = by_hand(X, "centre", batch)
    near(reg.predict(X, batch), plain.predict(ready))
    assert reg.score(X, ready[:, 1], batch=batch) == pytest.approx(plain.score(ready, ready[:, 1]), abs=1e-3)


@pytest.mark.parametrize("kind", [gsat.ERMClassifier, gsat.PGDClassifier, gsat.StructuredATClassifier])
def test_every_estimator_has_it(kind, data, tmp_path):
    X, y, batch = data
    clf = kind(prepare="zscore", **QUICK).fit(X, y)
    near(clf.module_input(X), (by_hand(X, "zscore", batch) - clf.mean_) / clf.scale_)
    with pytest.raises(ValueError, match=r"prepare must be one of none, centre, zscore, got 'choose'"):
        kind(prepare="choose", **QUICK).fit(X, y)


@pytest.mark.parametrize("prepare", ["centre", "zscore"])
@pytest.mark.parametrize("kind", ["sparse", "memory map", "float64"])
def test_any_matrix_gives_the_same(prepare, kind, data, new, tmp_path):
    def matrix(X):
        if kind == "sparse":
            return sparse.csr_array(X)
        if kind == "float64":
            return X.astype(np.float64)
        np.save(tmp_path / "x.npy", X)
        return np.load(tmp_path / "x.npy", mmap_mode="r")

    X, y, batch = data
    options = {"prepare": prepare, "early_stopping": True, "calibrate": True, "validation_fraction": 0.3, **QUICK}
    dense = gsat.GSATClassifier(**options).fit(X, y, batch=batch)
    other = gsat.GSATClassifier(**options).fit(matrix(X), y, batch=batch)
    assert other.temperature_ == pytest.approx(dense.temperature_, rel=1e-3)
    X, _, batch = new
    near(other.predict_proba(matrix(X), batch), dense.predict_proba(X, batch))


@pytest.mark.parametrize("prepare", ["centre", "zscore"])
def test_rows_are_made_a_few_at_a_time(prepare, data, monkeypatch):
    X, _, batch = data
    monkeypatch.setattr("gsat._arrays.chunks.at_a_time", lambda d: 7)

    class Watched:
        shape = X.shape

        def __getitem__(self, rows):
            found = X[rows]
            assert len(found) <= 7
            return sparse.csr_array(found)

    rows = prepared(Watched(), prepare, batch)
    chosen = np.array([150, 3, 4])
    np.testing.assert_allclose(rows[chosen], by_hand(X, prepare, batch)[chosen], atol=1e-5)


def test_without_batches_the_samples_are_one(data, new):
    X, y, _ = data
    with pytest.warns(UserWarning, match=r'prepare="centre" takes away the mean of each batch, and fit was given no'):
        clf = gsat.ERMClassifier(prepare="centre", **QUICK).fit(X, y)
    X, _, batch = new
    one = np.full(N, "one")
    np.testing.assert_array_equal(clf.predict_proba(X), clf.predict_proba(X, one))
    shifted = X + np.arange(D, dtype=np.float32)
    near(clf.predict_proba(shifted), clf.predict_proba(X))
    assert np.abs(clf.predict_proba(X, batch) - clf.predict_proba(X)).max() > 0.01


def test_single_samples_are_refused_where_a_batch_is_needed(centred, data, new):
    X, y, batch = new
    lone = np.where(np.arange(N) == 5, "lone", batch)
    with pytest.raises(
        ValueError, match=r"at least 2 samples of each batch .* got 1 of batch 'lone'; a model with prep"
    ):
        centred.predict(X, lone)
    with pytest.raises(ValueError, match=r'unlabelled samples of a batch.*got 1 sample and no batch; .*"none" or "zsc'):
        centred.predict_proba(X[:1])
    with pytest.raises(ValueError, match=r"got 1 of batch 'lone'"):
        gsat.ERMClassifier(prepare="centre", **QUICK).fit(X, y, batch=lone)
    with pytest.raises(ValueError, match=r"batch must have one id per sample \(160\), got 3"):
        centred.predict(X, ["a", "b", "c"])
    with pytest.raises(ValueError, match=r"batch must have an id for every sample, got NaN"):
        centred.predict(X, np.where(np.arange(N) == 5, np.nan, 1.0))
    scored = gsat.ERMClassifier(prepare="zscore", **QUICK).fit(*data[:2])
    near(scored.predict_proba(X[:1]), scored.predict_proba(X)[:1])


def test_a_sample_of_weight_zero_is_not_there(data):
    X, y, batch = data
    weights = np.where(batch == "d", 0.0, 1.0)
    weights[np.flatnonzero(batch == "a")[:5]] = 0
    X = np.where(weights[:, None] > 0, X, 1e4)
    clf = gsat.ERMClassifier(prepare="centre", **QUICK).fit(X, y, weights, batch=batch)
    rows = weights > 0
    same = gsat.ERMClassifier(prepare="centre", **QUICK).fit(X[rows], y[rows], batch=batch[rows])
    np.testing.assert_allclose(clf.scale_, same.scale_, rtol=1e-5)


def test_constant_samples_are_zero():
    X = np.array([[0.1] * 5, [3e7 + 1] * 5, [1, 2, 3, 4, 5]], np.float64)
    found = prepared(X, "zscore")[:]
    assert (found[:2] == 0).all()
    np.testing.assert_allclose(found[2], np.arange(-2, 3) / np.sqrt(2))


def test_saved_and_pickled_models_predict_the_same(centred, new, tmp_path):
    X, _, batch = new
    centred.save(tmp_path / "model")
    for again in (gsat.load(tmp_path / "model"), pickle.loads(pickle.dumps(centred))):
        assert again.prepare == "centre"
        assert np.array_equal(again.predict_proba(X, batch), centred.predict_proba(X, batch))
        with pytest.raises(ValueError, match="got 1 sample and no batch"):
            again.predict(X[:1])


def test_models_of_earlier_versions_are_not_prepared(data, tmp_path):
    clf = gsat.ERMClassifier(**{**QUICK, "n_outer": 5}).fit(*data[:2])
    head = clf.save(tmp_path / "model") / "model.json"
    about = json.loads(head.read_text())
    assert about["params"].pop("prepare") == "none"
    head.write_text(json.dumps(seal(about)))
    assert gsat.load(tmp_path / "model").prepare == "none"
    about["params"]["prepare"] = "choose"
    head.write_text(json.dumps(seal(about)))
    with pytest.raises(ValueError, match="prepare must be one of none, centre, zscore, got 'choose'"):
        gsat.load(tmp_path / "model")


@pytest.mark.parametrize("prepare", ["centre", "zscore"])
def test_perturbations_are_in_the_units_of_the_samples(prepare, data):
    X, y, batch = data
    clf = gsat.GSATClassifier("low-rank", prepare=prepare, **QUICK).fit(X, y, batch=batch)
    ready = by_hand(X, prepare, batch)
    plain = gsat.GSATClassifier("low-rank", **QUICK).fit(ready, y, batch=batch)
    delta = clf.perturb(X, y, batch=batch)
    unit = X.std(1, keepdims=True) if prepare == "zscore" else 1.0
    wanted = plain.perturb(ready, y, batch=batch) * unit
    assert np.linalg.norm(delta - wanted) < 0.02 * np.linalg.norm(wanted)


def test_certificates_and_attacks_see_the_centred_samples(centred, data):
    X, y, batch = data
    options = {"group_size": 40, "n_groups": 2, "random_state": 1}
    found = centred.certificate(X, y, [0.1], batch=batch, cost=gsat.Unstructured(), **options)
    rows, codes = centred.module_input(X, batch), np.searchsorted(centred.classes_, y)
    same = gsat.certify(centred.module_, rows, codes, [0.1], gsat.Unstructured(), batch=batch, **options)
    pd.testing.assert_frame_equal(found.table, same.table, rtol=1e-5)
    chances = centred.predict_proba(X, batch)
    loss = -np.log(chances[np.arange(N), codes]).mean()
    row = gsat.evaluate(centred, X, y, [], batch=batch).iloc[0]
    assert row["accuracy"] == centred.score(X, y, batch=batch)
    assert row["loss"] == pytest.approx(loss, rel=1e-3)


def test_parts_have_no_batches(data):
    X, y, batch = data
    with pytest.raises(ValueError, match=r'prepare must be "none" or "zscore" for partial_fit, got "centre": the mean'):
        gsat.GSATClassifier(prepare="centre", **QUICK).partial_fit(X, y, CLASSES, batch=batch)
    clf = gsat.GSATClassifier(prepare="zscore", **QUICK).partial_fit(X, y, CLASSES).partial_fit(X, y)
    plain = gsat.GSATClassifier(**QUICK)
    ready = by_hand(X, "zscore", batch)
    plain.partial_fit(ready, y, CLASSES).partial_fit(ready, y)
    near(clf.predict_proba(X), plain.predict_proba(ready))


def test_held_out_batches_are_centred_too(data):
    X, y, batch = data
    options = {"early_stopping": True, "calibrate": True, "validation_batches": ["b"], **QUICK}
    clf = gsat.GSATClassifier(prepare="centre", **options).fit(X, y, batch=batch)
    plain = gsat.GSATClassifier(**options).fit(by_hand(X, "centre", batch), y, batch=batch)
    assert clf.history_.steps[-1].loss == pytest.approx(plain.history_.steps[-1].loss, rel=1e-2)
    assert clf.temperature_ == pytest.approx(plain.temperature_, rel=1e-2)


def test_features_matched_by_name_are_centred_by_batch(centred, new):
    X, _, batch = new
    names = [f"g{j}" for j in range(D)]
    clf = pickle.loads(pickle.dumps(centred))
    clf.feature_names_in_ = np.array(names, dtype=object)
    order = np.random.default_rng(3).permutation(D)
    shuffled = [names[j] for j in order]
    wanted = centred.predict_proba(X, batch)
    for samples in (X[:, order], sparse.csr_array(X[:, order])):
        near(probabilities(clf, samples, align(clf, shuffled, D), "error", batch), wanted)
    part = align(clf, names[1:], D - 1, "mean")
    flat = X.copy()
    flat[:, 0] = 5  # a feature that does not vary is 0 when it is centred, whatever it was
    near(probabilities(clf, X[:, 1:], part, "mean", batch), centred.predict_proba(flat, batch))
    with pytest.raises(ValueError, match="X must have at least one sample, got none"):
        probabilities(clf, X[:0], align(clf, names, D), "error")
    scored = gsat.ERMClassifier(prepare="zscore", **QUICK).fit(X, CLASSES[np.arange(N) % 3])
    scored.feature_names_in_ = clf.feature_names_in_
    with pytest.raises(ValueError, match=r'missing = "mean" needs a model with prepare="none" or "centre", got "zsc'):
        align(scored, names[1:], D - 1, "mean")


def test_nothing_is_prepared_by_default(data, new):
    X, y, batch = data
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = gsat.GSATClassifier(**{**QUICK, "n_outer": 10}).fit(X, y, batch=batch)
    np.testing.assert_array_equal(clf.predict_proba(new[0]), clf.predict_proba(new[0], new[2]))
    assert clf.predict(new[0][:1]).shape == (1,)


def test_log_counts_per_million_by_hand_and_sparse():
    X = np.array([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [10.0, 0.0, 30.0]])
    wanted = np.log1p(1e6 * X / np.array([[4.0], [1.0], [40.0]]))
    dense, thin = (prepared(each, "none", normalise="log1p-cpm") for each in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(dense[:], wanted)
    assert sparse.issparse(thin[np.array([0, 2])])
    np.testing.assert_allclose(thin[np.array([0, 2])].toarray(), wanted[[0, 2]])
    with pytest.raises(ValueError, match="must hold counts >= 0 with normalise"):
        prepared(-X, "none", normalise="log1p-cpm")[:]
    with pytest.raises(ValueError, match="normalise must be one of none, log1p-cpm, zscore-samples, got 'cpm'"):
        prepared(X, "none", normalise="cpm")


@pytest.mark.parametrize("normalise", ["log1p-cpm", "zscore-samples"])
@pytest.mark.parametrize("prepare", ["none", "centre"])
def test_a_normalising_model_is_the_one_of_normalised_samples(normalise, prepare, tmp_path):
    rng = np.random.default_rng(0)
    y, batch = rng.integers(2, size=60), rng.integers(2, size=60)
    X = rng.poisson(5 + 10 * y[:, None] * (np.arange(8) < 3)) * rng.integers(1, 5, 60)[:, None] + 0.0
    if normalise == "log1p-cpm":
        ready = np.log1p(1e6 * X / X.sum(1, keepdims=True))
    else:
        ready = (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)
    options = {"n_outer": 20, "n_inner": 2, "group_size": 30, "prepare": prepare, "random_state": 0}
    plain = gsat.GSATClassifier(**options).fit(ready, y, batch=batch)
    model = gsat.GSATClassifier(**options, normalise=normalise).fit(X, y, batch=batch)
    wanted = plain.predict_proba(ready, batch)
    np.testing.assert_allclose(model.predict_proba(X, batch), wanted, atol=1e-4)
    model.save(tmp_path / "m")
    np.testing.assert_allclose(gsat.load(tmp_path / "m").predict_proba(X, batch), wanted, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(sparse.csr_array(X), batch), wanted, atol=1e-4)
