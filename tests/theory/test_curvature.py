"""The curvature bound against Hessians, closed forms, and networks for which there is none."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import gsat
from gsat.models import ELUNet, build
from networks import net
from strategies import normal


def top_curvature(model, x, y):
    """The largest absolute eigenvalue of ∇²ℓ in x, ℓ the cross-entropy of one sample."""
    hessian = torch.autograd.functional.hessian(lambda z: cross_entropy(model(z[None]), y[None]), x)
    return float(torch.linalg.eigvalsh(hessian).abs().max())


@pytest.mark.parametrize("sizes", [(6, 4), (5, 7, 3), (3, 20, 2), (9, 4, 6), (4, 6, 5, 3), (3, 4, 4, 4, 2)], ids=str)
@pytest.mark.parametrize("gain", [0.5, 3.0])
def test_no_curvature_is_above_the_bound(sizes, gain):
    largest = 0.0
    for seed in range(4):
        model = net(*sizes, seed=seed, gain=gain)
        beta = gsat.curvature_bound(model)
        for i, x in enumerate(normal(25, sizes[0], seed=seed) * torch.logspace(-2, 1, 25)[:, None].double()):
            largest = max(largest, top_curvature(model, x, torch.tensor(i % sizes[-1])) / beta)
    assert largest <= 1 + 1e-9
    assert largest > 0.005  # and it is of use


def test_the_bound_is_sharp_for_two_classes_without_a_hidden_layer():
    model = net(5, 2, gain=2.0)
    weight, bias = model[0].weight.detach(), model[0].bias.detach()
    apart, offset = weight[1] - weight[0], bias[1] - bias[0]
    even = -offset * apart / apart.square().sum()  # both classes have probability ½
    assert top_curvature(model, even, torch.tensor(1)) == pytest.approx(gsat.curvature_bound(model), rel=1e-9)


def test_the_bound_of_a_unit_is_sharp_up_to_the_probabilities():
    """One input, one unit just below its bend: ℓ″ = w²(p(1−p)·t² + (1−p)·t), t apart are the logits' weights."""
    model = net(1, 1, 2)
    with torch.no_grad():
        for weight, value in zip(model.parameters(), ([[3.0]], [0.0], [[-0.4], [0.7]], [0.0, 0.3]), strict=True):
            weight.copy_(torch.tensor(value, dtype=torch.float64))
    p, t = 1 / (1 + np.exp(0.3)), 1.1
    exact = 9 * (p * (1 - p) * t**2 + (1 - p) * t)
    assert top_curvature(model, torch.tensor([-1e-9]).double(), torch.tensor(0)) == pytest.approx(exact, rel=1e-6)
    assert gsat.curvature_bound(model) == pytest.approx(9 * (0.25 * t**2 + t), rel=1e-12)


def test_the_bound_of_two_units_in_a_row_is_sharp_up_to_the_probabilities():
    """Both just below their bends: ℓ″ = w₁²(w₂²·p(1−p)t² + w₂²·(1−p)t + w₂·(1−p)t)."""
    model = net(1, 1, 1, 2)
    values = ([[3.0]], [0.0], [[0.5]], [-1e-12], [[-0.4], [0.7]], [0.0, 0.3])
    with torch.no_grad():
        for weight, value in zip(model.parameters(), values, strict=True):
            weight.copy_(torch.tensor(value, dtype=torch.float64))
    p, t = 1 / (1 + np.exp(0.3)), 1.1
    exact = 9 * (0.25 * p * (1 - p) * t**2 + 0.25 * (1 - p) * t + 0.5 * (1 - p) * t)
    assert top_curvature(model, torch.tensor([-1e-9]).double(), torch.tensor(0)) == pytest.approx(exact, rel=1e-6)
    assert gsat.curvature_bound(model) == pytest.approx(9 * (0.25 * 0.25 * t**2 + 0.25 * t + 0.5 * t), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_one_hidden_layer_is_within_the_closed_form(seed):
    model = net(7, 12, 4, seed=seed, gain=1.5)
    first, second = model[0].weight.detach(), model[2].weight.detach()
    most = float((second.amax(0) - second.amin(0)).max())
    norms = [float(torch.linalg.matrix_norm(w, 2)) for w in (first, second)]
    closed = norms[0] ** 2 * (norms[1] ** 2 / 2 + most)
    assert 0.3 * closed < gsat.curvature_bound(model) <= closed


def test_layers_without_units_between_them_are_one():
    joined = nn.Sequential(
        nn.Flatten(), nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5)), nn.Linear(6, 5), nn.ELU(), nn.Linear(5, 3)
    )
    joined.double()
    plain = net(4, 5, 3)
    with torch.no_grad():
        plain[0].weight.copy_(joined[2].weight @ joined[1][0].weight)
        plain[2].weight.copy_(joined[4].weight)
    assert gsat.curvature_bound(joined) == pytest.approx(gsat.curvature_bound(plain), rel=1e-12)
    assert gsat.curvature_bound(ELUNet(4, 3)) > 0


class Skip(nn.Sequential):
    def forward(self, x):
        return 3 * super().forward(x)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4), nn.ELU(0.5), nn.Linear(4, 2)),  # its slope jumps at 0
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ELU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4), nn.ELU()),
        nn.Sequential(nn.ELU(), nn.Linear(3, 4)),
        Skip(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, 2)),
        build("alexnet", (1, 8, 8), 3, width=0.1),
    ],
    ids=lambda model: type(model[1]).__name__,
)
def test_other_networks_are_not_guessed_at(model):
    assert gsat.curvature_bound(model) is None
