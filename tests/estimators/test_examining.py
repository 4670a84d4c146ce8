"""What `gsat train` warns of once the test samples are judged."""

import numpy as np
import pytest

from gsat.estimators.examining import behind


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
