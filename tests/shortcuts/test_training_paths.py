"""Training in the row space is training on the plain path, whatever the defence."""

import pickle
from copy import deepcopy
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import gsat
from gsat.models import seeded
from networks import Opaque

M, D, H, K = 24, 60, 7, 3


def network(dtype=torch.float64, before=(), after=()):
    with seeded(3):
        model = nn.Sequential(*before, nn.Flatten(), nn.Linear(D, H), *after, nn.ELU(), nn.Linear(H, K))
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.weight.data *= 4 * 0.97 ** torch.arange(layer.in_features)
    return model.to(dtype).train()


def group(dtype=torch.float64, shape=(D,)):
    x = torch.randn(M, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x.to(dtype), torch.arange(M) % K


def apart(found, expected):
    return float((found - expected).detach().norm() / expected.detach().norm())


DEFENCES = {
    "low-rank": lambda: gsat.defences.GSAT(gsat.LowRank(0.2), n_inner=6),
    "universal": lambda: gsat.defences.GSAT(gsat.Universal(0.2), n_inner=6),
    "group-sparse": lambda: gsat.defences.GSAT(
        gsat.GroupSparse(0.1), solver=gsat.Proximal(), n_inner=900
    ),  # its paths meet at the maximum
    "pgd": lambda: gsat.defences.PGD(1.5, steps=5),
    "fgm": lambda: gsat.defences.FGM(1.5),
}


def trained(model, defence, callbacks=()):
    x, y = group()
    return gsat.gdadmm(
        model, x, y, defence, n_outer=8, group_size=16, eta0=1e-2, budget=0.3, callbacks=callbacks
    )  # fmt: skip


@pytest.mark.parametrize("name", DEFENCES)
def test_training_is_as_on_the_plain_path(name):
    plain, model = network(), network()
    before, after = trained(Opaque(plain), DEFENCES[name]()), trained(model, DEFENCES[name]())
    assert apart(model[1].weight, plain[1].weight) <= 1e-6
    assert [step.measure for step in after.steps] == [step.measure for step in before.steps]
    norms = [[step.mean_norm for step in history.steps] for history in (before, after)]
    assert norms[1] == pytest.approx(norms[0], rel=1e-6)
    assert max(norms[0]) > 0


def test_what_a_model_does_to_its_input_in_training_is_done():
    for before, after in (((nn.Dropout(0.5),), ()), ((), (nn.BatchNorm1d(H), nn.Dropout(0.3)))):
        plain, model = (network(before=deepcopy(before), after=deepcopy(after)) for _ in range(2))
        for trainee in (Opaque(plain), model):
            with seeded(4):
                trained(trainee, DEFENCES["low-rank"]())
        for a, b in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


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


def test_a_layer_that_is_used_twice():
    layer = nn.Linear(D, H).double()
    model = nn.Sequential(layer, nn.ELU(), nn.Linear(H, D).double(), nn.ELU(), layer, nn.Linear(H, K).double())
    x, y = group()
    for cost, n_inner in ((gsat.LowRank(0.2), 20), (gsat.Universal(0.2), 20), (gsat.GroupSparse(0.1), 900)):
        adversary = gsat.Adversary(cost, lam=0.01, n_inner=n_inner)
        found, plain = (adversary(known, x, y) - x for known in (model, Opaque(model)))
        assert apart(found, plain) <= 1e-6


@pytest.mark.parametrize("wrap", [nn.Sequential, Opaque])
@pytest.mark.parametrize("name", DEFENCES)
def test_a_defence_that_was_used_can_be_pickled_and_copied(name, wrap):
    model, (x, y) = wrap(network(torch.float32)), group(torch.float32)
    defence = DEFENCES[name]()
    x_adv = defence(model, x, y)
    for again in (pickle.loads(pickle.dumps(defence)), deepcopy(defence)):
        torch.testing.assert_close(again.delta, defence.delta)
        assert again.mean_norm == pytest.approx(defence.mean_norm, rel=1e-5)
        assert again.mean_norm > 0
        torch.testing.assert_close(again(model, x, y), x_adv)


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
    assert len(trained(model, defence).steps) == 8
    defence(model, x, y)
    assert defence.mean_norm == pytest.approx(0.5 * D**0.5)
    defence.delta = None
    assert defence.mean_norm == 0


def test_blocks_that_move_are_counted():
    blocks = torch.arange(D) // 4
    counts = []
    for wrap in (nn.Sequential, Opaque):
        defence = gsat.defences.GSAT(gsat.GroupSparse(0.2, feature_groups=blocks), solver=gsat.Proximal(), n_inner=300)
        trained(wrap(network()), defence)
        columns = int((defence.delta.abs().amax(0) > 0).sum())
        counts.append((defence.measure(), columns))
    assert counts[0] == counts[1]
    assert 0 < 4 * counts[0][0] == counts[0][1] < D
