"""Selection by the adversary finds what the labels depend on, and keeps scikit-learn's contract."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import gsat
from gsat.selectors.elimination import Elimination
from gsat.selectors.ranking import picture, rank

QUICK = {"n_outer": 30, "n_inner": 3, "hidden": 20, "n_groups": 3, "random_state": 0}
CHECKED = {**QUICK, "n_outer": 8, "n_inner": 2, "hidden": 6, "n_groups": 2}  # the checks fit some fifty times
SELECTORS = [gsat.GroupSparseSelector(k=1, **CHECKED), gsat.LowRankBasis(n_components=1, eta0=1e-2, **CHECKED)]
OPTIONS = {
    "n_outer": 150,
    "n_inner": 6,
    "hidden": 30,
    "n_groups": 5,
    "group_size": 100,
    "random_state": 0,
}
SHORT = {**OPTIONS, "n_outer": 50}
TRUE = [4, 17, 30]


@parametrize_with_checks(SELECTORS)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", SELECTORS, ids=lambda e: type(e).__name__)
def test_no_check_is_left_out(estimator):
    assert len(list(estimator_checks_generator(estimator))) >= 45


@pytest.fixture(scope="module")
def data():
    """Labels that depend on three of forty features, one of them through its square; scales differ by 1e4."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 40))
    y = X[:, 4] + X[:, 17] + 1.5 * (X[:, 30] ** 2 - 1) > 0
    return X * np.geomspace(0.01, 100, 40) + 3, np.where(y, "case", "control")


def test_the_true_features_come_first(data):
    X, y = data
    selector = gsat.GroupSparseSelector(k=3, **OPTIONS).fit(X, y)
    assert selector.get_support(indices=True).tolist() == TRUE
    assert sorted(selector.ranking_) == list(range(1, 41))
    assert selector.scores_.sum() == pytest.approx(1)
    assert np.argsort(-selector.scores_)[:3].tolist() == sorted(TRUE, key=lambda j: selector.ranking_[j])
    assert np.array_equal(selector.transform(X), X[:, TRUE])


def test_blocks_are_ranked_as_one(data):
    X, y = data
    blocks = [f"gene{j // 2}" for j in range(40)]
    selector = gsat.GroupSparseSelector(k=3, feature_groups=blocks, **OPTIONS).fit(X, y)
    assert selector.get_support(indices=True).tolist() == [4, 5, 16, 17, 30, 31]
    with pytest.raises(ValueError, match=r"feature_groups must have one entry per feature \(40\), got 39"):
        gsat.GroupSparseSelector(k=3, feature_groups=blocks[1:], **OPTIONS).fit(X, y)


def test_stability_over_halves(data):
    X, y = data
    selector = gsat.GroupSparseSelector(k=3, n_resamples=4, **SHORT).fit(X, y)
    assert selector.selection_frequency_[TRUE].min() >= 0.75
    assert selector.selection_frequency_.sum() == pytest.approx(3)
    low, high = selector.scores_interval_.T
    assert (low <= selector.scores_).all()
    assert (selector.scores_ <= high).all()
    again = gsat.GroupSparseSelector(k=3, n_resamples=4, **SHORT).fit(X, y)
    assert np.array_equal(again.scores_, selector.scores_)


def test_the_interval_is_students(data, monkeypatch):
    """Of resamples whose scores are given: t with two degrees of freedom is 4.303, where the normal has 1.96."""
    scores = np.random.default_rng(0).dirichlet(np.ones(40), size=3)
    given = iter(scores)
    monkeypatch.setattr(Elimination, "shares", lambda self, *rest: next(given))
    selector = gsat.GroupSparseSelector(k=3, n_resamples=3, **SHORT).fit(*data)
    low, high = selector.scores_interval_.T
    assert (low + high) / 2 == pytest.approx(scores.mean(0))
    assert (high - low) / 2 == pytest.approx(4.302653 * scores.std(0, ddof=1) / np.sqrt(3), rel=1e-5)


def test_one_resample_has_no_interval(data):
    selector = gsat.GroupSparseSelector(k=3, n_resamples=1, **SHORT).fit(*data)
    assert selector.scores_interval_.shape == (40, 2)
    assert np.isnan(selector.scores_interval_).all()
    frame = rank(gsat.data.Table(*data), selector)
    assert frame[["score_low", "score_high"]].isna().all(axis=None)
    assert picture(frame).startswith(b"\x89PNG")


def test_a_bar_counts_the_rounds(data, capsys):
    gsat.GroupSparseSelector(k=3, n_resamples=2, verbose=1, **QUICK).fit(*data)  # 40, 20, 10, 6 features, twice
    assert "8/8" in capsys.readouterr().err
    gsat.GroupSparseSelector(k=3, **QUICK).fit(*data)
    assert capsys.readouterr().err == ""


def test_the_basis_is_the_direction_that_matters():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 30))
    direction = rng.normal(size=30)
    direction /= np.linalg.norm(direction)
    y = (X @ direction > 0).astype(int)
    basis = gsat.LowRankBasis(n_components=2, eta0=1e-2, **OPTIONS).fit(X, y)
    standard = direction * basis.scale_
    assert abs(basis.components_[0] @ standard) / np.linalg.norm(standard) > 0.9
    assert basis.components_ @ basis.components_.T == pytest.approx(np.eye(2), abs=1e-5)
    assert basis.explained_effort_ratio_[0] > 0.8
    assert basis.agreement_ > 0.5
    Z = basis.transform(X)
    assert Z.shape == (500, 2)
    assert basis.transform(basis.inverse_transform(Z)) == pytest.approx(Z, abs=1e-4)


def test_too_many_are_cut_with_a_warning(data):
    X, y = data
    with pytest.warns(UserWarning, match=r"k = 99 is more than there are \(40\); all are taken"):
        assert gsat.GroupSparseSelector(k=99, **QUICK).fit(X, y).get_support().all()
    with pytest.warns(UserWarning, match=r"n_components = 50 is more than there are \(40\)"):
        assert gsat.LowRankBasis(n_components=50, **QUICK).fit(X, y).components_.shape == (40, 40)
    with pytest.raises(ValueError, match=r"k must be a whole number >= 1, got 0"):
        gsat.GroupSparseSelector(k=0, **QUICK).fit(X, y)
