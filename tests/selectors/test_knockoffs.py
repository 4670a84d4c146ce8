"""Knockoffs have the moments of the features they stand for, and the threshold that they calibrate is the filter's."""

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf_shrinkage

import gsat
from gsat.selectors.knockoffs import knockoffs, ledoit_wolf, threshold

QUICK = {"n_outer": 30, "hidden": 20, "n_groups": 5, "group_size": 200, "random_state": 0}


def correlated(n, d, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.eye(d) + 0.5 * np.eye(d, k=1)
    X = rng.normal(size=(n, d)) @ mixing
    return (X - X.mean(0)) / X.std(0)


@pytest.mark.parametrize("shape", [(50, 8), (20, 60)])
def test_the_shrinkage_is_that_of_scikit_learn(shape):
    X = correlated(*shape)
    found, mean = ledoit_wolf(X)
    assert found == pytest.approx(ledoit_wolf_shrinkage(X, assume_centered=True), rel=1e-9)
    assert mean == pytest.approx(1)


def test_the_moments_of_second_order():
    """cov(X̃) = Σ, and cov(X, X̃) = Σ − γI."""
    X = correlated(40_000, 6)
    copies = knockoffs(X, np.arange(6), np.random.default_rng(1))
    S = X.T @ X / len(X)
    np.testing.assert_allclose(copies.T @ copies / len(X), S, atol=0.03)
    across = X.T @ copies / len(X)
    gap = np.diag(S - across)
    np.testing.assert_allclose(across + np.diag(gap), S, atol=0.03)
    assert gap.max() - gap.min() < 0.03
    assert gap.mean() == pytest.approx(min(1, 2 * np.linalg.eigvalsh(S)[0]), abs=0.03)


def test_blocks_move_as_one():
    """Across blocks all covariances are kept; inside one the knockoffs differ from their features."""
    rng = np.random.default_rng(2)
    calls = rng.integers(0, 3, size=(20_000, 4))
    calls[:, 1] = np.where(rng.random(20_000) < 0.7, calls[:, 0], calls[:, 1])
    X = (calls[:, :, None] == np.arange(3)).reshape(len(calls), 12).astype(float)
    X = (X - X.mean(0)) / X.std(0)
    blocks = np.repeat(np.arange(4), 3)
    order = rng.permutation(12)
    copies = knockoffs(X[:, order], blocks[order], np.random.default_rng(3))
    S, across = X[:, order].T @ X[:, order] / len(X), X[:, order].T @ copies / len(X)
    same = blocks[order][:, None] == blocks[order]
    np.testing.assert_allclose(copies.T @ copies / len(X), S, atol=0.04)
    np.testing.assert_allclose(across[~same], S[~same], atol=0.04)
    assert np.abs(across[same] - S[same]).max() > 0.1


def test_more_features_than_samples():
    X = correlated(40, 300)
    copies = knockoffs(X, np.arange(300), np.random.default_rng(4))
    assert copies.shape == X.shape
    assert np.isfinite(copies).all()
    own = np.mean([np.corrcoef(X[:, j], copies[:, j])[0, 1] for j in range(300)])
    assert own < 0.95
    assert copies.std(0).mean() == pytest.approx(1, abs=0.15)
    still = X.copy()
    still[:, 7] = 0
    assert not knockoffs(still, np.arange(300), np.random.default_rng(4))[:, 7].any()


@pytest.mark.parametrize(
    ("statistic", "fdr", "expected"),
    [
        ([5, 4, 3, -1, 2], 0.5, 1),  # (1 + 1)/4
        ([5, 4, 3, -3.5, 2], 0.5, 2),  # (1 + 1)/4
        ([5, 4, 3, -6, 2], 0.4, np.inf),
        ([0, 0, 0], 0.5, np.inf),
        ([3, 2], 0.5, 2),
    ],
)
def test_the_filter_by_hand(statistic, fdr, expected):
    assert threshold(np.array(statistic, float), fdr) == expected


@pytest.fixture(scope="module")
def planted():
    """Twelve of sixty features matter."""
    X = correlated(500, 60, seed=5)
    y = (X[:, ::5].sum(1) + np.random.default_rng(6).normal(size=500) > 0).astype(int)
    return X, y


def test_most_of_what_is_chosen_is_true(planted):
    X, y = planted
    selector = gsat.GroupSparseSelector(k=12, fdr=0.2, curved=False, **QUICK).fit(X, y)
    chosen = selector.get_support(indices=True)
    assert len(chosen) == selector.k_ >= 8
    assert np.mean(chosen % 5 == 0) >= 0.7
    assert (selector.statistic_[chosen] >= selector.threshold_).all()
    assert np.sum(selector.statistic_ >= selector.threshold_) == len(chosen)
    assert selector.transform(X).shape == (500, len(chosen))


def test_without_an_effect_nothing_or_little_is_chosen(planted):
    X, _ = planted
    y = np.arange(500) % 2
    counts = [
        gsat.GroupSparseSelector(k=12, fdr=0.1, curved=False, **{**QUICK, "random_state": seed}).fit(X, y).k_
        for seed in range(6)
    ]
    assert sum(count == 0 for count in counts) >= 4


def test_a_wrong_rate(planted):
    with pytest.raises(ValueError, match=r"fdr must be > 0 and < 1, got 1"):
        gsat.GroupSparseSelector(fdr=1).fit(*planted)


def test_a_rate_does_not_speak_of_k(recwarn):
    """k, here more than there are, is only what the rounds are meant for: nothing is said of taking all."""
    X = correlated(60, 12)
    gsat.GroupSparseSelector(fdr=0.1, **{**QUICK, "n_outer": 2}).fit(X, X[:, 0] > 0)
    assert [str(each.message) for each in recwarn if "k = " in str(each.message)] == []
