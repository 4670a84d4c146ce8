"""The features that a model decides by: exact for linear models, found again where they are known."""

from dataclasses import replace

import numpy as np
import pytest

from gsat.data import Table
from gsat.estimators.from_table import Plan, samples, train
from gsat.estimators.relevance import block_name, relevance


def table(seed=0, n=300, d=60, k=6):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, d))
    known = np.sort(rng.choice(d, k, replace=False))
    X[:, known] += 1.5 * rng.normal(size=(3, k))[y]
    names = tuple(f"gene {j}" for j in range(d))
    return Table(X * rng.lognormal(0, 1, d), y, feature_names=names), {names[j] for j in known}


@pytest.mark.parametrize("defence", ["linear", "erm", "low-rank"])
def test_known_features_come_first_and_stay(defence):
    own, known = table()
    plan = Plan("linear", size=0.1, standardize=True)
    if defence != "linear":
        plan = Plan(defence, n_outer=60, n_inner=2, group_size=100, eta0=3e-3, standardize=True)
    found = relevance(train(own, plan), own)
    assert len(found) == 30
    assert len(known & set(found["feature"][:8])) >= 5
    assert found["score"].is_monotonic_decreasing
    assert found["stability"].between(0, 1).all()
    first, last = found["stability"][:4].mean(), found["stability"][-4:].mean()
    assert first > 0.95
    assert first >= last


def test_the_parts_of_a_linear_model_add_up_to_its_lead():
    own, _ = table(d=10, k=3)
    fitted = train(own, Plan("linear", size=1.0, standardize=True))
    layer, z = fitted.module[-1], fitted.classifier.module_input(samples(own)).astype(np.float64)
    weight, bias = (value.detach().numpy().astype(np.float64) for value in (layer.weight, layer.bias))
    outputs = z @ weight.T + bias
    rows = np.arange(len(z))
    rival = np.where(np.eye(3, dtype=bool)[own.y], -np.inf, outputs).argmax(1)
    parts = (z * (weight[own.y] - weight[rival])).mean(0)
    lead = (outputs[rows, own.y] - outputs[rows, rival] - bias[own.y] + bias[rival]).mean()
    assert parts.sum() == pytest.approx(lead)
    found = relevance(fitted, own)
    expected = np.sort(parts / np.abs(parts).sum())[::-1][:5]
    np.testing.assert_allclose(found["score"], expected, rtol=1e-4, atol=1e-6)


def test_blocks_are_added_up_and_named():
    own, _ = table(d=12)
    names = tuple(f"rs{j // 3}={j % 3}" for j in range(12))
    own = replace(own, feature_names=names, feature_groups=tuple(j // 3 for j in range(12)))
    found = relevance(train(own, Plan("linear", standardize=True)), own)
    assert len(found) == 2
    assert set(found["feature"]) <= {"rs0", "rs1", "rs2", "rs3"}
    alone = relevance(train(own, Plan("linear", standardize=True)), replace(own, feature_groups=None))
    assert found["score"][0] > alone["score"][0]
    assert block_name(["a", "b", "c"], [0, 1, 1], 1) == "b and 1 more"


def test_pixels_are_not_ranked():
    own, _ = table(d=16)
    images = replace(own, X=own.X.reshape(-1, 4, 4), feature_names=None)
    assert relevance(train(own, Plan("linear")), images) is None


def test_the_same_run_gives_the_same_table():
    own, _ = table()
    fitted = train(own, Plan("erm", n_outer=5, group_size=50))
    assert relevance(fitted, own).equals(relevance(fitted, own))
