"""Rankings by the adversary, the LASSO and gradients, the protocol that retrains on the selected, and its problems."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gsat.data import Table
from gsat.experiments.selection import (
    Adversary,
    Gradient,
    Lasso,
    Protocol,
    retrained_accuracy,
    select_and_retrain,
    summary,
    write,
)
from gsat.selectors.elimination import bump

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TRUE = [2, 5, 11]  # blocks, of 15 with three columns each
METHODS = {
    "adversary": Adversary(k=3, options={"n_outer": 60, "n_groups": 20, "group_size": 100, "hidden": 30}),
    "LASSO": Lasso(),
    "gradient": Gradient(),
}


@pytest.fixture(scope="module")
def table():
    """Three classes by one-hot genotypes: three of fifteen SNPs are rare in all but one class each."""
    rng = np.random.default_rng(3)
    y = rng.integers(3, size=450)
    often = np.full((450, 15), 0.3)
    for label, block in enumerate(TRUE):
        often[:, block] = np.where(y == label, 0.8, 0.1)
    calls = rng.binomial(2, often)
    X = (calls[:, :, None] == np.arange(3)).reshape(450, 45).astype(np.float32)
    return Table(X, np.array(["x", "y", "z"])[y], feature_groups=tuple(np.repeat(np.arange(15), 3).tolist()))


@pytest.mark.parametrize("name", METHODS)
def test_the_true_blocks_come_first(name, table):
    scores = METHODS[name](table.X, table.y, np.asarray(table.feature_groups), 4)
    assert scores.shape == (15,)
    assert sorted(np.argsort(-scores)[:3].tolist()) == TRUE
    again = METHODS[name](table.X, table.y, np.asarray(table.feature_groups), 4)
    np.testing.assert_array_equal(scores, again)


def test_the_path_starts_with_the_largest_correlation():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 30))
    y = (X[:, 7] - 0.7 * X[:, 19] + rng.normal(size=200) > 0).astype(int)
    scores = Lasso()(X, y, np.arange(30), 0)
    Z = (X - X.mean(0)) / X.std(0)
    order = np.argsort(-scores, kind="stable")
    assert order[0] == np.abs(Z.T @ (y - y.mean())).argmax() == 7
    assert order[1] == 19
    few = Lasso(n_path=4, span=1.3)(X, y, np.arange(30), 0)
    assert (few == 0).sum() > 20  # what never enters has no score


def test_the_score_of_a_block_is_the_norm_of_its_gradients(table):
    single = Gradient(n_outer=20)(table.X, table.y, np.arange(45), 1)
    blocks = Gradient(n_outer=20)(table.X, table.y, np.asarray(table.feature_groups), 1)
    np.testing.assert_allclose(blocks, np.sqrt(np.square(single).reshape(15, 3).sum(1)), rtol=1e-6)
    adam = Gradient(n_outer=20, descent=False, eta0=1e-2)(table.X, table.y, np.arange(45), 1)
    assert not np.allclose(adam, single)


def test_bumps_are_standard_for_a_normal_variable():
    shown = bump(torch.randn(200_000, generator=torch.Generator().manual_seed(0)))
    assert float(shown.mean()) == pytest.approx(0, abs=0.01)
    assert float(shown.std()) == pytest.approx(1, abs=0.01)
    assert float(bump(torch.tensor([1e6]))) > -2.6  # an outlier stays within reach


def test_effects_without_a_slope_are_found():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(400, 300))
    y = (X[:, 50] ** 2 + X[:, 200] ** 2 > 1.4).astype(int)
    options = {"n_outer": 40, "n_groups": 20, "hidden": 50}
    found = [
        np.argsort(-Adversary(2, {**options, "curved": curved})(X, y, np.arange(300), 0))[:2]
        for curved in (True, False)
    ]
    assert sorted(found[0].tolist()) == [50, 200]
    assert sorted(found[1].tolist()) != [50, 200]


def test_the_protocol(table, tmp_path):
    chosen = {"truth": lambda X, y, blocks, seed: np.isin(np.arange(15), TRUE).astype(float)}
    chosen["noise"] = lambda X, y, blocks, seed: -chosen["truth"](X, y, blocks, seed)
    seen = []
    protocol = Protocol({**chosen, "LASSO": METHODS["LASSO"]}, ks=(1, 3), seeds=(0, 7), n_outer=80, eta0=5e-3)
    results = select_and_retrain(table, protocol, on_result=seen.append)
    assert len(results) == len(seen) == 2 * (1 + 3 * 2 + 1)
    itself = results[results["method"] == "LASSO, its own number"]
    assert itself["k"].between(3, 15).all()
    mean = summary(results).set_index(["method", "k"])["mean"]
    assert mean["truth", 3] > 80
    assert mean["truth", 3] > mean["truth", 1] + 10
    assert mean["noise", 3] < 50
    assert mean["LASSO", 3] == mean["truth", 3]  # the same columns, the same network
    assert mean["all", 0] > 75
    half = table.split_at_random(0.25, 7)
    columns = np.flatnonzero(np.isin(table.feature_groups, TRUE))
    expected = retrained_accuracy(half.train, half.test, columns, seed=7, n_outer=80, eta0=5e-3)
    row = results[(results["seed"] == 7) & (results["method"] == "truth") & (results["k"] == 3)]
    assert row["accuracy"].item() == expected
    write(tmp_path / "out", results, {"command": "test", **protocol.describe()})
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["ks"] == [1, 3]
    assert config["methods"]["LASSO"] == {"kind": "Lasso", "n_path": 30, "span": 30.0, "standardize": True}
    assert (tmp_path / "out" / "summary.csv").read_text().splitlines()[0] == "method,k,mean,std"
    assert len((tmp_path / "out" / "results.csv").read_text().splitlines()) == 17


@pytest.mark.parametrize("name", ["friedman", "make_classification", "squares and sines"])
def test_the_problems_of_the_benchmark(name, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    problems = __import__("selection_problems")
    problem = problems.PROBLEMS[name](1000)
    assert problem.X.shape == (600, 2000)
    assert abs(problem.y.mean() - 0.5) < 0.02
    assert len(problem.relevant) == 10
    near = np.corrcoef(problem.X.T)[problem.relevant]
    others = np.sort(np.delete(near, problem.relevant, axis=1), axis=1)
    assert others[:, -5:].mean() == pytest.approx(0.79, abs=0.03)  # five decoys each
    assert others[:, -6].max() < 0.4  # or a decoy of another relevant feature
    again = problems.PROBLEMS[name](1000)
    np.testing.assert_array_equal(problem.X, again.X)
    sys.modules.pop("selection_problems")
