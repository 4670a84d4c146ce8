"""What group optimal transport accepts, and what it refuses."""

import numpy as np
import pytest
import torch

import gsat
from discrete import FINITE, FirstIsDear, problem
from gsat import transport


def test_images_tensors_and_other_dtypes():
    x, p, z, q = problem(2, 3, seed=10, d=4)
    value = float(transport.primal(x, p, z, q, gsat.LowRank(0.3), 2))
    tensors = [torch.from_numpy(a).requires_grad_() for a in (x.reshape(2, 2, 2), p, z.reshape(3, 2, 2), q)]
    assert float(transport.dual(*tensors, gsat.LowRank(0.3), 2)) == pytest.approx(value, rel=1e-9)
    assert float(transport.primal(x.tolist(), list(p), z[::-1], q[::-1], gsat.LowRank(0.3), 2)) == pytest.approx(value)
    assert float(transport.primal([0, 1], [0.5, 0.5], [2, 3], [0.5, 0.5], gsat.Universal(0.5), 2)) == pytest.approx(2)


def test_float32_atoms_may_be_rounded():
    x, p, t = np.array([[0.1, 3.7], [1.3, -2.9]], dtype=np.float32), [0.4, 0.6], np.array([0.7, 0.3], dtype=np.float32)
    for z in (x + t, x + t.astype(np.float64)):
        assert float(transport.primal(x, p, z, p, gsat.Universal(0.5), 2)) == pytest.approx(0.29)


@pytest.mark.parametrize("solve", [transport.primal, transport.dual])
def test_units_do_not_matter(solve):
    x, p, z, q = problem(3, 4, seed=11)
    small, plain, large = (float(solve(s * x, p, s * z, q, gsat.Unstructured(), 2)) / s**2 for s in (1e-6, 1, 1e6))
    assert (small, large) == pytest.approx((plain, plain), rel=1e-8)


def test_atoms_without_weight_do_not_count():
    (x, p, z, q), far = problem(2, 3, seed=12), np.full((1, 3), 50.0)
    more = np.concatenate([far, x]), np.append(0.0, p), np.concatenate([z, -far]), np.append(q, 0.0)
    for solve in (transport.primal, transport.dual):
        same = float(solve(x, p, z, q, gsat.GroupSparse(0.3), 2))
        assert float(solve(*more, gsat.GroupSparse(0.3), 2)) == pytest.approx(same, rel=1e-8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.5, 0.6]}, r"p must sum to 1, got 1\.1"),
        ({"q": [0.5, 0.7, -0.2]}, r"q must be >= 0, got -0\.2"),
        ({"q": [0.5, 0.5]}, r"q must have one entry per atom \(3\), got shape \(2,\)"),
        ({"p": [0.5, float("nan")]}, "p must be finite, got nan"),
        ({"m": 0}, "m must be >= 1, got 0"),
        ({"z": np.zeros((3, 2))}, r"z must have the features of x \(3,\), got \(2,\)"),
        ({"x": np.full((2, 3), np.inf)}, "x must be finite, got inf"),
        ({"x": np.zeros((0, 3))}, "x must hold at least one sample"),
        ({"m": 9}, "at most 1,000,000, got 10,077,696 variables and 539 constraints for 2 atoms of x, 3 of z"),
        ({"cost": gsat.PerBatch(gsat.LowRank())}, r"permutation invariant, got PerBatch\(.*needs the batches"),
    ],
)
def test_errors_say_what_is_wrong(change, message):
    x, p, z, q = problem(2, 3, seed=13)
    inputs = {"x": x, "p": p, "z": z, "q": q, "cost": gsat.LowRank(), "m": 2, **change}
    for solve in (transport.primal, transport.dual):
        with pytest.raises(ValueError, match=message):
            solve(**inputs)


def test_the_order_of_samples_must_not_matter():
    x, p, z, q = problem(2, 3, seed=14)
    message = r"permutation invariant, got c = [\d.]+, and [\d.]+ with the samples in the order \[(1, 0, 2|0, 2, 1)\]"
    for cost in (FirstIsDear(), gsat.PerBatch(gsat.LowRank()).bind("aba")):
        with pytest.raises(ValueError, match=message):
            transport.check_permutation_invariance(cost, x, z, 3)
        with pytest.raises(ValueError, match=message):
            transport.dual(x, p, z, q, cost, 3)
        assert float(transport.primal(x, p, z, q, cost, 3)) > 0  # the definition asks for nothing
    for cost in (*FINITE.values(), gsat.Universal(), gsat.LowRank(k=1)):
        transport.check_permutation_invariance(cost, x, z, 3)


def test_the_transform_and_the_cost_are_checked():
    x, p, z, _ = problem(2, 3, seed=15)
    with pytest.raises(ValueError, match=r"lam must be > 0, got 0"):
        transport.c_transform(np.zeros(3), x, z, gsat.LowRank(), 0)
    with pytest.raises(ValueError, match=r"loss_z must have one entry per atom \(3\), got shape \(2,\)"):
        transport.worst_risk(np.zeros(2), x, p, z, gsat.LowRank(), 2, 1.0)
    with pytest.raises(ValueError, match=r"groups to try must be at most 1,000,000, got 1,594,323 for"):
        transport.c_transform(np.zeros(3), np.zeros((13, 3)), z, gsat.LowRank(), 1.0)
    with pytest.raises(ValueError, match=r"cost must be >= 0, got -"):
        transport.primal(x, p, x, p, type("Negative", (), {"value": lambda self, delta: -1 - delta.sum()})(), 2)
    with pytest.raises(TypeError, match="cost must be an instance with the methods value"):
        transport.primal(x, p, x, p, gsat.LowRank, 2)
