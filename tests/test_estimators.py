"""The estimators keep scikit-learn's contract, and do what theirs says."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import gsat
from gsat.fitting import mean_and_scale

QUICK = {"n_outer": 60, "eta0": 1e-2, "hidden": 30, "random_state": 0}
ESTIMATORS = [
    gsat.GSATClassifier(n_inner=4, **QUICK),
    gsat.ERMClassifier(**QUICK),
    gsat.FGMClassifier(**QUICK),
    gsat.PGDClassifier(n_inner=4, **QUICK),
    gsat.UniversalATClassifier(**QUICK),
    gsat.GSATRegressor(n_inner=4, **QUICK),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_no_check_is_left_out(estimator):
    assert len(list(estimator_checks_generator(estimator))) >= 50


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(300, 20, n_informative=6, n_classes=3, random_state=1)
    return (5 + 3 * X).astype(np.float32), np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def fitted(data):
    return gsat.GSATClassifier("group-sparse", n_inner=4, n_outer=120, eta0=1e-2, random_state=0).fit(*data)


def test_it_learns(data, fitted):
    X, y = data
    assert fitted.score(X, y) > 0.8
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    assert fitted.predict_proba(X).sum(1) == pytest.approx(np.ones(len(X)))
    assert fitted.decision_function(X).shape == (300, 3)
    assert len(fitted.history_) == 120
    assert fitted.lam_ > 0


def test_the_same_seed_gives_the_same_bits(data, fitted):
    again = clone(fitted).fit(*data)
    for name, value in fitted.module_.state_dict().items():
        assert torch.equal(value, again.module_.state_dict()[name])


def test_perturbations_are_in_original_units(data, fitted):
    X, y = data
    delta = fitted.perturb(X[:200], y[:200])
    assert delta.shape == (200, 20)
    standard = delta / X.std(0)
    assert np.linalg.norm(standard, axis=1).mean() == pytest.approx(0.05 * fitted.mean_norm_, rel=1.0)
    with pytest.raises(ValueError, match=r"y must hold only labels of fit"):
        fitted.perturb(X[:3], np.array(["a", "b", "z"]))


@pytest.mark.parametrize("kind", [gsat.GSATClassifier, gsat.PGDClassifier, gsat.ERMClassifier])
def test_save_and_load(kind, data, tmp_path):
    X, y = data
    clf = kind(**QUICK).fit(pd.DataFrame(X, columns=[f"gene{i}" for i in range(20)]), y)
    clf.save(tmp_path / "model")
    again = gsat.load(tmp_path / "model")
    frame = pd.DataFrame(X, columns=clf.feature_names_in_)
    assert np.array_equal(again.predict_proba(frame), clf.predict_proba(frame))
    assert again.get_params() == clf.get_params()
    assert again.predict(frame).tolist() == clf.predict(frame).tolist()
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["model.json", "weights.safetensors"]


def test_load_refuses_what_it_does_not_know(data, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    head = json.loads((tmp_path / "model" / "model.json").read_text())
    (tmp_path / "model" / "model.json").write_text(json.dumps({**head, "format": 7}))
    with pytest.raises(ValueError, match="must have format 1, got 7"):
        gsat.load(tmp_path / "model")
    (tmp_path / "model" / "model.json").write_text(json.dumps({**head, "estimator": "os.system"}))
    with pytest.raises(ValueError, match=r"must hold one of GSATClassifier, .* got 'os.system'"):
        gsat.load(tmp_path / "model")
    with pytest.raises(FileNotFoundError, match=r"model.json and weights.safetensors"):
        gsat.load(tmp_path)


def test_what_cannot_be_saved_leaves_nothing_behind(data, tmp_path):
    clf = gsat.ERMClassifier(module=lambda shape, n: torch.nn.Linear(shape[0], n), **QUICK).fit(*data)
    with pytest.raises(ValueError, match=r"module must be a name, a number or a list to be saved"):
        clf.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_pickle_and_tools_of_scikit_learn(data, fitted):
    X, y = data
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    quick = gsat.GSATClassifier(n_inner=3, **QUICK)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), quick), {"gsatclassifier__budget": [0.02, 0.2]}, cv=2, n_jobs=2
    )
    search.fit(X, y)
    assert search.best_score_ > 0.6
    assert cross_val_score(quick, X, y, cv=2).min() > 0.6
    calibrated = CalibratedClassifierCV(gsat.ERMClassifier(**QUICK), cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (300, 3)


def test_sparse_and_dense_agree(data):
    X, y = data
    X = np.where(np.abs(X - 5) < 2, 0, X)
    dense = gsat.ERMClassifier(**QUICK).fit(X, y)
    thin = gsat.ERMClassifier(**QUICK).fit(sparse.csr_array(X), y)
    assert thin.predict_proba(sparse.csr_array(X)) == pytest.approx(dense.predict_proba(X), abs=1e-6)


def test_mean_and_scale():
    X = np.random.default_rng(0).normal(size=(3000, 5)) * [1, 1e-3, 1e3, 1, 0] + [0, 1e4, 0, -3, 7]
    mean, scale = mean_and_scale(X)
    assert mean == pytest.approx(X.mean(0), rel=1e-5, abs=1e-5)
    assert scale[:4] == pytest.approx(X.std(0)[:4], rel=1e-5)
    assert scale[4] == 1


def test_class_weight_moves_the_boundary(data):
    X, y = data
    plain = gsat.ERMClassifier(**QUICK).fit(X, y)
    tilted = gsat.ERMClassifier(class_weight={"a": 30.0, "b": 1.0, "c": 1.0}, **QUICK).fit(X, y)
    assert (tilted.predict(X) == "a").sum() > (plain.predict(X) == "a").sum()


def test_warm_start_goes_on(data):
    X, y = data
    clf = gsat.ERMClassifier(warm_start=True, **QUICK).fit(X, y)
    first = clf.module_
    loss = clf.history_[-1].loss
    clf.fit(X, y)
    assert clf.module_ is first
    assert clf.history_[-1].loss < loss


def test_batches_and_blocks(data):
    X, y = data
    batch = np.arange(300) % 3
    clf = gsat.GSATClassifier("universal", n_inner=4, **QUICK).fit(X, y, batch=batch)
    delta = clf.perturb(X[:90], y[:90], batch=batch[:90])
    for b in range(3):
        assert np.allclose(delta[batch[:90] == b], delta[b], atol=1e-5)
    blocks = np.repeat(np.arange(5), 4)
    clf = gsat.GSATClassifier("group-sparse", k=2, feature_groups=blocks.tolist(), n_inner=4, **QUICK).fit(X, y)
    moved = np.abs(clf.perturb(X[:100], y[:100])).sum(0) > 0
    assert 0 < len(set(blocks[moved])) <= 2


def test_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    y = 100 + 20 * X[:, 0] - 10 * X[:, 1] ** 2
    model = gsat.GSATRegressor(n_outer=300, n_inner=4, eta0=1e-2, budget=0.02, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.perturb(X, y).shape == X.shape


def test_evaluate_takes_a_classifier(data, fitted):
    X, y = data
    table = gsat.evaluate(fitted, X, y, gsat.attacks.PGD(0.2 * fitted.mean_norm_, steps=10))
    assert table["accuracy"][0] == pytest.approx(fitted.score(X, y))
    assert table["accuracy"][1] < table["accuracy"][0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"structure": "cubic"},
            "structure must be one of universal, .*, unstructured, got 'cubic'",
        ),
        ({"lam": "many"}, 'lam must be a number > 0, "auto" or "paper", got \'many\''),
        ({"budget": 0.0}, "budget must be > 0, got 0.0"),
        ({"alpha": 1.5}, "alpha must be >= 0 and <= 1, got 1.5"),
        ({"solver": "newton"}, "solver must be one of"),
        ({"n_outer": 0}, "n_outer must be >= 1, got 0"),
    ],
)
def test_parameters_are_checked_in_fit(options, message, data):
    with pytest.raises(ValueError, match=message):
        gsat.GSATClassifier(**{**QUICK, **options}).fit(*data)
