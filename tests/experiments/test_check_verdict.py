"""The verdict of check: what a table of scores says, and what it does not say."""

import numpy as np
import pandas as pd
import pytest

from gsat.experiments.check_commands import advised, in_python, options, usual_choice
from gsat.experiments.check_methods import METHODS, QUICK, TITLES, USUAL
from gsat.experiments.check_result import CheckResult
from gsat.experiments.check_verdict import judge, table_of
from gsat.experiments.shift_candidates import Candidate
from gsat.experiments.shift_choice import CANDIDATE

BATCHES = [f"b{i}" for i in range(6)]
LOGISTIC = np.array([80.0, 70, 75, 90, 85, 78])
NOISE = np.array([0.3, -0.2, 0.1, -0.4, 0.2, 0.0])


def scores(n=6, **gains):
    """All methods as logistic regression with some noise of their own, but for the gains; the majority class at 50."""
    found = {}
    for place, name in enumerate(METHODS):
        key = name.replace(" (prepared)", "_prepared").replace(", ", "_").replace("-", "_")
        noise = 0 if name == "logistic" else np.roll(NOISE, place)
        found[name] = np.full(6, 50.0) if name == "majority" else LOGISTIC + noise + gains.get(key, 0)
    return pd.DataFrame(found, index=BATCHES).iloc[:n]


def test_nothing_beats_logistic_regression():
    found = judge(scores(), by_batch=True)
    assert found.method == "logistic"
    assert found.sentence.startswith(
        "Logistic regression is as good on batches never seen: use it (the best form of GSAT"
    )
    assert "about 80 % balanced accuracy" in found.outlook
    assert "70 to 90 in the 6" in found.outlook


def test_a_win_of_gsat():
    found = judge(scores(low_rank_metric=5.0), by_batch=True)
    assert found.method == "low-rank, metric"
    assert found.sentence.startswith("GSAT low-rank in the metric is +5.0 points (+4.7 to +5.3) better than logistic")
    assert "on batches never seen" in found.sentence
    assert "a network without GSAT is" in found.sentence
    assert "cannot be told from chance" not in found.sentence


def test_a_network_without_gsat_is_as_good():
    found = judge(scores(low_rank=5.0, erm=5.2), by_batch=True)
    assert found.method == "erm"
    assert "Plain network is +5.2 points" in found.sentence
    assert "GSAT adds nothing that can be told from chance: use plain network" in found.sentence


def test_a_gain_that_comes_from_the_preparation_is_not_claimed_for_gsat():
    found = judge(
        scores(low_rank_prepared=6.0, logistic_prepared=6.2), by_batch=True, sees_batch=["logistic (prepared)"]
    )
    assert found.method == "logistic (prepared)"
    assert "GSAT adds nothing that can be told from chance" in found.sentence
    assert "all samples of the new batch at once" in found.outlook


def test_a_mean_that_varies_too_much_is_no_win():
    wild = np.array([40.0, -20, 30, -25, 20, 10])
    found = judge(scores(low_rank=wild), by_batch=True)
    assert found.method == "logistic"
    assert "Nothing is shown to be better" in found.sentence
    assert "the interval is wide" in found.sentence


def test_a_difference_without_spread_is_no_win():
    table = scores()
    table["universal"] = table["logistic"] + 7
    row = table_of(table).set_index("method").loc["universal"]
    assert row["difference"] == pytest.approx(7)
    assert row["p"] == 1
    assert not row["beats"]
    assert judge(table, by_batch=True).method == "logistic"


def test_one_win_of_many_looks_is_corrected():
    """p just below 5 % of one method in 21 is what chance does."""
    table = scores()
    table["low-rank"] = table["logistic"] + np.array([4.0, 5, -1, 3, 4, -1])
    row = table_of(table).set_index("method").loc["low-rank"]
    assert 0.01 < row["p"] < 0.1
    assert not row["beats"]


def test_few_batches_say_so():
    for n, start in ((2, "Nothing is shown to be better"), (3, "Logistic regression is as good")):
        found = judge(scores(n), by_batch=True)
        assert found.method == "logistic"
        assert found.sentence.startswith(start)
        assert f"{n} batches are few" in found.sentence


def test_one_batch_shows_nothing():
    found = judge(scores(1, low_rank=9.0), by_batch=True)
    assert found.method == "logistic"
    assert "A single batch could be left out" in found.sentence
    assert not table_of(scores(1))["beats"].any()


def test_random_folds_say_nothing_of_a_next_batch():
    for table in (scores(), scores(low_rank=5.0)):
        found = judge(table, by_batch=False)
        assert "nothing is known about a next batch" in found.sentence
        assert "left-out samples of the same batch" in found.sentence
        assert found.outlook.startswith("On new samples of the same batch expect about ")


def test_no_skill():
    table = scores() - LOGISTIC[:, None] + 51
    table["majority"] = 50.0
    found = judge(table, by_batch=True)
    assert found.method is None
    assert found.sentence.startswith("Nothing predicts the label on batches never seen")


def test_logistic_regression_can_be_better():
    table = scores()
    for name in METHODS:
        if name not in ("logistic", "majority"):
            table[name] -= 4
    assert judge(table, by_batch=True).sentence.startswith("Logistic regression is better on batches never seen")


# what is advised


def choice(method, *candidates):
    rows = [{"tested": str(i), "method": method, **one.__dict__, "inner": 0.5} for i, one in enumerate(candidates)]
    return pd.DataFrame(rows)


def test_the_most_frequent_choice_is_trained():
    one, other = Candidate("low-rank", 0.02, hidden=100), Candidate("low-rank", 0.15, hidden=100)
    assert usual_choice(choice("low-rank", one, other, other), "low-rank") == other
    rows = pd.concat([choice("LDA", Candidate("lda", 0.2)), choice("logistic", Candidate("logistic", 1.0))])
    assert advised(rows, "LDA") == Candidate("lda", 0.2)
    assert advised(rows, "GSAT all") is None


@pytest.mark.parametrize(
    ("one", "wanted", "python"),
    [
        (Candidate("logistic", 0.03), "--defence linear --c 0.03 --metric none", "LinearClassifier(0.03, metric=None"),
        (Candidate("lda", 0.3), "--defence lda --shrinkage 0.3 --class-weight", "LDAClassifier(0.3, class_weight="),
        (Candidate("erm", 2.0, prepare="centre"), "--prepare centre --n-outer 120", "ERMClassifier(class_weight="),
        (Candidate("pgd", 0.1), "--defence pgd --eps 0.1", "PGDClassifier(0.1"),
        (
            Candidate("low-rank", 0.1, "auto", 10.0), "--defence low-rank --budget 0.1 --metric batches --gamma 10",
            "GSATClassifier('low-rank', budget=0.1, metric='batches', gamma=10.0",
        ),
        (Candidate("universal", 0.1), "--metric batches --gamma 0", "metric=None"),
        (None, "--choose", "GSATClassifierCV(gsat.GSATClassifier("),
    ],
)  # fmt: skip
def test_how_it_is_trained(one, wanted, python):
    assert wanted in " ".join(options(one, QUICK, learnt="batches"))
    assert python in in_python(one, QUICK, by_batch=True, learnt="batches")


def test_methods_have_as_many_strengths_each():
    for setting in (USUAL, QUICK):
        sizes = {len(getattr(setting, name)) for name in ("budgets", "metric_budgets", "lengths", "cs", "shrinkages")}
        assert len(sizes) == 1
    assert 1.0 in USUAL.lengths
    assert 1.0 in QUICK.lengths


def test_the_result_shows_itself():
    table = scores(low_rank_metric=5.0)
    rows = [
        {
            "tested": batch, "method": name, **dict.fromkeys(CANDIDATE, 0), "inner": 0.5, "candidates": 3,
            "sees_batch": name.endswith("(prepared)"), "balanced_accuracy": table.at[batch, name] / 100,
            "missed": "B" if (batch, name) == ("b1", "low-rank, metric") else "",
        }
        for batch in table.index
        for name in table
    ]  # fmt: skip
    found = CheckResult.of(pd.DataFrame(rows), pd.DataFrame({"a": [1]}), ["<b>few</b>"], by_batch=True)
    assert list(found.table.index) == list(TITLES.values())
    assert found.table.at["GSAT low-rank in the metric", "beats"]
    assert found.method == "GSAT low-rank in the metric"
    assert "+5.0 [+4.7, +5.3] *" in str(found)
    assert "6 of 6" in str(found)
    assert found.notes[1:] == (
        "GSAT low-rank in the metric recognises no sample of class B where batch b1 is left out.",
    )
    assert len(repr(found)) < 400
    html = found._repr_html_()
    assert "&lt;b&gt;few" in html
    assert "<table" in html
    axes = found.plot()
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list(TITLES.values())[1:]
    assert found.to_dict()["table"][0]["difference"] is None
