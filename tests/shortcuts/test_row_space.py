"""The row-space short-cut gives what the plain path gives, and is left alone where it would not."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parametrizations

import gsat
from gsat import attacks
from gsat.costs import scaled
from gsat.models import seeded
from gsat.models.first_layer import FirstLayer
from gsat.shortcuts import choose
from gsat.shortcuts.row_space import RowSpace
from networks import Named, Opaque, Skip
from strategies import normal

M, D, H, K = 24, 60, 7, 3
MASK = torch.arange(D) % 3 > 0


class SkipSequential(nn.Sequential):
    def forward(self, x):
        return super().forward(x) + x.flatten(1)[:, :K]


def network(dtype=torch.float64, bias=True, h=H):
    with seeded(3):
        model = nn.Sequential(nn.Flatten(), nn.Linear(D, h, bias=bias), nn.ELU(), nn.Linear(h, K))
    for weight in model.parameters():
        weight.data *= 2.5
    return model.to(dtype).eval()


def group(dtype=torch.float64, shape=(D,)):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(M, *shape, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.arange(M) % K


def apart(found, expected):
    return float((found - expected).detach().norm() / expected.detach().norm())


def reduced(model, x, mask=None):
    """Whether a problem that does not depend on the axes is solved in the row space."""
    return isinstance(choose(model, x, mask, rotates=True), RowSpace)


COSTS = [
    gsat.Universal(0.3),
    gsat.LowRank(0.3),
    gsat.LowRank(0.4, k=2),
    gsat.Unstructured(),
    gsat.PerBatch(gsat.Universal(0.3), n_random=4),
    gsat.PerBatch(gsat.LowRank(0.1), n_random=3),
    scaled(gsat.LowRank(0.1), 2.0),
]
SOLVERS = [gsat.Proximal(), gsat.ADMM(rho=1.7, eta1=0.05), gsat.Linearised()]


def standardising(model, n=1, **options):
    """The model behind layers that standardise its features, as they are after some training."""
    before = [nn.BatchNorm1d(D, **options).double() for _ in range(n)]
    for number, layer in enumerate(before):
        tensors = [layer.running_mean, layer.running_var, *(weight.data for weight in layer.parameters())]
        for place, tensor in enumerate(part for part in tensors if part is not None):
            tensor.copy_(normal(D, seed=10 * number + place).abs() + 0.3)
    return nn.Sequential(model[0], *before, *model[1:]).eval()


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "mask"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("n", "options"), [(1, {}), (2, {}), (1, {"affine": False, "eps": 0.1})])
@pytest.mark.parametrize("cost", [gsat.LowRank(0.3), gsat.Universal(0.3)], ids=repr)
def test_a_standardisation_before_the_layer_is_folded_into_it(cost, n, options, bias, mask):
    model, (x, y) = standardising(network(bias=bias), n, **options), group()
    found, plain = (gsat.Adversary(cost, lam=0.6, n_inner=15, feature_mask=mask) for _ in range(2))
    moved, expected = found(model, x, y), plain(Opaque(model), x, y)
    assert reduced(model, x, mask)
    assert apart(moved - x, expected - x) <= 1e-6
    assert found.last.objective == pytest.approx(plain.last.objective, rel=1e-9)
    if mask is None:
        attack = gsat.attacks.PGD(0.7, steps=9)
        assert apart(attack(model, x, y), attack(Opaque(model).eval(), x, y)) <= 1e-6


def test_a_standardisation_by_the_batch_itself_is_not_folded():
    assert reduced(standardising(network()), group()[0])
    assert not reduced(standardising(network(), track_running_stats=False), group()[0])
    assert not reduced(standardising(network()).train(), group()[0])
    assert not reduced(nn.Sequential(nn.BatchNorm1d(3).double(), *network()).eval(), group(shape=(3, 20))[0])


def test_training_with_a_standardisation_takes_the_same_path():
    x, y = group()
    weights = []
    for wrap in (nn.Identity, Opaque):
        model = wrap(standardising(network())) if wrap is Opaque else standardising(network())
        state = torch.random.get_rng_state()
        gsat.gdadmm(model, x, y, gsat.defences.GSAT(gsat.LowRank(0.2), n_inner=6), n_outer=8, group_size=12, eta0=1e-2)
        assert torch.equal(torch.random.get_rng_state(), state)
        weights.append(torch.cat([weight.detach().reshape(-1) for weight in model.parameters()]))
    assert apart(weights[0], weights[1]) <= 1e-5


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "mask"])
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_the_adversary_finds_the_same(cost, solver, mask):
    model, (x, y) = network(), group()
    found, plain = (gsat.Adversary(cost, lam=0.6, solver=solver, n_inner=15, feature_mask=mask) for _ in range(2))
    moved, expected = found(model, x, y), plain(Opaque(model), x, y)
    path, solution = gsat.Adversary(cost, lam=0.6, solver=solver, n_inner=15, feature_mask=mask).solve(model, x, y)
    assert solution.delta.shape == (M, H)
    assert not reduced(Opaque(model), x, mask)
    assert expected.ne(x).any()
    assert apart(moved - x, expected - x) <= 1e-6
    assert found.last.objective == pytest.approx(plain.last.objective, rel=1e-9)
    assert found.last.n_gradients == plain.last.n_gradients
    assert apart(path.expand(solution.delta), moved - x) <= 1e-6
    assert apart(solution.delta @ solution.delta.T, found.last.delta @ found.last.delta.T) <= 1e-6
    if mask is not None:
        assert (moved - x)[:, ~mask].abs().max() == 0


@pytest.mark.parametrize(("solver", "tolerance"), [(gsat.ADMM(rho=1.7, eta1=0.05), 1e-4), (gsat.Proximal(), 5e-3)])
@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_the_adversary_finds_the_same_in_float32(cost, solver, tolerance):
    model, (x, y) = network(torch.float32), group(torch.float32)
    found, plain = (gsat.Adversary(cost, lam=0.6, solver=solver, n_inner=15) for _ in range(2))
    moved, expected = found(model, x, y), plain(Opaque(model), x, y)
    assert found.last.objective == pytest.approx(plain.last.objective, rel=1e-4)
    assert apart(moved - x, expected - x) <= tolerance


ATTACKS = [
    attacks.PGD(1.5, steps=9),
    attacks.PGD(1.5, steps=9, keep="last"),
    attacks.FGM(1.5),
    attacks.Universal(1.5, steps=40),
    attacks.LowRank(1.5, rank=2, steps=40),
]


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "mask"])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attacks_find_the_same(attack, mask, monkeypatch):
    from dataclasses import replace

    model, (x, y) = network(), group()
    attack = replace(attack, feature_mask=mask)
    expected = attack(Opaque(model).eval(), x, y)
    assert apart(attack(model, x, y), expected) <= 1e-6
    monkeypatch.setattr("gsat.attacks.flat.AT_ONCE", 10)
    assert apart(attack(model, x, y), expected) <= 1e-6


def test_a_fitted_part_is_in_the_units_of_the_samples():
    model, (x, y) = network(), group(shape=(4, 15))
    for attack in (attacks.Universal(1.5, steps=20), attacks.LowRank(1.5, rank=2, steps=20)):
        found, plain = attack.fit(model, x, y), attack.fit(Opaque(model), x, y)
        if plain.shift is not None:
            assert apart(found.shift, plain.shift) <= 1e-6
        else:
            assert apart(found.subspace.T @ found.subspace, plain.subspace.T @ plain.subspace) <= 1e-6
            assert apart(found.subspace @ found.subspace.T, torch.eye(2, dtype=x.dtype)) <= 1e-9
        assert apart(found.apply(model, x, y), plain.apply(Opaque(model), x, y)) <= 1e-6


@pytest.mark.parametrize("bias", [True, False])
def test_shapes_in_which_the_layer_is_found(bias):
    model = network(bias=bias)
    nested = nn.Sequential(nn.Identity(), nn.Dropout(0.5), nn.Sequential(model[:2]), model[2:]).eval()
    for known, x in ((model, group(shape=(3, 20))[0]), (model[1:], group()[0]), (nested, group()[0])):
        seen = choose(known, x, rotates=True)
        assert seen.x.shape == (M, H)
        assert apart(seen.outputs(seen.x), known(x)) <= 1e-9
        step = torch.randn(M, H, dtype=x.dtype)
        assert apart(seen.outputs(seen.x + step), known(x + seen.expand(step))) <= 1e-9
        assert apart(seen.moved(x, step), x + seen.expand(step)) <= 1e-12
        assert apart(seen.project(seen.expand(step)), step) <= 1e-9


def test_a_model_may_name_its_layer():
    model, (x, y) = Named(network()).eval(), group(shape=(5, 12))
    found, plain = (gsat.Adversary(gsat.LowRank(0.2), lam=0.6) for _ in range(2))
    assert apart(found(model, x, y) - x, plain(Opaque(model), x, y) - x) <= 1e-6
    assert reduced(model, x)
    assert "forward" not in vars(model.first_linear)

    def broken(outputs, labels):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        gsat.Adversary(gsat.LowRank(0.2), lam=0.6, loss=broken)(model, x, y)
    assert apart(model(x), Opaque(model)(x)) == 0


class Twofold(Named):
    """It returns what it saw beside its outputs."""

    def forward(self, x):
        return super().forward(x), x


class Checking(Named):
    """It looks at the shape of its input itself."""

    def forward(self, x):
        assert x.shape[1:] == (D,), "wrong shape"
        return super().forward(x)


@pytest.mark.parametrize(("kind", "pick"), [(Twofold, lambda outputs: outputs[0]), (Checking, lambda outputs: outputs)])
def test_a_model_that_names_its_layer_and_cannot_be_compared_takes_the_plain_path(kind, pick):
    model, (x, y) = kind(network()).eval(), group()

    def loss(outputs, labels):
        return cross_entropy(pick(outputs), labels, reduction="none")

    found = gsat.Adversary(gsat.LowRank(0.2), lam=0.6, loss=loss)(model, x, y)
    assert apart(found - x, gsat.Adversary(gsat.LowRank(0.2), lam=0.6)(Named(network()), x, y) - x) <= 1e-6


def hooked():
    model = network()
    model[1].register_forward_hook(lambda module, args, output: output * 2)
    return model


def before():
    model = network()
    model.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    return model


def pushed_back():
    model = network()
    model[1].register_full_backward_pre_hook(lambda module, gradients: (2 * gradients[0],))
    return model


def patched(place=None):
    """A `forward` of its own, for the model or one of its layers."""
    model = network()
    target = model if place is None else model[place]
    target.forward = lambda x, forward=target.forward: forward(x.sin())
    return model


class Called(nn.Sequential):
    """It does something before it calls its layers."""

    def __call__(self, x):
        return super().__call__(x.sin())


NOT_REDUCED = {
    "opaque": (Opaque(network()), (D,)),
    "skip": (Skip(network()), (D,)),
    "skip in a Sequential": (SkipSequential(*network()), (D,)),
    "skip inside": (nn.Sequential(nn.Flatten(), Skip(network()[1:])), (D,)),
    "as many units as inputs": (network(h=D), (D,)),
    "a hook on the layer": (hooked(), (D,)),
    "a hook on the model": (before(), (D,)),
    "a hook on the way back": (pushed_back(), (D,)),
    "a model with a forward of its own": (patched(), (D,)),
    "a layer with a forward of its own": (patched(1), (D,)),
    "a Sequential with a call of its own": (Called(*network()), (D,)),
    "a parametrised weight": (nn.Sequential(parametrizations.weight_norm(network()[1]), *network()[2:]), (D,)),
    "normalised first": (nn.Sequential(nn.Softmax(1), *network()), (D,)),
    "a layer along the last axis": (nn.Sequential(nn.Linear(15, 4), nn.Flatten(), nn.Linear(16, K)).double(), (4, 15)),
    "no layer": (nn.Sequential(nn.Flatten()), (D,)),
}


@pytest.mark.parametrize("case", NOT_REDUCED)
def test_models_that_take_the_plain_path(case):
    model, shape = NOT_REDUCED[case]
    assert not reduced(model.double().eval(), group(shape=shape)[0])


def test_the_skip_connection_counts():
    model, (x, y) = Skip(network()).eval(), group()
    for cost in (gsat.Universal(0.3), gsat.LowRank(0.3)):
        moved = gsat.Adversary(cost, lam=0.2)(model, x, y)
        weight = model.inner[1].weight
        outside = (moved - x) - (moved - x) @ torch.linalg.pinv(weight) @ weight
        assert outside.norm() > 1e-3 * (moved - x).norm()


class Shorter:
    """A user's cost, of which nothing is known."""

    def value(self, delta):
        return delta.square().sum()

    def prox(self, v, tau):
        return v / (1 + 2 * tau)


@pytest.mark.parametrize(
    "use",
    [
        lambda model, x, y: gsat.Adversary(gsat.LowRank(), lam=1, bounds=(-2, 2))(model, x, y),
        lambda model, x, y: gsat.Adversary(gsat.GroupSparse(), lam=1, solver="linearised")(model, x, y),
        lambda model, x, y: gsat.Adversary(gsat.PerBatch(gsat.GroupSparse(), n_random=2), lam=1)(model, x, y),
        lambda model, x, y: gsat.Adversary(Shorter(), lam=1)(model, x, y),
        lambda model, x, y: attacks.LowRank(1, rank=2, steps=3, bounds=(-4, 4))(model, x, y),
        lambda model, x, y: attacks.GroupSparse(1, k=2, steps=3)(model, x, y),
        lambda model, x, y: attacks.PGD(1, steps=3, random_start=True)(model, x, y),
        lambda model, x, y: attacks.LowRank(1, rank=2, steps=3, restarts=2)(model, x, y),
        lambda model, x, y: attacks.FGM(1, direction="sign")(model, x, y),
    ],
)
def test_uses_that_take_the_plain_path(use, monkeypatch):
    def never(*args):
        raise AssertionError("the short-cut was taken")

    monkeypatch.setattr("gsat.shortcuts.paths.first_layer", never)
    use(network(), *group())
    with pytest.raises(AssertionError, match="the short-cut was taken"):
        attacks.PGD(1, steps=3)(network(), *group())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["good", "copies", "uneven", "zero"])
def test_the_basis_of_difficult_weights(kind, dtype):
    weight = torch.randn(H, D, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    if kind == "copies":
        weight[3] = weight[1]
    elif kind == "uneven":
        weight *= 10.0 ** -torch.arange(H)[:, None]
    elif kind == "zero":
        weight *= 0
    weight = weight.to(dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    space = RowSpace.of(FirstLayer(weight, None, nn.Identity()), torch.zeros(M, D, dtype=dtype))
    c = torch.randn(M, H, generator=torch.Generator().manual_seed(6), dtype=torch.float64).to(dtype)
    delta = space.expand(c)
    assert torch.allclose(delta @ delta.T, c @ c.T, atol=tolerance * H)
    assert torch.allclose(space.project(delta), c, atol=10 * tolerance)
    assert torch.allclose(delta @ weight.T, space.outputs(c), atol=10 * tolerance)


@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("tilt", [1, 0.05, 1e-4])
def test_nearly_parallel_weights_lose_no_digits(tilt, precision, monkeypatch):
    monkeypatch.setattr("torch.get_float32_matmul_precision", lambda: precision)
    weight = torch.randn(40, 5000, generator=torch.Generator().manual_seed(5)) / 5000**0.5
    weight[1] = weight[0] + tilt * weight[1]
    space = RowSpace.of(FirstLayer(weight, None, nn.Identity()), torch.zeros(30, 5000))
    c = torch.randn(30, 40, generator=torch.Generator().manual_seed(6))
    delta = space.expand(c).double()
    assert apart(delta @ delta.T, c.double() @ c.double().T) <= 1e-5
    assert apart(delta @ weight.T.double(), space.outputs(c).double()) <= 1e-5


def test_training_takes_the_same_path():
    x, y = group()
    weights = []
    for wrap in (nn.Identity, Opaque):
        model = network()
        inner = model if wrap is nn.Identity else wrap(model)
        gsat.gdadmm(
            inner,
            x,
            y,
            gsat.defences.GSAT(gsat.LowRank(0.2), n_inner=8),
            n_outer=15,
            group_size=16,
            eta0=1e-2,
            budget=0.2,
        )
        assert cross_entropy(model(x), y) < cross_entropy(network()(x), y)
        weights.append(model[1].weight.detach())
    assert apart(weights[0], weights[1]) <= 1e-5


def test_a_forward_of_ones_own_is_left_as_it_is():
    model, (x, y) = patched(1), group()
    expected = model(x)
    gsat.defences.GSAT(gsat.LowRank(0.2))(model, x, y)
    assert torch.equal(model(x), expected)


class NamedSkip(Named):
    """It names its first layer, but the input goes round it."""

    def forward(self, x):
        return super().forward(x) + x.flatten(1)[:, -K:]


class Reshaped(Named):
    """It can take no other input than its own."""

    def forward(self, x):
        return super().forward(x.reshape(-1, D))


def test_a_named_layer_that_is_not_all_the_model_sees():
    x, y = group()
    assert not reduced(Reshaped(network()).eval(), x)
    model = NamedSkip(network()).eval()
    with pytest.raises(ValueError, match="through which alone it uses it; NamedSkip gives it something else"):
        gsat.Adversary(gsat.LowRank(0.2), lam=0.6)(model, x, y)


def test_a_layer_that_is_named_must_get_the_input():
    class Scaled(Named):
        def forward(self, x):
            return super().forward(2 * x)

    x, y = group()
    with pytest.raises(
        ValueError, match=r"first_linear must name the nn\.Linear to which .* Scaled gives it something"
    ):
        gsat.Adversary(gsat.LowRank(0.2), lam=0.6)(Scaled(network()), x, y)


def test_autocast_takes_the_plain_path():
    model, x = network(torch.float32), group(torch.float32)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not reduced(model, x)
    assert reduced(model, x)
