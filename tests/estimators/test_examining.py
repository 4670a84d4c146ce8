"""What `gsat train` warns of once the test samples are judged."""

import numpy as np
import pytest

from gsat.estimators.examining import behind, never_recognised
from gsat.estimators.judged import judged


@pytest.mark.parametrize(
    ("ahead", "only", "said"),
    [(0, 6, True), (0, 5, False), (3, 12, True), (6, 0, False), (0, 0, False)],  # p = 0.031, 0.063, 0.035
)
def test_where_logistic_regression_is_better_that_is_said(ahead, only, said):
    ours = np.array([True] * 8 + [True] * ahead + [False] * only)
    theirs = np.array([True] * 8 + [False] * ahead + [True] * only)
    found = behind(ours, theirs)
    assert len(found) == said
    if said:
        assert f"it alone is right on {only} of them, this model alone on {ahead}; `gsat check` tells" in found[0]


def test_a_class_that_is_never_recognised_is_told():
    truth, classes = np.array(list("aaabbcc")), np.array(list("abcd"))
    said = "the model recognises no sample of "
    for predicted, end in (
        ("aaabbaa", ["class c (0 of 2) among the test samples"]),
        ("bbbaacc", ["classes a (0 of 3), b (0 of 2) among the test samples"]),
        ("abbbacc", []),  # of class d there is no sample
    ):
        found = never_recognised(judged(truth, np.array(list(predicted)), classes, None)["per_class"], "test")
        assert found == [said + words for words in end]
    many = np.array([f"c{i:02}" for i in range(13)])
    found = never_recognised(judged(many, np.roll(many, 1), many, None)["per_class"], "training")
    assert found[0].endswith("c09 (0 of 1) and 3 more among the training samples")
