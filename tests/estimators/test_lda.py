"""Shrinkage LDA: scikit-learn's, through the shorter side, on prepared and standardised samples."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gsat
from gsat.estimators import lda

WIDE = (60, 300)


def gaussians(n=60, d=300, k=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    mixed = rng.normal(size=(n, d)) @ (np.eye(d) + rng.normal(size=(d, d)) / np.sqrt(d))
    return 5 + mixed + rng.normal(size=(k, d))[y], y


def theirs(X, y, shrinkage, priors=None):
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage, priors=priors).fit(X, y)


def problems():
    """More samples than features and fewer, two classes and more, features that are constant."""
    wine, digits = load_wine(return_X_y=True), load_digits(return_X_y=True)
    return {
        "wine": wine,
        "two classes": (wine[0][wine[1] < 2], wine[1][wine[1] < 2]),
        "digits, constant pixels": (digits[0][:300], digits[1][:300]),
        "wide": gaussians(*WIDE),
        "wide, two classes": gaussians(*WIDE, k=2),
    }


@pytest.mark.parametrize("shrinkage", [0.03, 0.6, 1.0])
@pytest.mark.parametrize("name", problems())
def test_it_is_that_of_scikit_learn(name, shrinkage):
    X, y = problems()[name]
    Z = StandardScaler().fit_transform(X)
    k = len(np.unique(y))
    for weight, priors in (("balanced", np.full(k, 1 / k)), (None, None)):
        ours = gsat.LDAClassifier(shrinkage, class_weight=weight).fit(X, y)
        other = theirs(Z, y, shrinkage, priors)
        np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(Z), atol=2e-4)
        new = np.random.default_rng(1).permutation(Z.ravel()).reshape(Z.shape)  # far from what was trained on
        back = StandardScaler().fit(X).inverse_transform(new)
        np.testing.assert_array_equal(ours.predict(back), other.predict(StandardScaler().fit(X).transform(back)))


@pytest.mark.parametrize("shape", [(400, 7), (40, 90)])
def test_large_data_are_read_in_every_pass(shape, monkeypatch):
    X, y = gaussians(*shape)
    kept = gsat.LDAClassifier(0.2).fit(X, y).predict_proba(X)
    monkeypatch.setattr(lda, "KEPT", 0)
    monkeypatch.setattr(lda, "pieces", lambda n, d, times: (slice(i, min(i + 16, n)) for i in range(0, n, 16)))
    np.testing.assert_allclose(gsat.LDAClassifier(0.2).fit(X, y).predict_proba(X), kept, atol=1e-5)


def test_few_samples_of_twenty_thousand_features_go_through_the_samples():
    """Σ would have 400 million entries; the optimality of the weights is Σ·w = μ_k − μ, tried with R alone."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    X = rng.normal(size=(300, 20_000)).astype(np.float32)
    X[:, :50] += rng.normal(size=(3, 50)).astype(np.float32)[y]
    clf = gsat.LDAClassifier(0.1, class_weight="balanced").fit(X, y)
    Z = clf.module_input(X).astype(np.float64)
    means = np.stack([Z[y == c].mean(0) for c in range(3)])
    R = (Z - means[y]) / np.sqrt(3 * np.bincount(y)[y])[:, None]
    weight = clf.module_[-1].weight.detach().double().numpy().T
    image = 0.9 * R.T @ (R @ weight) + 0.1 * np.square(R).sum() / 20_000 * weight
    wanted = (means - means.mean(0)).T
    np.testing.assert_allclose(image, wanted, atol=1e-4 * np.abs(wanted).max())


def test_weights_are_repetitions():
    X, y = gaussians(40, 6)
    times = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = gsat.LDAClassifier(0.2).fit(X, y, times)
    repeated = gsat.LDAClassifier(0.2).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)


def test_sparse_samples_are_those_of_the_dense_ones():
    X, y = gaussians(50, 80)
    X[np.abs(X - 5) < 1] = 0
    dense, thin = (gsat.LDAClassifier(0.2).fit(one, y) for one in (X, sparse.csr_matrix(X)))
    np.testing.assert_allclose(thin.predict_proba(sparse.csr_matrix(X)), dense.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("prepare", ["none", "centre", "zscore"])
def test_saved_and_loaded(prepare, tmp_path):
    X, y = gaussians()
    batch = np.arange(len(y)) % 4
    clf = gsat.LDAClassifier(0.3, prepare=prepare, calibrate=True, random_state=0).fit(X, y, batch=batch)
    again = gsat.load(clf.save(tmp_path / "model"))
    assert isinstance(again, gsat.LDAClassifier)
    assert again.shrinkage == 0.3
    np.testing.assert_allclose(again.predict_proba(X, batch), clf.predict_proba(X, batch), atol=1e-6)
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["model.json", "weights.safetensors"]


def test_classes_whose_samples_are_alike_are_told_by_their_distances():
    X, y = np.repeat(np.eye(3), 4, axis=0), np.repeat(["a", "b", "c"], 4)
    clf = gsat.LDAClassifier(0.2).fit(X, y)
    assert (clf.predict(X) == y).all()


def test_a_run_has_a_log_of_one_line(tmp_path):
    X, y = gaussians()
    clf = gsat.LDAClassifier(0.3, class_weight="balanced").fit_run(X, y, out=tmp_path)
    (line,) = (tmp_path / "log.jsonl").read_text().splitlines()
    chances = clf.predict_proba(X)[np.arange(len(y)), y]
    assert json.loads(line)["loss"] == pytest.approx(-np.log(chances).mean(), rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shrinkage": 0.0}, "shrinkage must be > 0 and <= 1, got 0"),
        ({"shrinkage": 1.5}, "shrinkage must be > 0 and <= 1, got 1.5"),
        ({"hidden": 5}, "hidden must be 0 for a linear model, got 5"),
        ({"module": "elu"}, "module must be None for a linear model, got 'elu'"),
    ],
)
def test_what_is_wrong_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        gsat.LDAClassifier(**options).fit(*gaussians())


def test_what_is_too_large_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(lda, "LARGEST_SIDE", 20)
    message = r"at most 20 samples or at most 20 features for LDA, .* got 60 x 300; LinearClassifier has no such"
    with pytest.raises(ValueError, match=message):
        gsat.LDAClassifier().fit(*gaussians())
    X, y = gaussians(60, 20)
    assert gsat.LDAClassifier().fit(X, y).score(X, y) > 0.5


def test_there_is_no_partial_fit():
    assert not hasattr(gsat.LDAClassifier(), "partial_fit")


@parametrize_with_checks([gsat.LDAClassifier(0.2)])
def test_scikit_learn(estimator, check):
    check(estimator)
