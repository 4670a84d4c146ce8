"""GroupDRO, CORAL and random draws: their formulas, by hand, and where they are ERM."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import gsat
from gsat.defences import ERM
from gsat.losses import per_sample_cross_entropy
from gsat.models import build
from gsat.rivals import CORAL, GroupDRO, RandomDraws
from gsat.training import gdadmm
from strategies import normal

M, D, H = 24, 7, 5
BATCH = np.array(["a", "b", "b", "c"] * 6)


def group():
    return normal(M, D, seed=1), torch.arange(M) % 3


def network(hidden=H):
    return build("elu", (D,), 3, hidden=hidden, seed=2).double()


def weights(model):
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def slopes(defence, model, batch):
    """The gradient of the objective in all weights."""
    x, y = group()
    model.zero_grad()
    defence.objective(model, x, y, per_sample_cross_entropy, batch).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


# GroupDRO


def test_group_dro_weighs_batches_by_their_losses():
    (x, y), model, step = group(), network(), 0.7
    losses = per_sample_cross_entropy(model(x), y).detach()
    means = torch.stack([losses[torch.from_numpy(one == BATCH)].mean() for one in "abc"])
    defence = GroupDRO(step, "abc")
    for times in (1, 2):  # the weights add up over the groups
        found = defence.objective(model, x, y, per_sample_cross_entropy, BATCH)
        share = (times * step * means).exp()
        assert found.item() == pytest.approx(float((share * means).sum() / share.sum()), rel=1e-10)
    assert torch.equal(defence(model, x, y, BATCH), x)


def test_group_dro_normalises_over_the_batches_of_the_group():
    (x, y), model = group(), network()
    defence = GroupDRO(0.5, "abcd")
    some = BATCH != "c"
    found = defence.objective(model, x[some], y[some], per_sample_cross_entropy, BATCH[some])
    losses = per_sample_cross_entropy(model(x[some]), y[some]).detach()
    a, b = (losses[torch.from_numpy(BATCH[some] == one)].mean() for one in "ab")
    p = 1 / (1 + math.exp(0.5 * float(b - a)))
    assert found.item() == pytest.approx(p * float(a) + (1 - p) * float(b), rel=1e-10)
    assert defence.log_weights[2:].tolist() == [0, 0]


def test_group_dro_is_told_all_batches():
    (x, y), model = group(), network()
    with pytest.raises(ValueError, match=r"batch must hold ids of \['a', 'b'\], got 'c'"):
        GroupDRO(0.1, "ab").objective(model, x, y, per_sample_cross_entropy, BATCH)
    with pytest.raises(ValueError, match="step must be >= 0, got -1"):
        GroupDRO(-1)


# CORAL


def test_coral_adds_the_mean_over_pairs_of_batches():
    (x, y), model, strength = group(), network(), 3.0
    seen = model[:-1](x).detach().numpy()
    spread = [np.cov(seen[one == BATCH], rowvar=False) for one in "abc"]
    pairs = [np.square(spread[i] - spread[j]).sum() / (4 * H**2) for i, j in ((0, 1), (0, 2), (1, 2))]
    plain = per_sample_cross_entropy(model(x), y).mean()
    found = CORAL(strength).objective(model, x, y, per_sample_cross_entropy, BATCH)
    assert found.item() == pytest.approx(plain.item() + strength * np.mean(pairs), rel=1e-10)


def test_coral_leaves_out_batches_of_one_sample():
    (x, y), model = group(), network()
    lone = np.array(["a"] * (M - 1) + ["b"])
    plain = per_sample_cross_entropy(model(x), y).mean().item()
    assert CORAL(9.0).objective(model, x, y, per_sample_cross_entropy, lone).item() == pytest.approx(plain, rel=1e-12)


def test_coral_needs_a_last_layer():
    class Other(nn.Module):
        def forward(self, x):
            return x

    x, y = group()
    with pytest.raises(ValueError, match=r"model must be a torch.nn.Sequential for CORAL, got Other"):
        CORAL(1.0).objective(Other(), x, y, per_sample_cross_entropy, BATCH)


# both


@pytest.mark.parametrize("make", [lambda: GroupDRO(0.3, "abc"), lambda: CORAL(30.0)], ids=["group-dro", "coral"])
def test_gradients_flow_and_differ_from_erm_with_batches_alone(make):
    model = network()
    plain = slopes(ERM(), model, BATCH)
    for batch in (None, np.array(["a"] * M)):
        torch.testing.assert_close(slopes(make(), model, batch), plain, rtol=1e-10, atol=1e-12)
    other = slopes(make(), model, BATCH)
    assert other.isfinite().all()
    assert float((other - plain).norm()) > 1e-3 * float(plain.norm())


def test_coral_does_nothing_to_a_linear_model():
    model = network(hidden=0)
    torch.testing.assert_close(slopes(CORAL(5.0), model, BATCH), slopes(ERM(), model, BATCH))


# random draws


def test_random_draws_have_one_length_in_the_metric():
    x, y = group()
    directions = torch.linalg.qr(normal(D, 2, seed=3)).Q.T
    metric = gsat.Metric(directions, torch.tensor([3.0, 2.0], dtype=torch.float64), 0.5)
    defence = RandomDraws(0.4, metric=metric, generator=torch.Generator().manual_seed(5))
    moved = defence(network(), x, y)
    torch.testing.assert_close(defence.delta, moved - x)
    torch.testing.assert_close(metric.solve(defence.delta).norm(dim=1), torch.full((M,), 0.4).double())
    assert not torch.allclose(defence.delta.norm(dim=1), defence.delta.norm(dim=1)[:1])
    plain = RandomDraws(0.4)
    plain(network(), x, y)
    assert plain.mean_norm == pytest.approx(0.4)


def test_random_draws_go_on_where_they_were():
    x, y = group()
    defence, other = RandomDraws(1.0), RandomDraws(1.0)
    first = defence(network(), x, y)
    assert torch.equal(other(network(), x, y), first)
    state = {name: value.clone() for name, value in defence.state_dict().items()}
    second = defence(network(), x, y)
    assert not torch.equal(first, second)
    other.load_state_dict(state)
    assert torch.equal(other(network(), x, y), second)


# in training


MAKERS = {"group-dro": lambda: GroupDRO(0.3, "abc"), "coral": lambda: CORAL(5.0), "random": lambda: RandomDraws(0.5)}


def trained(defence, folder=None, n_outer=8, resume=False, callbacks=()):
    model, (x, y) = network(), group()
    gdadmm(
        model, x, y, defence, n_outer=n_outer, group_size=10, batch=BATCH, eta0=0.05, out=folder, resume=resume,
        checkpoint_every=3, callbacks=callbacks,
    )  # fmt: skip
    return weights(model)


class StopError(Exception):
    pass


@pytest.mark.parametrize("name", MAKERS)
def test_a_resumed_run_equals_an_unbroken_one(name, tmp_path):
    def stop(step, model):
        if step.t == 6:
            raise StopError

    make = MAKERS[name]
    whole = trained(make())
    assert torch.equal(trained(make()), whole)
    assert not torch.equal(trained(ERM()), whole)
    with pytest.raises(StopError):
        trained(make(), tmp_path, callbacks=(stop,))
    assert torch.equal(trained(make(), tmp_path, resume=True), whole)
