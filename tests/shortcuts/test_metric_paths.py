"""Problems in a metric: max_Z Σ ℓ(x_i + A·z_i) − λ·c(Z), on every path, for the adversary, `maximise` and attacks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import gsat
from gsat import attacks
from gsat.models import seeded
from gsat.shortcuts import choose
from gsat.shortcuts.row_space import RowSpace
from networks import Opaque
from strategies import normal

M, D, H, K = 24, 60, 7, 3
MASK = torch.arange(D) % 3 > 0
METRIC = gsat.Metric(
    torch.linalg.qr(normal(D, 5, seed=4)).Q.T.contiguous(), torch.linspace(0.3, 4.0, 5, dtype=torch.float64), 0.6
)
COSTS = [
    gsat.Universal(0.3),
    gsat.LowRank(0.3),
    gsat.LowRank(0.4, k=2),
    gsat.GroupSparse(0.2),
    gsat.Unstructured(),
    gsat.PerBatch(gsat.Universal(0.3), n_random=4),
]
SOLVERS = [gsat.Proximal(), gsat.ADMM(rho=1.7, eta1=0.05), gsat.Linearised()]
ATTACKS = [attacks.Universal(1.5), attacks.LowRank(1.5, rank=2), attacks.GroupSparse(1.5, k=5), attacks.PGD(1.5)]


def network():
    with seeded(3):
        model = nn.Sequential(nn.Flatten(), nn.Linear(D, H), nn.ELU(), nn.Linear(H, K))
    for weight in model.parameters():
        weight.data *= 2.5
    return model.double().eval()


class InZ(nn.Module):
    """The model as a function of z, for samples x = x_0 + A·z."""

    def __init__(self, model, metric):
        super().__init__()
        self.model, self.metric = model, metric

    def forward(self, z):
        directions, stretch, rest = self.metric.directions, self.metric.stretch, self.metric.rest
        return self.model(rest * z + (z @ directions.T * (stretch - rest)) @ directions)


def group():
    return normal(M, D, seed=1), torch.arange(M) % K


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: type(cost).__name__)
def test_it_is_the_isotropic_problem_of_the_model_behind_the_map(cost, solver):
    x, y = group()
    options = {"lam": 0.3, "solver": solver, "n_inner": 30}
    adversary = gsat.Adversary(cost, metric=METRIC, **options)
    moved = adversary(Opaque(network()), x, y)
    plain = gsat.Adversary(cost, **options)
    plain(InZ(network(), METRIC), METRIC.solve(x), y)
    torch.testing.assert_close(adversary.last.delta, METRIC.apply(plain.last.delta), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(moved, x + adversary.last.delta)
    assert adversary.last.objective == pytest.approx(plain.last.objective, rel=1e-8)


@pytest.mark.parametrize("mask", [None, MASK], ids=["free", "masked"])
@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: type(cost).__name__)
def test_the_row_space_gives_what_the_plain_path_gives(cost, mask):
    x, y = group()
    assert isinstance(choose(network(), x, mask, rotates=True, metric=METRIC), RowSpace)
    found = []
    n_inner = 500 if isinstance(cost, gsat.GroupSparse) else 30  # its paths meet at the maximum, the others all the way
    for model in (network(), Opaque(network())):
        adversary = gsat.Adversary(cost, lam=0.3, n_inner=n_inner, metric=METRIC, feature_mask=mask)
        moved = adversary(model, x, y)
        torch.testing.assert_close(moved, x + adversary.last.delta)
        found.append(adversary.last)
    assert float(found[0].delta.norm()) > 0.1
    torch.testing.assert_close(found[0].delta, found[1].delta, rtol=1e-6, atol=1e-6)
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-8)
    if mask is not None:
        assert not found[0].delta[:, ~mask].any()


@pytest.mark.parametrize("cost", COSTS[:-1], ids=lambda cost: type(cost).__name__)
def test_maximise_is_what_the_adversary_does(cost):
    x, y = group()
    model = Opaque(network())
    options = {"lam": 0.3, "metric": METRIC, "feature_mask": MASK, "bounds": (-1.5, 1.5)}
    adversary = gsat.Adversary(cost, **options)
    adversary(model, x, y)
    found = gsat.maximise(lambda v: cross_entropy(model(v), y, reduction="none"), x, cost, **options)
    torch.testing.assert_close(found.delta, adversary.last.delta, rtol=1e-9, atol=1e-9)


def test_bounds_hold_for_what_the_model_sees():
    x, y = group()
    moved = gsat.Adversary(gsat.LowRank(0.3), lam=0.05, metric=METRIC, bounds=(-1.0, 1.0))(network(), x, y)
    assert float(moved.abs().max()) <= 1.0


def test_moving_along_the_metric_is_cheap():
    """With a linear model the best shift is A²·w: along a stretched direction it goes farther than across it."""
    direction = METRIC.directions[-1]  # stretched by 4
    across = torch.linalg.qr(torch.cat([METRIC.directions, normal(1, D, seed=9)]).T).Q[:, -1]
    x, _ = group()

    def loss(v):
        return v @ (direction + across)

    found = gsat.maximise(loss, x, gsat.Unstructured(), lam=0.7, metric=METRIC).delta
    expected = (16 * direction + 0.36 * across) / (2 * 0.7)
    torch.testing.assert_close(found, expected.expand_as(found), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mask", [None, MASK], ids=["free", "masked"])
@pytest.mark.parametrize("strength", ["fast", "standard"])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attacks_have_their_structure_in_z(attack, strength, mask):
    x, y = group()
    attack = replace(attack, metric=METRIC, steps=20, strength=strength, feature_mask=mask)
    delta = attack.perturb(network(), x, y)
    inside = METRIC.restricted(mask)
    z = inside.solve(delta)
    assert float(z.norm(dim=1).max()) <= 1.5 * (1 + 1e-6)
    assert float(z.norm(dim=1).max()) >= 1.4
    if mask is not None:
        assert not delta[:, ~mask].any()
    if attack.name == "universal":
        torch.testing.assert_close(z, z[:1].expand_as(z))
    elif attack.name == "group-sparse":
        assert int((z.abs() > 1e-9).any(0).sum()) <= 5
    elif attack.name == "low-rank":
        assert float(torch.linalg.svdvals(z)[2]) <= 1e-9 * float(torch.linalg.svdvals(z)[0])
    other = attack.perturb(Opaque(network()), x, y)
    with torch.no_grad():
        losses = [float(cross_entropy(network()(x + moved), y)) for moved in (torch.zeros_like(x), delta, other)]
    assert losses[1] > 1.3 * losses[0]
    assert losses[2] == pytest.approx(losses[1], rel=0.1)


def test_attacks_in_a_metric_are_fitted_and_applied():
    x, y = group()
    for attack in ATTACKS[:3]:
        attack = replace(attack, metric=METRIC, steps=20)
        z = METRIC.solve(attack.fit(network(), x, y).apply(network(), x[:10] + 0.1, y[:10]))
        assert z.shape == (10, D)
        assert float(z.norm(dim=1).max()) <= 1.5 * (1 + 1e-6)


def test_pgd_in_a_metric_stays_in_the_box():
    x, y = group()
    x = x.clamp(-1, 1)
    delta = attacks.PGD(1.5, metric=METRIC, bounds=(-1.0, 1.0), steps=20).perturb(network(), x, y)
    assert float((x + delta).abs().max()) <= 1 + 1e-9
    assert float(METRIC.solve(delta).norm(dim=1).max()) <= 1.5 * (1 + 1e-9)


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: type(cost).__name__)
def test_training_reaches_its_budget_in_z(cost):
    X, y = normal(300, D, seed=5).float(), torch.arange(300) % K
    X[:, :K] += 3 * torch.eye(K)[y]
    defence = gsat.defences.GSAT(cost, metric=METRIC, n_inner=5)
    with seeded(0):
        model = nn.Sequential(nn.Linear(D, H), nn.ELU(), nn.Linear(H, K))
    history = gsat.gdadmm(model, X, y, defence, n_outer=200, group_size=50, budget=0.1)
    assert history.mean_norm == pytest.approx(0.1 * gsat.mean_norm(X), rel=0.25)
    assert all(bool(weight.isfinite().all()) for weight in model.parameters())
    assert defence.delta.shape == (50, D)
    z = METRIC.solve(defence.delta)
    np.testing.assert_allclose(z.norm(dim=1).mean(), defence.mean_norm, rtol=1e-4)


@pytest.mark.parametrize("strength", ["fast", "standard"])
def test_columns_keep_their_structure_in_a_metric_with_a_box(strength):
    """Cutting x + A·z to the box would move every column of z."""
    x, y = normal(M, D, seed=0).clamp(-1, 1), torch.arange(M) % K
    attack = attacks.GroupSparse(1.5, k=5, metric=METRIC, bounds=(-1.0, 1.0), steps=20, strength=strength)
    z = METRIC.solve(attack.perturb(network(), x, y))
    assert int((z.abs().amax(0) > 1e-9).sum()) <= 5
    assert 0 < float(z.norm(dim=1).max()) <= 1.5 * (1 + 1e-6)
