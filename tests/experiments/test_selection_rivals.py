"""Rankings by other methods, the paper's own by one network, and the problems of pure interaction."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from gsat.experiments.selection import Lasso, Once, by_block
from gsat.experiments.selection_rivals import MRMR, Boruta, Forest, LassoKnockoffs, _best_column, installed

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TRUE = [3, 8]
RIVALS = {
    "forest": Forest(100),
    "mRMR": MRMR(5),
    "once": Once(5, {"n_outer": 150, "hidden": 30, "group_size": 100}),
    "Boruta": Boruta(15),
    "knockoffs": LassoKnockoffs(),
}
SEED = 1  # not that of the data: knockoffs of the same stream of numbers are copies
NEEDS = {"Boruta": "boruta", "knockoffs": "hidimstat"}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 15)).astype(np.float32)
    return X, (X[:, 3] + X[:, 8] + 0.3 * rng.normal(size=400) > 0).astype(int)


@pytest.mark.parametrize("name", RIVALS)
def test_a_ranking_finds_what_is_plain(name, data):
    if name in NEEDS and find_spec(NEEDS[name]) is None:  # of the development tools; gsat itself does without
        with pytest.raises(ModuleNotFoundError, match="this ranking needs"):
            RIVALS[name](*data, np.arange(15), 0)
        return
    scores = RIVALS[name](*data, np.arange(15), SEED)
    assert scores.shape == (15,)
    assert sorted(np.argsort(-scores)[:2].tolist()) == TRUE
    pairs = RIVALS[name](*data, np.arange(15) // 2, SEED)
    assert sorted(np.argsort(-pairs)[:2].tolist()) == [1, 4]


def test_redundancy_costs_in_mrmr():
    """A copy of the best feature comes after a weaker one that says something else."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 6))
    X[:, 1] = X[:, 0] + 0.05 * rng.normal(size=2000)
    y = (X[:, 0] + 0.4 * X[:, 2] > 0).astype(int)
    scores = MRMR(3)(X, y, np.arange(6), 0)
    assert np.argsort(-scores)[1] == 2
    assert (scores[3:] < scores[:3].min()).all()
    X[:, 5] = 7  # a column that does not move
    assert np.isfinite(MRMR(3)(X, y, np.arange(6), 0)).all()


def test_the_lasso_keeps_about_what_matters(data):
    X, y = data
    kept = Lasso(standardize=False).own_number(X, y, np.arange(15), 0)
    assert 2 <= kept <= 15
    noise = np.random.default_rng(3).integers(0, 3, 400)
    assert Lasso(n_path=6, span=1.2).own_number(X, noise, np.arange(15), 0) <= 12


def test_blocks_join_by_sum_and_by_the_largest():
    values, blocks = np.array([-2.0, -1.0, 3.0, 4.0]), np.array([0, 0, 1, 1])
    assert by_block(values, blocks, np.add).tolist() == [-3, 7]
    assert by_block(values, blocks, np.maximum).tolist() == [-1, 4]
    assert _best_column(values, blocks).tolist() == [1, 3]


def test_a_missing_package_is_named():
    with pytest.raises(ModuleNotFoundError, match="this ranking needs Nothing: pip install Nothing"):
        installed("nothing_of_that_name", "Nothing")


@pytest.mark.parametrize(("name", "relevant"), [("xor", 4), ("ring", 2)])
def test_no_feature_of_an_interaction_has_a_slope(name, relevant, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    problem = __import__("selection_problems").INTERACTIONS[name](1000)
    assert problem.X.shape == (600, 50)
    assert len(problem.relevant) == relevant
    assert abs(problem.y.mean() - 0.5) < 0.06
    slopes = [abs(np.corrcoef(problem.X[:, j], problem.y)[0, 1]) for j in problem.relevant]
    assert max(slopes) < 0.12
    if name == "xor":
        first, second = _pair(problem)
        assert abs(np.corrcoef(problem.X[:, first] * problem.X[:, second], problem.y)[0, 1]) > 0.35


def _pair(problem):
    """The two relevant features whose product tells most."""
    pairs = [(a, b) for a in problem.relevant for b in problem.relevant if a < b]
    return max(pairs, key=lambda p: abs(np.corrcoef(problem.X[:, p[0]] * problem.X[:, p[1]], problem.y)[0, 1]))
