"""Logistic regression in a metric: scikit-learn's without one, and the optimum of the penalised problem with one."""

import json

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gsat
from gsat.estimators import linear
from gsat.estimators.linear import LinearClassifier


def batches(n=240, d=12, seed=0):
    rng = np.random.default_rng(seed)
    y, batch = rng.integers(3, size=n), rng.integers(4, size=n)
    X = np.eye(3, d)[y] + rng.normal(size=(5, 2))[batch] @ rng.normal(size=(2, d)) + 0.5 * rng.normal(size=(n, d))
    return X, y, batch


@pytest.mark.parametrize("C", [0.01, 0.7])
@pytest.mark.parametrize(("load", "classes"), [(load_wine, 3), (load_wine, 2), (load_digits, 10)])
def test_without_a_metric_it_is_logistic_regression(C, load, classes):
    X, y = load(return_X_y=True)
    X, y = X[y < classes][::2], y[y < classes][::2]
    weight = np.random.default_rng(0).uniform(0.2, 2.0, len(y))
    ours = LinearClassifier(C, class_weight="balanced").fit(X, y, weight)
    Z = StandardScaler().fit(X, sample_weight=weight).transform(X)
    theirs = LogisticRegression(C=C, class_weight="balanced", max_iter=5000, tol=1e-8).fit(Z, y, weight)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(Z), atol=2e-3)


def test_at_the_optimum_the_slope_of_the_loss_is_the_weights_squared_in_the_metric():
    """∂/∂W Σ ℓ = −W·A²/C."""
    X, y, batch = batches()
    clf = LinearClassifier(0.05, metric="batches", gamma=30.0).fit(X, y, batch=batch)
    assert clf.metric_ is not None
    rows = clf.module_input(X).astype(np.float64)
    error = clf.predict_proba(X) - np.eye(3)[y]
    weight = clf.module_[-1].weight.detach().double()
    expected = -clf.metric_.apply(clf.metric_.apply(weight)).numpy() / 0.05
    np.testing.assert_allclose(error.T @ rows, expected, atol=1e-2 * np.abs(expected).max())


def test_weights_avoid_what_batches_differ_in():
    """Two features tell the classes equally well; the batches are shifted in the first of them."""
    rng = np.random.default_rng(0)
    y, batch = rng.integers(2, size=600), rng.integers(3, size=600)
    X = (2 * y[:, None] - 1) + rng.normal(size=(600, 2))
    X[:, 0] += np.array([-0.4, 0.0, 0.4])[batch]

    def share(metric):
        clf = LinearClassifier(0.01, metric=metric, gamma=100.0).fit(X, y, batch=batch)
        weight = clf.module_[-1].weight.detach().abs().sum(0)
        return float(weight[0] / weight.sum())

    assert share("between") < 0.7 * share(None)


def test_large_data_are_read_in_every_pass(monkeypatch):
    X, y, batch = batches()
    kept = LinearClassifier(0.3).fit(X, y, batch=batch)
    monkeypatch.setattr(linear, "KEPT", 0)
    read = LinearClassifier(0.3).fit(X.astype(np.float64), y, batch=batch)
    np.testing.assert_allclose(read.predict_proba(X), kept.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("prepare", ["none", "centre", "zscore"])
def test_saved_and_loaded(prepare, tmp_path):
    X, y, batch = batches()
    clf = LinearClassifier(0.3, prepare=prepare, calibrate=True, random_state=0).fit(X, y, batch=batch)
    clf.save(tmp_path / "model")
    again = gsat.load(tmp_path / "model")
    assert isinstance(again, gsat.LinearClassifier)
    assert again.C == 0.3
    np.testing.assert_allclose(again.predict_proba(X, batch), clf.predict_proba(X, batch), atol=1e-6)
    torch.testing.assert_close(again.metric_.directions, clf.metric_.directions)


def test_a_run_has_a_log_of_one_line(tmp_path):
    X, y, _ = batches()
    clf = LinearClassifier(0.3).fit_run(X, y, out=tmp_path)
    (line,) = (tmp_path / "log.jsonl").read_text().splitlines()
    assert json.loads(line)["loss"] == pytest.approx(clf.history_[-1].loss)
    assert clf.n_iter_ == clf.history_[-1].t + 1
    assert not clf.perturb(X[:3], y[:3]).any()  # nothing moves in training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, "C must be > 0, got 0"),
        ({"hidden": 5}, "hidden must be 0 for a linear model, got 5"),
        ({"module": "elu"}, "module must be None for a linear model, got 'elu'"),
        ({"in_shape": (3, 4)}, "in_shape must be None for a linear model"),
    ],
)
def test_what_is_wrong_is_named(options, message):
    X, y, _ = batches()
    with pytest.raises(ValueError, match=message):
        LinearClassifier(**options).fit(X, y)


def test_there_is_no_partial_fit():
    assert not hasattr(LinearClassifier(), "partial_fit")


@parametrize_with_checks([LinearClassifier(0.5)])
def test_scikit_learn(estimator, check):
    check(estimator)
