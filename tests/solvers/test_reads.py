"""What the solvers read of the device, and when the proximal one knows that it has arrived."""

import pytest
import torch

import gsat
from gsat._arrays import unread as _unread
from gsat.costs.grouping import scaled
from gsat.solvers.oracle import Oracle
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
    monkeypatch.setattr("gsat._arrays.norms.AT_HAND", ())
    for name in ("item", "tolist", "numpy", "__float__", "__int__", "__bool__"):
        counted(name)
    return reads


def reads_of_steps(solver, cost, x, target, lam, reads, n_steps=14):
    """What each step of an ascent reads, the first and those of the relaxed start included."""
    oracle = Oracle(lambda z: -(((z - target) ** 2).sum(1) ** 2), x)
    state, left = solver.init(oracle.x, 20), n_steps
    while not state.done and left:
        reads.clear()
        state, left = solver.step(oracle, cost, state, lam=lam), left - 1
        yield list(reads)
    assert oracle.n_gradients >= (3 if isinstance(solver, gsat.Linearised) else 6)


COSTS = [
    gsat.Universal(0.3),
    gsat.GroupSparse(0.3),
    gsat.GroupSparse(0.3, k=3),
    SOLVED[2],
    gsat.Unstructured(),
    gsat.LowRank(0.3),
    gsat.LowRank(0.3, k=2),
    scaled(gsat.LowRank(0.2), 0.8),
    gsat.PerBatch(gsat.Universal(0.3)).bind([0, 1] * 12),
    gsat.PerBatch(gsat.LowRank(0.3)).bind([0, 1] * 12),
]
SOLVERS = [gsat.Proximal(), gsat.Proximal(relax=0), gsat.ADMM(), gsat.Linearised()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_a_step_reads_the_device_once(cost, solver, dtype, reads):
    x, target = (normal(24, D, seed=seed, dtype=dtype) for seed in (1, 0))
    for found in reads_of_steps(solver, cost, x, target, 40.0, reads):
        assert found == ["tolist"]


@pytest.mark.parametrize("solver", [gsat.Proximal(), gsat.ADMM()], ids=repr)
def test_a_step_with_a_cost_of_ones_own_reads_the_device_once(solver, reads):
    x, target = (normal(M, D, seed=seed, dtype=torch.float32) for seed in (1, 0))
    for found in reads_of_steps(solver, Mine(), x, target, 0.6, reads):
        assert found == ["tolist"]


def low_rank_problem(m=80, d=90):
    return (1e-3 * normal(m, d, seed=1)).float(), (normal(m, 3, seed=2) @ normal(3, d, seed=3)).float()


@pytest.mark.parametrize("cost", [gsat.LowRank(0.3), scaled(gsat.LowRank(0.3), 0.9)], ids=repr)
def test_a_step_from_remembered_singular_vectors_reads_once_too(cost, reads, monkeypatch):
    """Their number and whether they are all are read with the numbers of the solver."""
    decomposed, whole, warm = [], torch.linalg.eigh, cost.remembering()
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: decomposed.append(len(matrix)) or whole(matrix))
    x, target = low_rank_problem()
    for found in reads_of_steps(gsat.Proximal(relax=0), warm, x, target, 2e4, reads, 12):
        assert found == ["tolist"]
    assert decomposed.count(len(x)) <= 2
    assert warm.memory.basis is not None
    assert warm.memory.failures == 0


@pytest.mark.parametrize("n_inner", [7, 12])
@pytest.mark.parametrize("wrong", [(), (3,), (2, 3, 5), range(2, 30)], ids=str)
def test_what_was_found_on_trust_and_does_not_hold_is_found_again(wrong, n_inner, monkeypatch):
    """Each such trial costs a gradient; after three of them nothing is trusted."""
    x, target = low_rank_problem()

    def ascent(n):
        solver = gsat.Proximal(relax=0)
        return gsat.maximise(loss, x, gsat.LowRank(0.3), lam=2e4, n_inner=n, solver=solver)

    def loss(z):
        return -(((z - target) ** 2).sum(1) ** 2)

    right, asked, refused = _unread._leading, [], []

    def sometimes_wrong(problem):
        found = right(problem)
        asked.append(1)
        if len(asked) not in wrong:
            return found
        refused.append(1)
        return found._replace(vectors=found.vectors.flip(0), sure=torch.zeros(()))

    expected = ascent(n_inner)
    monkeypatch.setattr("gsat._arrays.norms.AT_HAND", ())
    monkeypatch.setattr(_unread, "_leading", sometimes_wrong)
    found = ascent(n_inner + min(len(wrong), 3))
    assert len(asked) >= 4 or len(refused) == 3
    assert found.objective == pytest.approx(expected.objective, rel=1e-4)
    assert float((found.delta - expected.delta).norm()) <= 1e-3 * float(expected.delta.norm())


@pytest.mark.parametrize("cost", SOLVED, ids=repr)
def test_a_late_read_costs_one_gradient_at_the_end(cost, monkeypatch):
    x, target = normal(M, D, seed=1), normal(M, D, seed=2)

    def ascent():
        return gsat.maximise(lambda z: -((z - target) ** 2).sum(1), x, cost, lam=0.6, n_inner=500)

    early = ascent()
    monkeypatch.setattr("gsat._arrays.norms.AT_HAND", ())
    late = ascent()
    assert early.n_gradients < 500
    assert late.n_gradients == early.n_gradients + 1
    assert torch.equal(late.delta, early.delta)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("cost", [gsat.GroupSparse(), SOLVED[2]], ids=["columns", "blocks"])
def test_norms_without_a_read_are_the_same(cost, scale, monkeypatch):
    v = (scale * normal(M, D, seed=4)).float()
    expected = cost.norms(v)
    monkeypatch.setattr("gsat._arrays.norms.AT_HAND", ())
    assert expected.min() > 0.5 * scale
    torch.testing.assert_close(cost.norms(v), expected, rtol=1e-6, atol=0)


def test_an_end_beside_losses_that_are_not_finite_is_an_end(monkeypatch):
    """Whether the numbers are read before the gradient or after it."""
    for seed in range(30):
        x, target = normal(M, D, seed=seed), normal(M, D, seed=100 + seed)

        def base(z, target=target):
            return -((z - target) ** 2).sum(1)

        best = gsat.maximise(base, x, gsat.Unstructured(), lam=0.6, n_inner=40)
        top = base(x + best.delta).max()

        def loss(z, base=base, top=top):
            values = base(z)
            return values + torch.where(values.detach() > top, torch.nan, 0.0)

        for at_hand in (("cpu",), ()):
            monkeypatch.setattr("gsat._arrays.norms.AT_HAND", at_hand)
            found = gsat.maximise(loss, x, gsat.Unstructured(), lam=0.6, n_inner=40)
            assert found.objective == pytest.approx(best.objective, rel=1e-6)


@pytest.mark.parametrize("at_hand", [("cpu",), ()], ids=["at hand", "unread"])
@pytest.mark.parametrize("cost", [gsat.LowRank(0.3), gsat.LowRank(0.3, k=2), gsat.GroupSparse(0.3)], ids=repr)
def test_a_perturbation_that_is_not_finite_is_said_to_be_so(cost, at_hand, monkeypatch):
    monkeypatch.setattr("gsat._arrays.norms.AT_HAND", at_hand)
    x = normal(24, D, seed=1, dtype=torch.float32)
    with pytest.raises(FloatingPointError, match=r"not finite at step 1: eta1 = 1e\+30 is too large"):
        gsat.maximise(lambda z: (1e10 * torch.sin(z)).sum(1), x, cost, lam=1.0, solver=gsat.ADMM(eta1=1e30), n_inner=6)


@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_scales_at_which_squares_leave_their_range(scale, monkeypatch):
    x, target = (scale * v.double() for v in low_rank_problem())
    cost = scaled(gsat.LowRank(0.3), scale)

    def ascent():
        return gsat.maximise(loss, x, cost, lam=2e4, n_inner=12, solver=gsat.Proximal(relax=0))

    def loss(z):
        return -((((z - target) / scale) ** 2).sum(1) ** 2)

    expected = ascent()
    monkeypatch.setattr("gsat._arrays.norms.AT_HAND", ())
    assert ascent().objective == pytest.approx(expected.objective, rel=1e-2)


def test_a_loop_of_ones_own_may_go_on_after_its_end(reads):
    x, target = low_rank_problem()
    cost, solver = gsat.LowRank(0.3).remembering(), gsat.Proximal()
    oracle = Oracle(lambda z: -(((z - target) ** 2).sum(1) ** 2), x)
    state = solver.init(oracle.x, 20)
    for _ in range(8):
        state = solver.step(oracle, cost, state, lam=2e4)
    ended = solver.probe(oracle, cost, state, lam=2e4)
    after = solver.step(oracle, cost, ended, lam=2e4)
    assert after.here.objective >= ended.here.objective - 1e-6 * abs(ended.here.objective)
    assert gsat.ADMM().finish(oracle, cost, gsat.ADMM().init(oracle.x, 20), lam=1.0).residual == torch.inf
