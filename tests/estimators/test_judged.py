"""Accuracies with intervals, against other implementations and by simulation."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, precision_score, recall_score

from gsat.estimators.judged import calibration, judged, mean_of, wilson

CLASSES = np.array(["a", "b", "c"])


@pytest.mark.parametrize(("right", "n"), [(0, 7), (7, 7), (3, 8), (45, 50), (1, 1)])
def test_wilson_is_that_of_scipy(right, n):
    limits = binomtest(right, n).proportion_ci(0.95, method="wilson")
    found = wilson(right, n)
    assert (found["value"], found["low"], found["high"]) == pytest.approx((right / n, *limits), abs=1e-12)
    assert found["low"] <= found["value"] <= found["high"]
    assert wilson(0, 0) is None


def test_judgements_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    truth, predicted, batch = (
        CLASSES[rng.integers(3, size=80)],
        CLASSES[rng.integers(3, size=80)],
        rng.integers(3, size=80),
    )
    truth[:30] = "a"
    found = judged(truth, predicted, CLASSES, batch)
    assert found["n"] == 80
    assert found["accuracy"]["value"] == pytest.approx(np.mean(truth == predicted))
    assert found["balanced_accuracy"]["value"] == pytest.approx(balanced_accuracy_score(truth, predicted))
    assert found["confusion"] == confusion_matrix(truth, predicted, labels=CLASSES).tolist()
    for name, score in (("recall", recall_score), ("precision", precision_score)):
        values = [each[name]["value"] for each in found["per_class"]]
        assert values == pytest.approx(score(truth, predicted, labels=CLASSES, average=None))
    for each in found["per_batch"]:
        rows = batch == int(each["batch"])
        assert each["n"] == rows.sum()
        assert each["accuracy"]["value"] == pytest.approx(np.mean(truth[rows] == predicted[rows]))
        assert each["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth[rows], predicted[rows]))


def test_what_is_not_there_is_none():
    found = judged(np.array(["a", "a", "c"]), np.array(["a", "c", "c"]), CLASSES, np.array([1, 1, 2]))
    by_name = {each["class"]: each for each in found["per_class"]}
    assert (by_name["b"]["n"], by_name["b"]["recall"], by_name["b"]["precision"]) == (0, None, None)
    assert found["balanced_accuracy"]["value"] == 0.75  # of the classes that are there
    assert [each["balanced_accuracy"] for each in found["per_batch"]] == [None, None]
    assert judged(CLASSES[:0], CLASSES[:0], CLASSES, None) is None


def test_one_class_alone_has_no_balanced_accuracy():
    """A model that names this class always would have 100 %."""
    found = judged(np.array(["a"] * 5), np.array(["a"] * 4 + ["b"]), CLASSES, np.array([1, 1, 1, 2, 2]))
    assert found["accuracy"]["value"] == 0.8
    assert found["balanced_accuracy"] is None


def test_the_interval_of_a_balanced_accuracy_covers():
    rng = np.random.default_rng(2)
    sizes, recalls = np.array([12, 40, 150]), np.array([0.9, 0.75, 0.97])
    draws = rng.binomial(sizes, recalls, size=(2000, 3))
    found = [mean_of([wilson(k, n) for k, n in zip(row, sizes, strict=True)]) for row in draws.tolist()]
    covers = np.mean([each["low"] <= recalls.mean() <= each["high"] for each in found])
    assert 0.92 < covers < 0.99
    perfect = mean_of([wilson(9, 9), wilson(30, 30)])
    assert perfect["value"] == perfect["high"] == 1
    assert 0.7 < perfect["low"] < 0.95


def test_calibration_by_hand():
    bins, error = calibration(np.array([0.95, 1.0, 0.55, 0.52]), np.array([True, True, True, False]))
    assert [(each["low"], each["n"], each["accuracy"]) for each in bins] == [(0.5, 2, 0.5), (0.9, 2, 1.0)]
    assert [each["probability"] for each in bins] == pytest.approx([0.535, 0.975])
    assert error == pytest.approx((2 * 0.035 + 2 * 0.025) / 4)
    assert calibration(np.empty(0), np.empty(0, bool)) == ([], None)
