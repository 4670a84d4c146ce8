"""The structure inside each batch: Σ_b c(Δ_b)."""

import numpy as np
import pytest
import torch

import gsat
from strategies import normal

BATCH = ["late", "early", "late", "middle", "early", "late", "late"]
COSTS = [gsat.Universal(0.3), gsat.GroupSparse(0.3), gsat.LowRank(0.3), gsat.LowRank(0.3, k=1), gsat.Unstructured()]


class Absolute:
    """A user's cost: Σ|Δ|."""

    def value(self, delta):
        return delta.abs().sum()

    def prox(self, v, tau):
        return v.sign() * (v.abs() - tau).clamp(min=0)


def rows_of(name):
    return torch.tensor([i for i, one in enumerate(BATCH) if one == name])


@pytest.mark.parametrize("cost", [*COSTS, Absolute()], ids=lambda cost: type(cost).__name__)
@pytest.mark.parametrize("shape", [(7, 5), (7, 1, 2, 3)])
def test_value_is_a_sum_and_prox_acts_in_each_batch(cost, shape):
    v, bound = normal(*shape, seed=1), gsat.PerBatch(cost).bind(BATCH)
    p = bound.prox(v, 0.4)
    assert p.shape == v.shape
    parts = [rows_of(name) for name in ("late", "early", "middle")]
    for rows in parts:
        torch.testing.assert_close(p[rows], cost.prox(v[rows], 0.4))
    assert float(bound.value(p)) == pytest.approx(sum(float(cost.value(p[rows])) for rows in parts))
    assert float(bound.value(p)) > 0


@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_structure_and_shrink_are_per_batch_too(cost):
    v, bound = normal(7, 5, seed=2), gsat.PerBatch(cost).bind(BATCH)
    p = bound.shrink(v, 0.4)
    for rows in map(rows_of, ("late", "early", "middle")):
        torch.testing.assert_close(p[rows], cost.shrink(v[rows], 0.4))
    parts = sum(float(cost.structure(p[rows_of(name)])) for name in ("late", "early", "middle"))
    assert float(bound.structure(p)) == pytest.approx(parts)


@pytest.mark.parametrize(
    "batch",
    [BATCH, np.array(BATCH), torch.tensor([3, 1, 3, 9, 1, 3, 3]), tuple("lelmell"), [2.5, 1, 2.5, None, 1, 2.5, 2.5]],
)
def test_universal_per_batch_is_one_shift_for_each(batch):
    p = gsat.PerBatch(gsat.Universal(0.3)).bind(batch).prox(normal(7, 5, seed=3), 0.4)
    assert len(p.unique(dim=0)) == 3
    assert torch.equal(p[0], p[2])
    assert torch.equal(p[0], p[5])
    assert torch.equal(p[1], p[4])


def test_one_batch_is_the_cost_itself_and_m_batches_are_samples_on_their_own():
    v = normal(7, 5, seed=4)
    for cost in COSTS:
        torch.testing.assert_close(gsat.PerBatch(cost).bind([0] * 7).prox(v, 0.4), cost.prox(v, 0.4))
    assert torch.equal(gsat.PerBatch(gsat.Universal(1.0)).bind(range(7)).prox(v, 0.4), v)


@pytest.mark.parametrize(("n_random", "sizes"), [(3, [3, 4, 4]), (1, [11]), (11, [1] * 11), (40, [1] * 11)])
def test_random_batches_are_balanced_and_reproducible(n_random, sizes):
    def drawn(seed):
        bound = gsat.PerBatch(gsat.Universal(1.0), n_random).draw(11, torch.Generator().manual_seed(seed))
        return bound, bound.prox(normal(11, 4, seed=5), 0.4)

    bound, p = drawn(1)
    assert sorted(torch.bincount(bound.code).tolist()) == sizes
    assert torch.equal(drawn(1)[1], p)
    assert torch.allclose(drawn(2)[1], p) == (n_random in (1, 11, 40))


def test_a_generator_moves_on():
    generator = torch.Generator().manual_seed(0)
    orders = [gsat.PerBatch(gsat.Universal(), 2).draw(20, generator).code for _ in range(2)]
    assert not torch.equal(*orders)


def loss(z):
    return z.reshape(len(z), -1).sum(1)


def test_given_batches_go_before_random_ones():
    cost = gsat.PerBatch(gsat.Universal(0.3), n_random=2)
    scale = torch.arange(7.0).reshape(7, 1)
    delta = gsat.maximise(lambda z: (z * scale).sum(1), torch.ones(7, 4), cost, lam=0.5, batch=BATCH).delta
    assert len(delta.unique(dim=0)) == 3


def test_batches_are_checked():
    bare = gsat.PerBatch(gsat.Universal())
    with pytest.raises(ValueError, match=r"PerBatch needs batch= \(one id per sample\) or n_random=, got neither"):
        gsat.maximise(loss, torch.ones(7, 4), bare, lam=1.0)
    for batch, got in [(BATCH[:6], "got 6"), ([*BATCH, "late"], "got 8")]:
        with pytest.raises(ValueError, match=rf"batch must have one id per sample \(7\), {got}"):
            gsat.maximise(loss, torch.ones(7, 4), bare, lam=1.0, batch=batch)
        with pytest.raises(ValueError, match=rf"batch must have one id per sample \(7\), {got}"):
            bare.bind(batch).prox(torch.ones(7, 4), 0.1)
    with pytest.raises(ValueError, match=r"batch must have one id per sample \(7\).*shape \(7, 1\)"):
        bare.bind(torch.zeros(7, 1))
    with pytest.raises(ValueError, match="n_random must be >= 1, got 0"):
        gsat.PerBatch(gsat.Universal(), 0)
    with pytest.raises(TypeError, match=r"n_random must be a whole number, got 2\.0"):
        gsat.PerBatch(gsat.Universal(), 2.0)


def test_a_batch_that_is_not_a_sequence_is_named():
    with pytest.raises((TypeError, ValueError), match="batch must"):
        gsat.maximise(loss, torch.ones(7, 4), gsat.PerBatch(gsat.Universal()), lam=1.0, batch=3)
