"""partial_fit goes on with the network, λ and the standardisation of the first call."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification

import gsat

X, Y = make_classification(400, 10, n_informative=5, n_classes=3, random_state=5)
NAMES = np.array(["a", "b", "c"])[Y]
OPTIONS = {"n_inner": 3, "eta0": 1e-2, "hidden": 20, "group_size": 50, "random_state": 0}


def parts(passes):
    for k in range(passes):
        rows = np.random.default_rng(k).permutation(400)
        yield from (rows[:200], rows[200:])


def test_it_learns_part_by_part():
    clf = gsat.GSATClassifier(**OPTIONS)
    lams = []
    for rows in parts(15):
        clf.partial_fit(X[rows], NAMES[rows], ["a", "b", "c"])
        lams.append(clf.lam_)
    assert clf.score(X, NAMES) > 0.8
    assert clf.n_iter_ == len(clf.history_) == 30 * 4
    assert [step.t for step in clf.history_] == list(range(120))
    whole = gsat.GSATClassifier(n_outer=120, **OPTIONS).fit(X, NAMES)
    assert clf.history_[-1].lam == pytest.approx(whole.history_[-1].lam, rel=1.0)
    target = 0.05 * clf.mean_norm_
    assert np.mean([step.mean_norm for step in clf.history_.steps[-40:]]) == pytest.approx(target, rel=0.5)


def test_the_first_call_fixes_the_standardisation_and_the_classes():
    clf = gsat.GSATClassifier(**OPTIONS).partial_fit(X[:200], NAMES[:200], ["c", "b", "a", "z"])
    mean, unit = clf.mean_.copy(), clf.mean_norm_
    assert mean == pytest.approx(X[:200].mean(0), rel=1e-4, abs=1e-6)
    module = clf.module_
    clf.partial_fit(100 + X[200:], NAMES[200:])
    assert np.array_equal(clf.mean_, mean)
    assert clf.mean_norm_ == unit
    assert clf.module_ is module
    assert clf.classes_.tolist() == ["a", "b", "c", "z"]
    assert clf.predict_proba(X).shape == (400, 4)


def test_one_call_is_the_same_steps_as_a_short_fit():
    """The same draws, the same Adam, a given λ: one pass over 200 samples is four groups of fifty.

    A λ that follows the budget does so faster in a run that is known to be short.
    """
    clf = gsat.GSATClassifier(lam=3.0, **OPTIONS).partial_fit(X[:200], Y[:200], [0, 1, 2])
    short = gsat.GSATClassifier(lam=3.0, n_outer=4, **OPTIONS).fit(X[:200], Y[:200])
    for name, value in short.module_.state_dict().items():
        assert torch.equal(value, clf.module_.state_dict()[name])
    assert [step.loss for step in short.history_] == [step.loss for step in clf.history_]


def test_it_goes_on_after_fit_after_pickling_and_after_loading(tmp_path):
    clf = gsat.GSATClassifier(n_outer=60, **OPTIONS).fit(X, Y)
    clf.save(tmp_path / "m")
    again = gsat.load(tmp_path / "m")
    lam = clf.lam_
    for one in (clf, again):
        one.partial_fit(X[:100], Y[:100])
        assert one.n_iter_ == 62
        assert one.history_[0 if one is again else 60].lam == lam  # λ of the first new step
    for name, value in clf.module_.state_dict().items():
        assert torch.equal(value, again.module_.state_dict()[name])
    copied = pickle.loads(pickle.dumps(clf))
    copied.partial_fit(X[100:200], Y[100:200])
    clf.partial_fit(X[100:200], Y[100:200])
    assert np.array_equal(copied.predict_proba(X), clf.predict_proba(X))


def test_weights_and_batches():
    weights = (Y != 1).astype(float)
    clf = gsat.GSATClassifier("universal", **OPTIONS).partial_fit(X, Y, [0, 1, 2], weights, batch=np.arange(400) % 4)
    assert clf.n_samples_ == (Y != 1).sum()
    assert len(clf.history_) == -(-int((Y != 1).sum()) // 50)


def test_a_regressor_goes_on_too():
    numbers = 100 + 10 * X[:, 0]
    model = gsat.GSATRegressor(**OPTIONS)
    for rows in parts(20):
        model.partial_fit(X[rows], numbers[rows])
    assert model.score(X, numbers) > 0.8


def test_a_first_call_that_failed_may_be_repeated():
    hurt = X.copy()
    hurt[0, 0] = np.nan
    for bad in ((hurt, Y, [0, 1, 2]), (X, Y, [0, 1]), (X[:1], Y[:1], [0, 1, 2])):
        clf = gsat.GSATClassifier(**OPTIONS)
        with pytest.raises(ValueError, match=r"NaN|y must hold only labels|minimum of 2 is required"):
            clf.partial_fit(*bad)
        with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
            clf.partial_fit(X, Y)
        again = clf.partial_fit(X, Y, [0, 1, 2])
        assert np.array_equal(again.predict(X), gsat.GSATClassifier(**OPTIONS).partial_fit(X, Y, [0, 1, 2]).predict(X))


@pytest.mark.parametrize("structure", ["low-rank", "universal", "group-sparse"])
def test_later_calls_may_have_one_row(structure):
    clf = gsat.GSATClassifier(structure, **OPTIONS).partial_fit(X, Y, [0, 1, 2])
    assert clf.partial_fit(X[:1], Y[:1]).n_iter_ == 9
    model = gsat.GSATRegressor(structure, **OPTIONS).partial_fit(X, X[:, 0])
    assert model.partial_fit(X[:1], X[:1, 0]).n_iter_ == 9


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        gsat.ERMClassifier().partial_fit(X, Y)
    clf = gsat.ERMClassifier(**{k: v for k, v in OPTIONS.items() if k != "n_inner"}).partial_fit(X, Y, [0, 1, 2])
    with pytest.raises(ValueError, match="y must hold only labels of fit"):
        clf.partial_fit(X, Y + 1)
    with pytest.raises(ValueError, match="is not the same as on last call to partial_fit"):
        clf.partial_fit(X, Y, [0, 1])
    with pytest.raises(ValueError, match='class_weight must be None or a dict for partial_fit, got "balanced"'):
        gsat.ERMClassifier(class_weight="balanced").partial_fit(X, Y, [0, 1, 2])
