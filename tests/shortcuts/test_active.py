"""The active-set short-cut gives what the plain path gives, and is left alone where it would not."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import gsat
from gsat.costs.grouping import scaled
from gsat.models import seeded
from gsat.shortcuts.active import active_set
from gsat.shortcuts.columns import Columns, Layer
from gsat.shortcuts.implicit import Implicit
from networks import Named, Opaque, Skip

M, D, H, K = 24, 60, 7, 3
MASK = torch.arange(D) % 3 > 0
BLOCKS = torch.arange(D) // 4


@pytest.fixture(autouse=True)
def _small_groups_too(monkeypatch):
    """The problems here are too narrow for the short-cut to pay."""
    monkeypatch.setattr("gsat.active.WIDE", 0)


def network(dtype=torch.float64, bias=True, h=H):
    """Columns of W of very different lengths, so that some move and some do not."""
    with seeded(3):
        model = nn.Sequential(nn.Flatten(), nn.Linear(D, h, bias=bias), nn.ELU(), nn.Linear(h, K)).double()
    model[1].weight.data *= 6 * 0.93 ** torch.arange(D, dtype=torch.float64)[torch.arange(D) * 7 % D]
    model[3].weight.data *= 2.5
    return model.to(dtype).eval()


def group(dtype=torch.float64, shape=(D,), m=M):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(m, *shape, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.arange(m) % K


def apart(found, expected):
    return float((found - expected).detach().norm() / expected.detach().norm())


def moving(delta):
    return int((delta.flatten(1).abs().amax(0) > 0).sum())


def pair(model, x, y, cost, **options):
    """The adversary that knows the model and the one that does not."""
    found, plain = (gsat.Adversary(cost, **{"lam": 0.6, "n_inner": 15, **options}) for _ in range(2))
    found(model, x, y)
    plain(Opaque(model).eval(), x, y)
    assert found.compact is not found.last.delta
    assert plain.compact is plain.last.delta
    return found, plain


COSTS = [
    gsat.GroupSparse(0.3),
    gsat.GroupSparse(0.8),
    gsat.GroupSparse(1e-4),
    gsat.GroupSparse(0.3, k=5),
    scaled(gsat.GroupSparse(0.2, feature_groups=BLOCKS), 0.4),
    gsat.GroupSparse(0.4, k=3, feature_groups=BLOCKS),
    scaled(gsat.GroupSparse(0.1), 0.4),
    scaled(gsat.GroupSparse(0.2, k=4), 2.0),
]
NAMES = ["soft", "sparse", "all", "k", "blocks", "k blocks", "scaled", "scaled k"]


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "mask"])
@pytest.mark.parametrize(
    "options", [{}, {"solver": gsat.Proximal(relax=0)}, {"n_inner": 3}, {"solver": "linearised"}], ids=str
)
@pytest.mark.parametrize("cost", COSTS, ids=NAMES)
def test_the_adversary_finds_the_same(cost, options, mask):
    model, (x, y) = network(), group()
    found, plain = pair(model, x, y, cost, feature_mask=mask, **options)
    assert moving(plain.last.delta) > 0
    assert apart(found.last.delta, plain.last.delta) <= 1e-6
    assert found.last.objective == pytest.approx(plain.last.objective, rel=1e-9)
    assert found.last.n_gradients == plain.last.n_gradients
    assert found.last.n_steps == plain.last.n_steps
    assert moving(found.last.delta) == moving(plain.last.delta)
    assert apart(found.compact @ found.compact.T, plain.last.delta @ plain.last.delta.T) <= 1e-6
    if mask is not None:
        assert found.last.delta[:, ~mask].abs().max() == 0


def test_the_cases_are_different():
    x, y = group()
    counts = [moving(pair(network(), x, y, cost)[0].last.delta) for cost in COSTS]
    assert counts[2] == D
    assert counts[3] == 5
    assert counts[5] == 12
    assert counts[7] == 4
    for count in (counts[1], counts[4], counts[6]):
        assert 0 < count < D / 2
    assert D / 2 < counts[0] < D


@pytest.mark.parametrize("cost", COSTS, ids=NAMES)
def test_the_adversary_finds_the_same_in_float32(cost):
    model, (x, y) = network(torch.float32), group(torch.float32)
    found, plain = pair(model, x, y, cost)
    assert found.last.delta.dtype == torch.float32
    assert found.last.objective == pytest.approx(plain.last.objective, rel=1e-4)
    assert apart(found.last.delta, plain.last.delta) <= 5e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cost", [COSTS[0], COSTS[4], COSTS[6]], ids=["soft", "blocks", "scaled"])
def test_nothing_moves_where_it_costs_too_much(cost, dtype):
    x, y = group(dtype)
    found, plain = pair(network(dtype), x, y, cost, lam=1e4)
    assert found.last.delta.abs().max() == 0
    assert found.compact.shape == (M, 0)
    assert found.last.n_gradients == plain.last.n_gradients
    assert found.last.objective == pytest.approx(plain.last.objective, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-28, 1e28])
def test_squares_that_leave_the_range_of_float32(scale):
    for a in vectors(torch.float32)[2:4]:
        a = a * scale
        for cost in (gsat.GroupSparse(0.3, k=5), gsat.GroupSparse(0.3, k=3, feature_groups=BLOCKS)):
            found, expected = cost.shrink(a, 1.7).expand() / scale, cost.shrink(a.expand(), 1.7) / scale
            assert moving(expected) in (5, 12)
            assert apart(found, expected) <= 1e-5


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", ["nested", "named", "bare"])
def test_shapes_in_which_the_layer_is_found(shape, bias):
    model, (x, y) = network(bias=bias), group(shape=(D,) if shape == "bare" else (5, 12))
    if shape == "nested":
        model = nn.Sequential(nn.Identity(), nn.Dropout(0.5), nn.Sequential(model[:2]), model[2:]).eval()
    elif shape == "named":
        model = Named(model)
    else:
        model = model[1:]
    found, plain = pair(model, x, y, gsat.GroupSparse(0.7))
    assert found.last.delta.shape == x.shape
    assert 0 < moving(plain.last.delta) < D
    assert apart(found.last.delta, plain.last.delta) <= 1e-6
    assert found.last.n_gradients == plain.last.n_gradients
    assert "forward" not in vars(getattr(model, "first_linear", model))
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize(
    ("model", "m"),
    [
        (Opaque(network()), M),
        (Skip(network()), M),
        (nn.Sequential(nn.Softmax(1), *network()), M),
        (network(h=D), 80),
        (network(h=M), M),
        (network(), H),
        (network(torch.float32), M),
    ],
    ids=["opaque", "skip", "normalised", "h = d", "h = m", "few samples", "another dtype"],
)
def test_models_and_groups_that_take_the_plain_path(model, m):
    assert active_set(model.eval(), group(m=m)[0]) is None


def test_narrow_groups_take_the_plain_path(monkeypatch):
    monkeypatch.setattr("gsat.active.WIDE", D / M + 0.1)
    assert active_set(network(), group()[0]) is None
    monkeypatch.setattr("gsat.active.WIDE", D / M)
    assert active_set(network(), group()[0]) is not None


class Shorter(gsat.GroupSparse):
    """A user's cost, of which nothing is known."""


class Slower(gsat.Proximal):
    """A user's solver, of which nothing is known."""


@pytest.mark.parametrize(
    ("cost", "options"),
    [
        (gsat.GroupSparse(0.3), {"bounds": (-2, 2)}),
        (gsat.GroupSparse(0.3), {"solver": "admm"}),
        (gsat.GroupSparse(0.3), {"solver": Slower()}),
        (gsat.GroupSparse(0.0), {}),
        (gsat.PerBatch(gsat.GroupSparse(0.3), n_random=2), {}),
        (gsat.GroupSparse(1.0), {"lam": 100.0}),
        (gsat.LowRank(0.3), {}),
        (Shorter(0.3), {}),
    ],
    ids=["bounds", "admm", "user's solver", "alpha = 0", "per batch", "alpha = 1", "low-rank", "user's cost"],
)
def test_uses_that_take_the_plain_path(cost, options, monkeypatch):
    def never(*args):
        raise AssertionError("the short-cut was taken")

    monkeypatch.setattr("gsat.adversary.active_set", never)
    gsat.Adversary(cost, **{"lam": 1.0, **options})(network(), *group())
    with pytest.raises(AssertionError, match="the short-cut was taken"):
        gsat.Adversary(gsat.GroupSparse(0.3), lam=1.0)(network(), *group())


def test_mistakes_are_named_as_on_the_plain_path():
    x, y = group()
    with pytest.raises(ValueError, match=r"feature_groups must have one entry per feature \(60\), got 59"):
        gsat.Adversary(gsat.GroupSparse(0.3, feature_groups=BLOCKS[1:]), lam=1.0)(network(), x, y)
    with pytest.raises(ValueError, match="batch must have one id per sample"):
        gsat.Adversary(gsat.GroupSparse(0.3), lam=1.0)(network(), x, y, batch=[0, 1])
    x[3, 4] = torch.inf
    with pytest.raises(FloatingPointError, match="not finite at step 0"):
        gsat.Adversary(gsat.GroupSparse(0.3), lam=1.0)(network(), x, y)


def vectors(dtype=torch.float64):
    """Sparse, dense, mixed and full perturbations, with their tensors."""
    generator = torch.Generator().manual_seed(8)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    layer, none = Layer(normal(H, D)), torch.empty(0, dtype=torch.int64)
    parts = [
        (None, torch.tensor([3, 7, 50])),
        (None, torch.tensor([7, 8])),
        (normal(M, H), none),
        (normal(M, H), torch.tensor([0, 7, 59])),
        (None, none),
        (normal(M, H), torch.arange(D)),
    ]
    held = [Columns(layer, index, normal(len(index), M)) for _, index in parts]
    single = [Implicit(layer, M, p, (1.7, columns)) for (p, _), columns in zip(parts, held, strict=True)]
    several = [(0.3, held[0]), (-1.0, held[1]), (2.0, held[5])]
    return [
        *single,
        Implicit(layer, M),
        Implicit(layer, M, None, *several[:2]),
        Implicit(layer, M, normal(M, H), *several),
    ]


def test_arithmetic_is_that_of_the_tensors():
    for a in vectors():
        full = a.expand()
        assert full.shape == a.shape == (M, D)
        assert torch.allclose(a.seen, full @ a.layer.weight.T, atol=1e-9)
        assert torch.allclose((a / 3.7).expand(), full / 3.7)
        assert torch.allclose((2.3 * a).seen, 2.3 * a.seen)
        for order, dim, keepdim in ((2, None, False), (2, 0, False), (2, 1, True), (torch.inf, None, False)):
            expected = torch.linalg.vector_norm(full, order, dim=dim, keepdim=keepdim)
            found = torch.linalg.vector_norm(a, order, dim=dim, keepdim=keepdim, dtype=torch.float64)
            assert found.shape == expected.shape
            assert torch.allclose(found, expected)
        rows = torch.linspace(-1, 3, M, dtype=torch.float64)[:, None]
        assert torch.allclose((a * rows).expand(), full * rows)
        assert torch.allclose((a * rows).seen, (full * rows) @ a.layer.weight.T, atol=1e-9)
        for kept in (0, 3, 40):
            columns = torch.linspace(0.2, 3, D, dtype=torch.float64) * ((torch.arange(D) * 13 + 7) % D < kept)
            assert torch.allclose((a * columns).expand(), full * columns)
            assert (a * columns).p is None
        for b in vectors():
            assert torch.allclose((a + b).expand(), full + b.expand())
            assert torch.allclose((a - b).expand(), full - b.expand())
            assert torch.allclose((a - b).seen, a.seen - b.seen, atol=1e-9)
            assert torch.allclose(torch.lerp(a, b, 0.3).expand(), torch.lerp(full, b.expand(), 0.3))
            assert torch.allclose(torch.dot(a, b), (full * b.expand()).sum())


def test_what_is_not_known_is_refused():
    a = vectors()[0]
    with pytest.raises(TypeError, match="__torch_function__"):
        torch.exp(a)
    with pytest.raises(TypeError, match="unsupported operand"):
        torch.ones(()) + a
    assert torch.isfinite(a).all()
    assert not torch.isfinite(a / 0.0).all()
    assert not torch.isfinite(vectors()[2] / 0.0).all()


def test_training_takes_the_same_path():
    x, y = group()
    weights = []
    for wrap in (nn.Sequential, Opaque):
        model = network()
        defence = gsat.defences.GSAT(gsat.GroupSparse(0.2), n_inner=8)
        gsat.gdadmm(wrap(model), x, y, defence, n_outer=15, group_size=16, eta0=1e-2, budget=0.2)
        assert (defence.adversary.compact is defence.delta) == (wrap is Opaque)
        assert 0 < defence.measure() <= D
        assert cross_entropy(model(x), y) < cross_entropy(network()(x), y)
        weights.append(model[1].weight.detach())
    assert apart(weights[0], weights[1]) <= 1e-5
