import numpy as np
import pytest
from scipy import stats

from gsat.experiments.paired import holm, in_words, summed_up, with_verdicts, with_wins


def test_the_interval_is_that_of_students_t():
    gaps = np.array([1.0, 2.0, 4.0])
    found = summed_up(gaps)
    low, high = stats.t.interval(0.95, 2, gaps.mean(), stats.sem(gaps))
    assert (found["low"], found["high"]) == (pytest.approx(low), pytest.approx(high))
    assert found["p"] == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue)


def test_three_seeds_without_a_difference_seldom_win():
    gaps = np.random.default_rng(0).normal(size=(2000, 3))
    wins = np.mean([with_wins([summed_up(row)])["beats"][0] for row in gaps])
    assert 0.01 < wins < 0.04  # half of 5 %; two standard errors would be 9 %


def test_one_difference_and_differences_without_spread_are_no_wins():
    one, same = with_wins([summed_up([5.0]), summed_up([5.0, 5.0 + 1e-14, 5.0])]).itertuples()
    assert not one.beats
    assert not same.beats
    assert np.isnan(one.low)
    assert in_words(one) == "+5.0"
    assert in_words(one._replace(difference=-0.04, low=-1.0, high=0.04)) == "+0.0 [-1.0, +0.0]"


def test_wins_are_corrected_for_the_size_of_the_table():
    gaps = [0.9, 1.0, 1.4, 0.6]  # p = 0.012
    assert with_wins([summed_up(gaps)])["beats"].all()
    assert not with_wins([summed_up(gaps), *[summed_up([1.0, -1.0, 0.5])] * 9])["beats"].any()


def test_holm():
    assert holm(np.array([0.04, 0.01, np.nan, 0.03])) == pytest.approx([0.06, 0.03, np.nan, 0.06], nan_ok=True)


def test_verdicts_are_corrected_for_the_size_of_the_table():
    gaps = np.array([0.9, 1.0, 1.4, 0.6])
    rows = [summed_up(gaps), summed_up(-gaps), summed_up([1.0, -1.0, 0.5]), summed_up([5.0])]
    assert with_verdicts(with_wins(rows))["verdict"].tolist() == ["better", "worse", "level", ""]
    many = with_verdicts(with_wins([*rows, *[rows[2]] * 9]))
    assert many["verdict"].tolist() == ["level", "level", "level", "", *["level"] * 9]


def test_a_table_without_rows():
    assert with_wins([]).empty
    assert with_verdicts(with_wins([])).empty
