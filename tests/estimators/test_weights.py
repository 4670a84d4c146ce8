"""Sample weights are repetitions of rows, in fit and in partial_fit; batch is given by name alone."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

import gsat
from gsat._arrays.norms import mean_norm
from gsat._arrays.standardise import mean_and_scale
from gsat.estimators.weighted import Positions, View, sorted_by_content

QUICK = {"n_outer": 40, "eta0": 1e-2, "hidden": 10, "random_state": 0}
X, Y = make_classification(120, 8, n_informative=4, random_state=3)


def test_a_row_has_as_many_positions_as_its_weight():
    positions = Positions(np.array([7, 3, 5, 9]), np.array([2.0, 0.0, 1.0, 3.0]))
    assert positions[:].tolist() == [7, 7, 5, 9, 9, 9]
    assert positions[np.array([5, 0, 2])].tolist() == [9, 7, 5]
    assert (len(positions), positions.size) == (6, 6)
    assert Positions(np.array([4, 2]))[:].tolist() == [4, 2]
    view = View(np.arange(20).reshape(10, 2), positions)
    assert view.shape == (6, 2)
    assert view[np.array([2, 3])].tolist() == [[10, 11], [18, 19]]


def test_weights_that_are_no_counts_are_shares_of_many_positions():
    weights = np.array([0.1, 0.0, 0.4, 0.25])
    positions = Positions(np.arange(4), weights)
    assert positions.size == 3
    drawn = positions[np.random.default_rng(0).integers(len(positions), size=40_000)]
    shares = np.bincount(drawn, minlength=4) / 40_000
    assert shares == pytest.approx(weights / weights.sum(), abs=0.02)  # eight standard errors
    assert shares[1] == 0


def test_the_order_by_content_forgets_where_rows_stood():
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(9, 3)), rng.integers(2, size=9)
    rows[4], labels[4] = rows[1], labels[1]
    shuffled = rng.permutation(9)
    first = sorted_by_content(rows, labels.tolist())
    other = shuffled[sorted_by_content(sparse.csr_array(rows[shuffled]), labels[shuffled].tolist())]
    assert np.array_equal(rows[first], rows[other])
    assert np.array_equal(labels[first], labels[other])
    assert abs(first.tolist().index(4) - first.tolist().index(1)) == 1
    assert not np.array_equal(first, np.arange(9))


def test_weighted_moments_are_those_of_repeated_rows():
    weights = np.array([0.0, 3.0, 1.0, 2.0])
    rows = np.array([[1e6, 5.0], [1.0, 2.0], [4.0, 2.0], [-2.0, 2.0]])
    repeated = rows.repeat(weights.astype(int), 0)
    mean, scale = mean_and_scale(rows, weights)
    assert mean == pytest.approx(repeated.mean(0), rel=1e-6)
    assert scale == pytest.approx([repeated[:, 0].std(), 1.0], rel=1e-6)
    assert mean_norm(rows, weights) == pytest.approx(np.linalg.norm(repeated, axis=1).mean(), rel=1e-12)


@pytest.mark.parametrize("batch", [None, np.arange(120) % 3])
def test_whole_weights_are_repetitions(batch):
    weights = np.arange(120) % 3
    order = np.random.default_rng(0).permutation(120)
    options = {"group_size": 150, "n_inner": 3, **QUICK}
    weighted = gsat.GSATClassifier("universal", **options).fit(
        X[order], Y[order], weights[order], batch=None if batch is None else batch[order]
    )
    repeated = gsat.GSATClassifier("universal", **options).fit(
        X.repeat(weights, 0), Y.repeat(weights), batch=None if batch is None else batch.repeat(weights)
    )
    assert weighted.predict_proba(X) == pytest.approx(repeated.predict_proba(X), rel=1e-6)
    assert weighted.n_samples_ == repeated.n_samples_ == 120
    assert weighted.lam_ == pytest.approx(repeated.lam_, rel=1e-6)


def test_weights_count_where_groups_are_small():
    """Half of the labels are wrong; with hardly any weight they do no harm."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 5))
    truth = (rows[:, 0] > 0).astype(int)
    wrong = np.arange(600) % 2 == 0
    labels = np.where(wrong, 1 - truth, truth)
    options = {**QUICK, "n_outer": 100, "n_inner": 2, "group_size": 50}
    weighted = gsat.GSATClassifier(**options).fit(rows, labels, np.where(wrong, 0.01, 0.9))
    assert weighted.score(rows, truth) > 0.95
    assert gsat.GSATClassifier(**options).fit(rows, labels).score(rows, truth) < 0.9
    assert weighted.score(rows, labels, sample_weight=np.where(wrong, 0.01, 0.9)) > 0.9


def test_a_regressor_is_weighted_too():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 3))
    numbers = 40 + 5 * rows[:, 0]
    numbers[::2] = 1e4
    weights = np.arange(100) % 2
    found = gsat.GSATRegressor(n_inner=3, **{**QUICK, "n_outer": 150}).fit(rows, numbers, weights)
    assert found.y_mean_ == pytest.approx(numbers[1::2].mean())
    assert found.score(rows[1::2], numbers[1::2]) > 0.8


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(120), r"(?i)weight.*zero"),  # scikit-learn's words, or ours where it is an old one
        (np.where(Y == 0, 1.0, 0.0), "y must hold at least two classes, got one class"),
        (np.full(120, -1.0), "Negative values in data passed to `sample_weight`"),
        (np.full(120, np.nan), "sample_weight contains NaN"),
        (np.ones(3), r"sample_weight\.shape == \(3,\)"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        gsat.ERMClassifier(**QUICK).fit(X, Y, weights)


def test_batch_is_given_by_name_and_has_an_id_for_each_sample():
    clf = gsat.GSATClassifier(n_inner=2, **{**QUICK, "n_outer": 3})
    for call in (
        lambda: clf.fit(X, Y, None, np.zeros(120)),
        lambda: clf.partial_fit(X, Y, [0, 1], None, np.zeros(120)),
        lambda: clf.fit(X, Y).perturb(X, Y, np.zeros(120)),
        lambda: gsat.GSATRegressor(**QUICK).fit(X, Y, None, np.zeros(120)),
    ):
        with pytest.raises(TypeError, match="positional arguments"):
            call()
    with pytest.raises(ValueError, match=r"batch must have one id per sample of X \(120\), got 7"):
        clf.fit(X, Y, batch=np.zeros(7))


def test_balanced_classes_take_the_weights_into_account():
    weights = np.where(Y == 1, 4.0, 1.0)
    clf = gsat.ERMClassifier(class_weight="balanced", **{**QUICK, "n_outer": 2}).fit(X, Y, weights)
    totals = np.array([weights[label == Y].sum() for label in (0, 1)])
    assert clf._loss.weights.tolist() == pytest.approx((totals.sum() / 2 / totals).tolist(), rel=1e-5)
