"""A certificate is rigorous only for what gsat knows to the last part: any change of a module or a cost ends it."""

import copy
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import gsat
from gsat.costs import scaled
from gsat.theory.transforms import Transforms
from networks import COSTS, net
from strategies import normal

SIZES = (4, 5, 3)


def doubled(module, args, output):
    return 2 * output


class Loud(nn.Linear):
    def forward(self, x):
        return 3 * super().forward(x)


class LoudELU(nn.ELU):
    def forward(self, x):
        return 3 * super().forward(x)


class LoudSequence(nn.Sequential):
    def forward(self, x):
        return 3 * super().forward(x)


class Tripled(nn.Module):
    def forward(self, weight):
        return 3 * weight


class Swollen(nn.Parameter):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def hooked(model):
    model[-1].register_forward_hook(doubled)
    return model


def hooked_before(model):
    model[0].register_forward_pre_hook(lambda module, args: (2 * args[0],))
    return model


def hooked_backwards(model):
    model[0].register_full_backward_hook(lambda module, inputs, outputs: (0 * inputs[0],))
    return model


def hooked_container(model):
    model.register_forward_hook(doubled)
    return model


def replaced_forward(model):
    plain = model[0].forward
    model[0].forward = lambda x: 3 * plain(x)
    return model


def replaced_forward_of_all(model):
    plain = model.forward
    model.forward = lambda x: 3 * plain(x)
    return model


def replaced_call(model):
    plain = model[0]._call_impl
    model[0]._call_impl = lambda x: 3 * plain(x)
    return model


def replaced_units(model):
    model[1].forward = torch.sin
    return model


def loud_leaf(model):
    layer = Loud(4, 5).double()
    layer.load_state_dict(model[0].state_dict())
    model[0] = layer
    return model


def loud_units(model):
    model[1] = LoudELU()
    return model


def loud_container(model):
    return LoudSequence(*model)


def loud_inner_container(model):
    return nn.Sequential(LoudSequence(*model))


def parametrised(model):
    parametrize.register_parametrization(model[0], "weight", Tripled(), unsafe=True)
    return model


def weight_normed(model):
    parametrizations.weight_norm(model[0])
    return model


def hooked_weight_norm(model):
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(model[0])
    return model


def swollen_weight(model):
    model[0].weight = Swollen(model[0].weight.detach())
    return model


def flat_across_samples(model):
    return nn.Sequential(nn.Flatten(0), *model)


CHANGES = [
    hooked, hooked_before, hooked_backwards, hooked_container, replaced_forward, replaced_forward_of_all,
    replaced_call, replaced_units, loud_leaf, loud_units, loud_container, loud_inner_container, parametrised,
    weight_normed, hooked_weight_norm, swollen_weight, flat_across_samples,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_network_has_no_bound(change):
    assert gsat.curvature_bound(net(*SIZES)) > 0
    assert gsat.curvature_bound(change(net(*SIZES))) is None


@pytest.mark.parametrize("change", [hooked, replaced_units, loud_units], ids=lambda change: change.__name__)
def test_a_changed_network_has_no_rigorous_certificate(change):
    X, y = normal(30, 4, seed=0), torch.arange(30) % 3
    options = {"group_size": 5, "n_groups": 3, "n_inner": 5}
    plain = gsat.certify(net(*SIZES), X, y, 0.1, gsat.LowRank(0.2), **options)
    changed = gsat.certify(change(net(*SIZES)), X, y, 0.1, gsat.LowRank(0.2), **options)
    assert plain.table["rigorous"].any()
    assert not changed.table["rigorous"].any()
    assert changed.beta is None


def test_hooks_of_all_modules_count():
    handle = nn.modules.module.register_module_forward_hook(doubled)
    try:
        assert gsat.curvature_bound(net(*SIZES)) is None
    finally:
        handle.remove()
    assert gsat.curvature_bound(net(*SIZES)) is not None


def test_a_class_whose_forward_was_replaced_counts(monkeypatch):
    plain = nn.ELU.forward
    monkeypatch.setattr(nn.ELU, "forward", lambda self, x: 3 * plain(self, x))
    assert gsat.curvature_bound(net(*SIZES)) is None


@dataclass(frozen=True)
class Generous(gsat.LowRank):
    """Its own shrink is no prox of its value."""

    def shrink(self, v, tau):
        return v


@dataclass(frozen=True)
class Cheap(gsat.Universal):
    def value(self, delta):
        return 0 * super().value(delta)


class Batches(gsat.PerBatch):
    pass


def patched():
    cost = copy.copy(gsat.LowRank(0.2))
    object.__setattr__(cost, "shrink", lambda v, tau: v)
    return cost


@pytest.mark.parametrize(
    "cost",
    [Generous(0.2), Cheap(0.2), scaled(Generous(0.2), 0.7), gsat.PerBatch(Generous(0.2)), Batches(gsat.Universal(0.2)),
     patched()],
    ids=["shrink", "value", "scaled", "per batch", "batches", "patched"],
)  # fmt: skip
def test_a_cost_of_ones_own_has_no_rigorous_certificate(cost):
    X, y = normal(12, 4, seed=0), torch.arange(12) % 3
    found = Transforms.of(
        net(*SIZES), X, y, cost, loss=None, beta=1.0, n_inner=3, batch=y if isinstance(cost, gsat.PerBatch) else None
    )
    assert found.beta is None
    assert found.modulus(100.0) < 0


@pytest.mark.parametrize("cost", [*COSTS.values(), gsat.PerBatch(gsat.Universal(0.2))], ids=str)
def test_the_costs_of_gsat_have_one(cost):
    X, y = normal(12, 4, seed=0), torch.arange(12) % 3
    batch = y if isinstance(cost, gsat.PerBatch) else None
    assert Transforms.of(net(*SIZES), X, y, cost, loss=None, beta=1.0, n_inner=3, batch=batch).beta == 1.0
