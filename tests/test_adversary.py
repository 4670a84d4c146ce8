"""`gsat.Adversary`: what it returns, and that nothing of the caller's changes."""

import pytest
import torch
from torch import nn

import gsat
from gsat.models import AlexNet, ELUNet, seeded
from strategies import normal

M, D, CLASSES = 8, 12, 3
COSTS = [
    gsat.Universal(0.3),
    gsat.GroupSparse(0.3),
    gsat.LowRank(0.3),
    gsat.LowRank(0.3, k=2),
    gsat.Unstructured(),
    gsat.PerBatch(gsat.Universal(0.3), n_random=2),
]
SOLVERS = ["proximal", "admm", "linearised"]


def noisy_net(dtype=torch.float32):
    """A net with BatchNorm and Dropout, in mixed modes, partly frozen, with gradients of an earlier step."""
    with seeded(1):
        net = nn.Sequential(
            nn.Linear(D, 10), nn.BatchNorm1d(10), nn.ELU(), nn.Dropout(0.5), nn.Sequential(nn.Linear(10, CLASSES))
        ).to(dtype)
        net(torch.randn(20, D, dtype=dtype)).sum().backward()
    net.train()
    net[1].eval()
    net[4][0].eval()
    net[0].weight.requires_grad_(False)
    net[4][0].bias.grad = None
    return net


def group(dtype=torch.float32, m=M):
    return normal(m, D, seed=2, dtype=dtype), torch.arange(m) % CLASSES


def snapshot(net, x, y):
    """All that the adversary must leave as it is."""
    copy = [None if t is None else t.clone() for t in (x.detach(), x.grad, y)]
    return {
        "modes": [module.training for module in net.modules()],
        "flags": [weight.requires_grad for weight in net.parameters()],
        "gradients": [None if weight.grad is None else weight.grad.clone() for weight in net.parameters()],
        "state": {name: value.clone() for name, value in net.state_dict().items()},
        "x, x.grad, y": copy,
        "x.requires_grad": [x.requires_grad, y.requires_grad],
        "generator": torch.get_rng_state(),
        "grad mode": [torch.is_grad_enabled(), torch.is_inference_mode_enabled()],
    }


def assert_same(before, after):
    for name in before:
        torch.testing.assert_close(after[name], before[name], rtol=0, atol=0, msg=f"{name} changed")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_nothing_of_the_callers_changes(cost, solver, dtype):
    net, (x, y) = noisy_net(dtype), group(dtype)
    x.requires_grad_()
    x.grad = torch.full_like(x, 7.0)
    before = snapshot(net, x, y)
    x_adv = gsat.Adversary(cost, lam=0.1, solver=solver)(net, x, y)
    assert_same(before, snapshot(net, x, y))
    assert not torch.equal(x_adv, x)


@pytest.mark.parametrize("solver", SOLVERS)
def test_maximise_leaves_a_model_that_is_not_frozen_alone(solver):
    net, (x, y) = noisy_net().eval(), group()
    x.requires_grad_()
    before = snapshot(net, x, y)
    gsat.maximise(
        lambda z: nn.functional.cross_entropy(net(z), y, reduction="none"), x, COSTS[0], lam=0.1, solver=solver
    )
    assert_same(before, snapshot(net, x, y))


class Failing(nn.Module):
    """Logits, until the third call."""

    def __init__(self):
        super().__init__()
        self.net, self.calls = noisy_net(), 0

    def forward(self, z):
        self.calls += 1
        torch.rand(3)
        if self.calls == 3:
            raise KeyError("third call")
        return self.net(z)


@pytest.mark.parametrize("solver", SOLVERS)
def test_nothing_changes_after_an_exception_either(solver):
    net, (x, y) = Failing(), group()
    before = snapshot(net, x, y)
    with pytest.raises(KeyError, match="third call"):
        gsat.Adversary(gsat.LowRank(), lam=0.1, solver=solver, n_inner=8)(net, x, y)
    assert net.calls == 3
    assert_same(before, snapshot(net, x, y))


def test_nothing_changes_after_a_loss_that_is_not_finite():
    net, (x, y) = noisy_net(), group()
    x[0, 0] = torch.nan
    before = snapshot(net, torch.zeros(1), y)
    with pytest.raises(FloatingPointError, match="not finite at step 0"):
        gsat.Adversary(gsat.LowRank(), lam=0.1)(net, x, y)
    assert_same(before, snapshot(net, torch.zeros(1), y))


@pytest.mark.parametrize("cost", [gsat.Universal(0.3), gsat.GroupSparse(0.01), gsat.LowRank(0.01)], ids=repr)
@pytest.mark.parametrize("solver", ["proximal", "admm"])
def test_a_loss_that_is_finite_at_zero_alone_is_an_error_in_the_row_space_too(solver, cost):
    net, (x, y) = ELUNet(D, CLASSES, hidden=5), group()
    with torch.no_grad():
        outputs = net(x)

    def loss(z, y):
        near = (z.detach() - outputs).abs().amax() < 1e-6
        return nn.functional.cross_entropy(z, y, reduction="none") * (1 if near else torch.nan)

    with pytest.raises(FloatingPointError, match=r"not finite at step [1-9]\d*, however short the step"):
        gsat.Adversary(cost, lam=0.1, solver=solver, loss=loss, n_inner=100)(net, x, y)


@pytest.mark.parametrize("options", [{}, {"bounds": (-1.0, 1.0)}, {"feature_mask": [True] * 6 + [False] * 6}], ids=str)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("made", ["outside", "inside"])
def test_it_works_where_gradients_are_off(made, mode, options):
    net, (x, y) = noisy_net(), group()
    expected = gsat.Adversary(gsat.LowRank(0.3), lam=0.1, **options)(net, x, y)
    with mode():
        if made == "inside":  # as from a DataLoader in the same block
            x, y = x.clone(), y.clone()
        found = gsat.Adversary(gsat.LowRank(0.3), lam=0.1, **options)(net, x, y)
        loss = gsat.maximise(lambda z: net.eval()(z).square().sum(1), x, gsat.GroupSparse(0.05), lam=0.3, **options)
    torch.testing.assert_close(found, expected)
    assert loss.delta.norm() > 0


def test_dropout_does_not_blur_the_answer():
    net, (x, y) = noisy_net(), group()
    first, second = (gsat.Adversary(gsat.GroupSparse(0.3), lam=0.1)(net, x, y) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_images_and_flat_groups(cost, solver):
    with seeded(3):
        conv, flat = AlexNet((1, 8, 8), CLASSES, width=0.05), ELUNet(64, CLASSES, hidden=6)
        x, y = torch.rand(M, 1, 8, 8), torch.arange(M) % CLASSES
    for net in (conv, flat):
        adversary = gsat.Adversary(cost, lam=0.05, solver=solver, n_inner=6)
        x_adv = adversary(net, x, y)
        assert x_adv.shape == x.shape
        assert adversary.last.delta.shape == x.shape
        assert adversary.last.objective >= float(adversary.loss(net(x), y).mean().detach()) - 1e-6
    flattened = gsat.Adversary(cost, lam=0.05, solver=solver, n_inner=6)(flat, x.reshape(M, 64), y)
    torch.testing.assert_close(flattened, x_adv.reshape(M, 64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "bounds", [None, (0.0, 1.0), (torch.zeros(D), torch.full((D,), 0.9))], ids=["none", "0-1", "each"]
)
def test_what_is_returned(bounds, dtype):
    net, (x, y) = noisy_net(dtype), group(dtype)
    x = torch.sigmoid(x) * 0.9
    adversary = gsat.Adversary(gsat.Universal(0.3), lam=0.02, bounds=bounds)
    assert adversary.last is None
    x_adv = adversary(net, x, y)
    assert isinstance(adversary.last, gsat.Solution)
    assert x_adv.shape == x.shape
    assert x_adv.dtype == adversary.last.delta.dtype == dtype
    assert not x_adv.requires_grad
    assert x_adv.grad_fn is None
    moved = x + adversary.last.delta
    assert len(adversary.last.delta.unique(dim=0)) == 1
    if bounds is None:
        assert torch.equal(x_adv, moved)
    else:
        low, high = (torch.as_tensor(end, dtype=dtype) for end in bounds)
        assert torch.equal(x_adv, moved.clamp(low, high))
        assert not torch.equal(x_adv, moved)


def test_it_is_maximise_on_a_quiet_model_with_cross_entropy():
    net, (x, y) = noisy_net(), group()
    adversary = gsat.Adversary(gsat.LowRank(0.3), lam=0.1, solver=gsat.ADMM(rho=1.7), n_inner=9)
    adversary(net, x, y)
    net.eval()
    found = gsat.maximise(
        lambda z: -torch.log_softmax(net(z), 1)[torch.arange(M), y],
        x,
        gsat.LowRank(0.3),
        lam=0.1,
        solver=gsat.ADMM(rho=1.7),
        n_inner=9,
    )
    torch.testing.assert_close(adversary.last.delta, found.delta)
    assert adversary.last.objective == pytest.approx(found.objective, rel=1e-5)


def test_the_loss_may_be_the_users():
    net, (x, _) = noisy_net(), group()
    target = normal(M, CLASSES, seed=4, dtype=torch.float32)
    adversary = gsat.Adversary(gsat.LowRank(), lam=0.5, loss=lambda out, y: (out - y).square().sum(1))
    x_adv = adversary(net, x, target)
    before, after = ((net.eval()(z) - target).square().sum(1).mean().detach() for z in (x, x_adv))
    assert after > before


def test_random_batches_differ_between_calls_and_not_between_adversaries():
    net, (x, y) = noisy_net(), group(m=20)
    runs = [gsat.Adversary(gsat.PerBatch(gsat.Universal(0.3), n_random=2), lam=0.1) for _ in range(2)]
    calls = [[adversary(net, x, y) for _ in range(3)] for adversary in runs]
    for first, second in zip(*calls, strict=True):
        assert torch.equal(first, second)
    assert not torch.equal(calls[0][0], calls[0][1])
    seeds = [torch.Generator().manual_seed(seed) for seed in (5, 6)]
    a, b = (gsat.Adversary(gsat.PerBatch(gsat.Universal(0.3), 2), lam=0.1, generator=g)(net, x, y) for g in seeds)
    assert not torch.equal(a, b)


def test_given_batches_are_used():
    net, (x, y) = noisy_net(), group()
    adversary = gsat.Adversary(gsat.PerBatch(gsat.Universal(0.3)), lam=0.05)
    adversary(net, x, y, batch=["a", "b"] * 4)
    assert torch.equal(adversary.last.delta[0], adversary.last.delta[2])
    assert len(adversary.last.delta.unique(dim=0)) == 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"lam": 0.0}, ValueError, r"lam must be > 0.*, got 0\.0"),
        ({"lam": "auto"}, TypeError, "lam must be a number, got 'auto'"),
        (
            {"lam": 1.0, "solver": "sgd"},
            ValueError,
            "solver must be one of proximal, admm, admm-paper, linearised .*, got 'sgd'",
        ),
        ({"lam": 1.0, "solver": gsat.ADMM}, TypeError, "solver must be .*instance.*, got <class"),
        ({"lam": 1.0, "n_inner": 0}, ValueError, "n_inner must be >= 1, got 0"),
    ],
)
def test_parameters_are_checked_at_once(options, error, message):
    with pytest.raises(error, match=message):
        gsat.Adversary(gsat.LowRank(), **options)


def test_groups_are_checked():
    net, (x, y) = noisy_net(), group()
    adversary = gsat.Adversary(gsat.LowRank(), lam=1.0)
    for bad_x, bad_y, error, message in [
        (x, y[:5], ValueError, r"y must have one label per sample \(8\), got shape \(5,\)"),
        (x, y.tolist(), TypeError, "y must be a torch tensor, got list"),
        (x.long(), y, TypeError, "x must have a floating-point dtype, got torch.int64"),
        (x[:0], y[:0], ValueError, r"at least one sample and one feature, got shape \(0, 12\)"),
    ]:
        with pytest.raises(error, match=message):
            adversary(net, bad_x, bad_y)
    with pytest.raises(ValueError, match=r"batch must have one id per sample \(8\), got 3"):
        adversary(net, x, y, batch=[1, 2, 3])
    with pytest.raises(ValueError, match="use reduction="):
        gsat.Adversary(gsat.LowRank(), lam=1.0, loss=nn.functional.cross_entropy)(net, x, y)
