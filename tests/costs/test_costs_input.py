"""What a cost refuses, and what it is as an object."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch

import gsat
from strategies import CONVEX, PER_BATCH, Case


@pytest.mark.parametrize("make", [gsat.Universal, gsat.GroupSparse, gsat.LowRank])
@pytest.mark.parametrize(
    ("alpha", "error", "message"),
    [
        (-0.1, ValueError, r"alpha must be >= 0 and <= 1.*, got -0\.1"),
        (1.5, ValueError, r"alpha must be >= 0 and <= 1.*, got 1\.5"),
        (float("nan"), ValueError, "alpha must be >= 0 and <= 1.*, got nan"),
        ("0.5", TypeError, "alpha must be a number, got '0.5'"),
        (True, TypeError, "alpha must be a number, got True"),
    ],
)
def test_alpha_is_checked(make, alpha, error, message):
    with pytest.raises(error, match=message):
        make(alpha)


@pytest.mark.parametrize("method", ["prox", "shrink"])
@pytest.mark.parametrize("name", CONVEX)
def test_thresholds_and_groups_are_checked(name, method):
    cost = Case(name, 5, 8, 0.3).cost
    for tau, error, message in [
        (-0.5, ValueError, r"tau must be >= 0.*, got -0\.5"),
        (float("nan"), ValueError, "tau must be .*got nan"),
        ("1", TypeError, "tau must be a number, got '1'"),
    ]:
        with pytest.raises(error, match=message):
            getattr(cost, method)(torch.ones(5, 8), tau)
    for v, error, message in [
        (torch.ones(5, 8, dtype=torch.int64), TypeError, "must have a floating-point dtype, got torch.int64"),
        (np.ones((5, 8)), TypeError, "must be a torch tensor, got ndarray"),
        (torch.Tensor, TypeError, "must be a torch tensor, got _TensorMeta"),
        (torch.ones(0, 8), ValueError, r"at least one sample and one feature, got shape \(0, 8\)"),
        (torch.ones(5, 0), ValueError, r"at least one sample and one feature, got shape \(5, 0\)"),
        (torch.tensor(1.0), ValueError, r"must have shape \(samples, \*features\), got a scalar"),
    ]:
        if name.startswith(PER_BATCH) and method == "prox":
            continue  # a batch of the group is checked by the cost inside
        with pytest.raises(error, match=message):
            getattr(cost, method)(v, 0.1)


@pytest.mark.parametrize("make", [gsat.GroupSparse, gsat.LowRank])
def test_k_is_checked(make):
    for k, error, message in [
        (-1, ValueError, "k must be >= 0, got -1"),
        (2.0, TypeError, r"k must be a whole number, got 2\.0"),
        (True, TypeError, "k must be a whole number, got True"),
    ]:
        with pytest.raises(error, match=message):
            make(k=k)
    assert make(k=np.int64(3)) == make(k=3)


def test_feature_groups_are_checked():
    with pytest.raises(ValueError, match=r"feature_groups must have one entry per feature \(8\), got 3"):
        gsat.GroupSparse(feature_groups=[0, 1, 0]).prox(torch.ones(5, 8), 0.1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: gsat.Universal(0.2), "Universal(alpha=0.2)"),
        (lambda: gsat.GroupSparse(0.2, k=3), "GroupSparse(alpha=0.2, k=3, feature_groups=None)"),
        (lambda: gsat.GroupSparse(1, feature_groups=[7, 7]), "GroupSparse(alpha=1.0, k=None, feature_groups=(7, 7))"),
        (lambda: gsat.LowRank(0.2, k=3), "LowRank(alpha=0.2, k=3)"),
        (gsat.Unstructured, "Unstructured()"),
        (lambda: gsat.PerBatch(gsat.LowRank(), 3), "PerBatch(cost=LowRank(alpha=0.5, k=None), n_random=3)"),
    ],
)
def test_costs_are_values(make, text):
    cost = make()
    assert repr(cost) == text
    for same in (make(), pickle.loads(pickle.dumps(cost)), copy.deepcopy(cost)):
        assert same == cost
        assert hash(same) == hash(cost)
    assert cost != gsat.Universal(0.9)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field"):
        cost.alpha = 0.3
