"""The benchmark of false discoveries: its problems, its two rates, and that both methods find what is plain."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def fdr(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield importlib.import_module("fdr")
    sys.modules.pop("fdr")


def test_rates(fdr):
    chosen = np.array([True, True, True, False])
    relevant = np.array([True, False, True, True])
    assert fdr.rates(chosen, relevant) == pytest.approx((1 / 3, 2 / 3))
    assert fdr.rates(np.zeros(4, bool), relevant) == (0, 0)


@pytest.mark.parametrize(("law", "correlation"), [("independent", 0.0), ("one factor", 0.2), ("chains", 0.5)])
def test_neighbours_have_the_correlation_of_the_law(fdr, law, correlation):
    p = fdr.problem(law, "linear", 3)
    own = np.corrcoef(p.X.T)
    assert np.mean(np.diag(own, 1)) == pytest.approx(correlation, abs=0.02)
    assert p.relevant.sum() == fdr.RELEVANT
    assert p.y.mean() == 0.5


@pytest.mark.parametrize("name", ["GroupSparseSelector", "LASSO, knockoffs"])
def test_plain_effects_are_found_with_few_false_ones(fdr, name):
    p = fdr.problem("independent", "linear", 4)
    false, found = fdr.rates(fdr.METHODS[name](p, 0.2, 1004), p.relevant)
    assert found > 0.8
    assert false < 0.5  # 0.2 in the mean over many draws
