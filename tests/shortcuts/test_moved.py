"""A perturbation in the form in which it was found gives the outputs and gradients of x + Δ, and Δ only to who asks."""

import pickle
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import gsat
from gsat._arrays.norms import dusted
from gsat.models import seeded
from gsat.models.first_layer import untouched_first_layer
from gsat.shortcuts.active import Sparse
from gsat.shortcuts.moved import fleeting
from gsat.shortcuts.row_space import Basis, Reduced
from gsat.training.state import adam
from networks import Opaque

M, D, H, K = 24, 60, 7, 3
MASK = torch.arange(D) % 3 > 0
COSTS = {
    "low-rank": gsat.LowRank(0.2),
    "universal": gsat.Universal(0.2),
    "unstructured": gsat.Unstructured(),
    "few columns": gsat.GroupSparse(0.5),
    "all columns": gsat.GroupSparse(0.01),
}


@pytest.fixture(autouse=True)
def _small_groups_too(monkeypatch):
    """The problems here are too narrow for the active set to pay."""
    monkeypatch.setattr("gsat.active.WIDE", 0)


def network(dtype=torch.float64, bias=True, before=(), after=()):
    with seeded(3):
        model = nn.Sequential(*before, nn.Flatten(), nn.Linear(D, H, bias=bias), *after, nn.ELU(), nn.Linear(H, K))
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.weight.data *= 4 * 0.97 ** torch.arange(layer.in_features)
    return model.to(dtype).train()


def group(dtype=torch.float64, shape=(D,)):
    x = torch.randn(M, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x.to(dtype), torch.arange(M) % K


def apart(found, expected):
    return float((found - expected).detach().norm() / expected.detach().norm())


def gradients(model, outputs, y):
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return torch.autograd.grad(cross_entropy(outputs, y), weights)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "mask"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("cost", COSTS)
def test_outputs_and_gradients_are_those_of_the_moved_group(cost, dtype, mask, bias):
    model, (x, y) = network(dtype, bias, after=[nn.BatchNorm1d(H), nn.Dropout(0.3)]), group(dtype, (4, 15))
    mask = None if mask is None else mask.view(4, 15)
    moved = gsat.Adversary(COSTS[cost], lam=0.3, feature_mask=mask).search(model, x, y)
    assert isinstance(moved.form, Sparse if "columns" in cost else Reduced)
    x_adv = moved.group()
    assert apart(x_adv, x) > 1e-3
    assert x_adv.requires_grad is False
    found, expected = [], []
    for outputs, into in ((moved.outputs, found), (lambda model: model(x_adv), expected)):
        with seeded(8):
            given = outputs(model)
        into += [given, *gradients(model, given, y)]
    for a, b in zip(found, expected, strict=True):
        assert apart(a, b) <= (1e-9 if dtype == torch.float64 else 1e-4) or b.norm() < 1e-6
    assert "forward" not in vars(model[1])


def test_a_layer_that_does_not_learn_has_no_gradient():
    model, (x, y) = network(), group()
    for frozen in ("weight", "bias"):
        getattr(model[1], frozen).requires_grad_(False)
        moved = gsat.Adversary(gsat.LowRank(0.2), lam=0.3).search(model, x, y)
        expected = gradients(model, model(moved.group()), y)
        for a, b in zip(gradients(model, moved.outputs(model), y), expected, strict=True):
            assert apart(a, b) <= 1e-9
        getattr(model[1], frozen).requires_grad_(True)


class Named(nn.Module):
    """It names its layer, and drops features in training."""

    def __init__(self, inner):
        super().__init__()
        self.first_linear, self.rest, self.drop = inner[1], inner[2:], nn.Dropout(0.5)

    def forward(self, x):
        return self.rest(self.first_linear(self.drop(x)))


@pytest.mark.parametrize("model", [network(before=[nn.Dropout(0.5)]), Named(network())], ids=["dropout", "named"])
def test_what_a_model_does_to_its_input_in_training_is_done(model):
    x, y = group()
    moved = gsat.Adversary(gsat.LowRank(0.2), lam=0.3).search(model.train(), x, y)
    assert isinstance(moved.form, Reduced)
    with seeded(5):
        found = moved.outputs(model)
    with seeded(5):
        expected = model(moved.group())
    assert torch.equal(found, expected)
    assert apart(found, model.eval()(moved.group())) > 1e-2


def test_layers_that_see_the_input_as_it_is():
    x, _ = group()
    dropping = network(before=[nn.Dropout(0.5)])
    assert untouched_first_layer(dropping, x) is None
    assert untouched_first_layer(dropping.eval(), x) is dropping[2]
    assert untouched_first_layer(Opaque(network()), x) is None
    assert untouched_first_layer(Named(network()).eval(), x) is None


DEFENCES = {
    "low-rank": lambda: gsat.defences.GSAT(gsat.LowRank(0.2), n_inner=6),
    "universal": lambda: gsat.defences.GSAT(gsat.Universal(0.2), n_inner=6),
    "group-sparse": lambda: gsat.defences.GSAT(gsat.GroupSparse(0.1), n_inner=6),
    "pgd": lambda: gsat.defences.PGD(1.5, steps=5),
    "fgm": lambda: gsat.defences.FGM(1.5),
}


def trained(model, defence, callbacks=()):
    x, y = group()
    return gsat.gdadmm(
        model, x, y, defence, n_outer=8, group_size=16, eta0=1e-2, budget=0.3, callbacks=callbacks
    )  # fmt: skip


@pytest.mark.parametrize("name", DEFENCES)
def test_training_is_as_on_the_plain_path_and_forms_nothing(name, monkeypatch):
    def never(self):
        raise AssertionError("an array as large as the group was formed")

    plain = network()
    before = trained(Opaque(plain), DEFENCES[name]())
    monkeypatch.setattr(Reduced, "expand", never)
    monkeypatch.setattr("gsat.implicit.Implicit.expand", never)
    model = network()
    after = trained(model, DEFENCES[name]())
    assert apart(model[1].weight, plain[1].weight) <= 1e-6
    assert [step.measure for step in after.steps] == [step.measure for step in before.steps]
    norms = [[step.mean_norm for step in history.steps] for history in (before, after)]
    assert norms[1] == pytest.approx(norms[0], rel=1e-6)
    assert max(norms[0]) > 0


@pytest.mark.parametrize("name", DEFENCES)
def test_the_perturbation_is_there_for_who_asks_after_the_weights_moved(name):
    deltas = []
    for wrap in (nn.Sequential, Opaque):
        defence = DEFENCES[name]()
        found = []
        trained(wrap(network()), defence, callbacks=[lambda step, model, d=defence, f=found: f.append(d.delta.clone())])
        assert found[-1].shape == (16, D)
        deltas.append(torch.stack(found))
    assert apart(deltas[0], deltas[1]) <= 1e-6


@pytest.mark.parametrize("name", DEFENCES)
def test_without_a_listener_the_perturbation_of_the_last_group_alone_is_kept(name, monkeypatch):
    copies, whole = [], Basis.kept
    monkeypatch.setattr(Basis, "kept", lambda self: copies.append(1) or whole(self))
    deltas = []
    for callbacks in ([], [lambda step, model: None]):
        copies.clear()
        defence = DEFENCES[name]()
        history = trained(network(torch.float32), defence, callbacks=callbacks)
        deltas.append(defence.delta)
        if copies:  # of the forms that need one
            assert len(copies) == (len(history.steps) if callbacks else 1)
    assert torch.equal(*deltas)


def test_a_perturbation_that_was_not_kept_is_refused_once_the_weights_have_changed():
    model, (x, y) = network(torch.float32), group(torch.float32)
    adversary = gsat.Adversary(gsat.LowRank(0.2), lam=0.05)
    with fleeting(True):
        before = adversary(model, x, y) - x
    torch.testing.assert_close(adversary.last.delta, before)
    with fleeting(True):
        moved = adversary.search(model, x, y)
    cross_entropy(model(x), y).backward()
    torch.optim.SGD(model.parameters(), 1e-3).step()
    for ask in (lambda: adversary.last.delta, lambda: moved.outputs(model)):
        with pytest.raises(RuntimeError, match="must be asked for before the weights change"):
            ask()


def test_a_run_that_is_interrupted_refuses_what_it_did_not_keep(monkeypatch):
    def interrupt(self, t, norm):
        raise KeyboardInterrupt

    defence = gsat.defences.GSAT(gsat.LowRank(0.2), n_inner=3)
    monkeypatch.setattr("gsat.control.Control.update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trained(network(torch.float32), defence)
    with pytest.raises(RuntimeError, match="must be asked for before the weights change"):
        defence.delta
    assert defence.mean_norm > 0
    model, (x, y) = network(torch.float32), group(torch.float32)
    x_adv = defence(model, x, y)
    model[1].weight.data.mul_(2)
    torch.testing.assert_close(defence.delta, x_adv - x)  # outside a run it is kept again


def test_who_asks_within_the_step_of_a_fused_optimizer_is_refused_too():
    model, defence, refused = network(torch.float32), gsat.defences.GSAT(gsat.LowRank(0.2), n_inner=3), []

    def ask(*args):
        with pytest.raises(RuntimeError, match="must be asked for before the weights change"):
            defence.delta
        refused.append(True)
        raise KeyboardInterrupt

    x, y = group(torch.float32)
    optimizer = adam(model, 1e-2)
    optimizer.register_step_post_hook(ask)
    with pytest.raises(KeyboardInterrupt):
        gsat.gdadmm(model, x, y, defence, n_outer=3, optimizer=optimizer)
    assert refused


def test_a_layer_that_is_used_twice():
    layer = nn.Linear(D, H).double()
    model = nn.Sequential(layer, nn.ELU(), nn.Linear(H, D).double(), nn.ELU(), layer, nn.Linear(H, K).double())
    x, y = group()
    for cost in COSTS.values():
        moved = gsat.Adversary(cost, lam=0.1).search(model, x, y)
        assert moved.form is not None
        found, expected = ([out, *gradients(model, out, y)] for out in (moved.outputs(model), model(moved.group())))
        for a, b in zip(found, expected, strict=True):
            assert apart(a, b) <= 1e-9


@pytest.mark.parametrize("wrap", [nn.Sequential, Opaque])
@pytest.mark.parametrize("name", DEFENCES)
def test_a_defence_that_was_used_can_be_pickled(name, wrap):
    model, (x, y) = wrap(network(torch.float32)), group(torch.float32)
    defence = DEFENCES[name]()
    defence.outputs(model, x, y)
    again = pickle.loads(pickle.dumps(defence))
    assert torch.equal(again.delta, defence.delta)
    assert again.mean_norm == defence.mean_norm > 0


@dataclass(frozen=True)
class Still(gsat.defences.Defence):
    """A defence whose attributes cannot be set."""

    name = "still"

    def __call__(self, model, x, y, batch=None):
        return x


def test_a_run_sets_nothing_on_a_defence_of_ones_own():
    assert len(trained(network(), Still()).steps) == 8


def test_a_defence_of_ones_own_needs_a_call_alone():
    class Shift(gsat.defences.Defence):
        name = "shift"

        def __call__(self, model, x, y, batch=None):
            self.delta = torch.full_like(x, 0.5)
            return x + self.delta

    model, (x, y) = network(), group()
    defence = Shift()
    assert torch.equal(defence.outputs(model, x, y), model(x + 0.5))
    assert defence.mean_norm == pytest.approx(0.5 * D**0.5)
    defence.delta = None
    assert defence.mean_norm == 0


def test_blocks_that_move_are_counted():
    blocks = torch.arange(D) // 4
    counts = []
    for wrap in (nn.Sequential, Opaque):
        defence = gsat.defences.GSAT(gsat.GroupSparse(0.2, feature_groups=blocks), n_inner=6)
        trained(wrap(network()), defence)
        columns = int((defence.delta.abs().amax(0) > 0).sum())
        counts.append((defence.measure(), columns))
    assert counts[0] == counts[1]
    assert 0 < 4 * counts[0][0] == counts[0][1] < D


def test_dust_is_what_no_sum_can_tell_from_zero():
    g = torch.tensor([[1e-3, -2e-24, 3e-42], [-5e-20, 1e-45, 0.0]])
    assert dusted(g).tolist() == torch.tensor([[1e-3, 0, 0], [-5e-20, 0, 0]]).tolist()
    assert torch.equal(dusted(g.double()), g.double())
