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


@pytest.mark.parametrize(
    "cost", [gsat.Universal(0.3), gsat.Unstructured(), Mine()], ids=lambda cost: type(cost).__name__
)
def test_a_step_reads_the_device_once(cost, monkeypatch):
    def counted(name):
        original = getattr(torch.Tensor, name)

        def read(tensor, *args):
            reads.append(name)
            return original(tensor, *args)

        monkeypatch.setattr(torch.Tensor, name, read)

    monkeypatch.setattr("gsat.solvers.proximal.AT_HAND", ())  # as on a device from which numbers must be fetched
    reads, target, solver = [], normal(M, D, seed=0), gsat.Proximal(relax=0)
    oracle = Oracle(lambda z: -((z - target) ** 4).sum(1), normal(M, D, seed=1))
    state = solver.init(oracle.x, 20)
    for _ in range(3):
        state = solver.step(oracle, cost, state, lam=0.6)
    for name in ("item", "tolist", "numpy", "__float__", "__int__", "__bool__"):
        counted(name)
    for _ in range(8):
        reads.clear()
        state = solver.step(oracle, cost, state, lam=0.6)
        assert reads == ["tolist"]
    assert state.n_steps > 3


@pytest.mark.parametrize("cost", SOLVED, ids=repr)
def test_a_late_read_costs_one_gradient_at_the_end(cost, monkeypatch):
    x, target = normal(M, D, seed=1), normal(M, D, seed=2)

    def ascent():
        return gsat.maximise(lambda z: -((z - target) ** 2).sum(1), x, cost, lam=0.6, n_inner=500)

    early = ascent()
    monkeypatch.setattr("gsat.solvers.proximal.AT_HAND", ())
    late = ascent()
    assert early.n_gradients < 500
    assert late.n_gradients == early.n_gradients + 1
    assert torch.equal(late.delta, early.delta)
