"""What the proximal solver reads of the device, and when it knows that it has arrived."""

import pytest
import torch

import gsat
from gsat.oracle import Oracle
from strategies import blocks, normal

M, D = 7, 12
SOLVED = [gsat.Universal(0.3), gsat.GroupSparse(0.3), gsat.GroupSparse(0.3, feature_groups=blocks(D))]


class Mine:
    """A cost with value and prox alone."""

    def value(self, delta):
        return delta.square().sum()

    def prox(self, v, tau):
        return v / (1 + 2 * tau)


@pytest.fixture
def reads(monkeypatch):
    """What was read of tensors, on a device from which numbers must be fetched."""

    def counted(name):
        original = getattr(torch.Tensor, name)

        def read(tensor, *args):
            reads.append(name)
            return original(tensor, *args)

        monkeypatch.setattr(torch.Tensor, name, read)

    reads = []
    monkeypatch.setattr("gsat._numeric.AT_HAND", ())
    for name in ("item", "tolist", "numpy", "__float__", "__int__", "__bool__"):
        counted(name)
    return reads


def reads_of_steps(cost, x, target, lam, reads):
    """What each of some steps in the midst of an ascent reads."""
    oracle, solver = Oracle(lambda z: -(((z - target) ** 2).sum(1) ** 2), x), gsat.Proximal(relax=0)
    state = solver.init(oracle.x, 20)
    for _ in range(11):
        reads.clear()
        state = solver.step(oracle, cost, state, lam=lam)
        if oracle.n_gradients > 3:
            yield list(reads)
    assert state.n_steps > 3


@pytest.mark.parametrize(
    "cost",
    [gsat.Universal(0.3), gsat.GroupSparse(0.3), gsat.GroupSparse(0.3, k=3), SOLVED[2], gsat.Unstructured(), Mine()],
    ids=repr,
)
def test_a_step_reads_the_device_once(cost, reads):
    x, target = normal(M, D, seed=1, dtype=torch.float32), normal(M, D, seed=0, dtype=torch.float32)
    for found in reads_of_steps(cost, x, target, 0.6, reads):
        assert found == ["tolist"]


def test_a_low_rank_step_reads_the_rank_too(reads):
    x, target = 1e-3 * normal(80, 90, seed=1), normal(80, 3, seed=2) @ normal(3, 90, seed=3)
    for found in reads_of_steps(gsat.LowRank(0.3).remembering(), x.float(), target.float(), 2e4, reads):
        assert found == ["tolist", "tolist"]


@pytest.mark.parametrize("cost", SOLVED, ids=repr)
def test_a_late_read_costs_one_gradient_at_the_end(cost, monkeypatch):
    x, target = normal(M, D, seed=1), normal(M, D, seed=2)

    def ascent():
        return gsat.maximise(lambda z: -((z - target) ** 2).sum(1), x, cost, lam=0.6, n_inner=500)

    early = ascent()
    monkeypatch.setattr("gsat._numeric.AT_HAND", ())
    late = ascent()
    assert early.n_gradients < 500
    assert late.n_gradients == early.n_gradients + 1
    assert torch.equal(late.delta, early.delta)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("cost", [gsat.GroupSparse(), SOLVED[2]], ids=["columns", "blocks"])
def test_norms_without_a_read_are_the_same(cost, scale, monkeypatch):
    v = (scale * normal(M, D, seed=4)).float()
    expected = cost.norms(v)
    monkeypatch.setattr("gsat._numeric.AT_HAND", ())
    assert expected.min() > 0.5 * scale
    torch.testing.assert_close(cost.norms(v), expected, rtol=1e-6, atol=0)
