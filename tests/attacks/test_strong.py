"""Losses by name, the worst of several searches, and what makes an attack look weak."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gsat
from gsat.attacks import FGM, PGD, GroupSparse, LowRank, Universal
from gsat.losses import BoundedMargin, dlr, margin
from gsat.models import build
from strategies import normal


class Times(nn.Module):
    """The same classifier with logits in other units."""

    def __init__(self, inner: nn.Module, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * self.inner(x)


@pytest.fixture(scope="module")
def digits() -> tuple[nn.Module, Tensor, Tensor, float]:
    """An ELU net trained on the digits, 200 test samples, and E‖X‖."""
    table = gsat.data.load("digits")
    X, y = torch.as_tensor(table.X).float(), torch.as_tensor(table.y).long()
    model = build("elu", (64,), 10, hidden=50)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        optimizer.zero_grad()
        cross_entropy(model(X[:1400]), y[:1400]).backward()
        optimizer.step()
    return model.eval(), X[1500:1700], y[1500:1700], gsat.mean_norm(X)


def every(eps: float, **options: Any) -> list[gsat.attacks.Attack]:
    return [
        Universal(eps, **options),
        GroupSparse(eps, k=6, **options),
        LowRank(eps, rank=2, **options),
        PGD(eps, **options),
    ]


def errors(model: nn.Module, x: Tensor, y: Tensor, delta: Tensor) -> int:
    with torch.no_grad():
        return int((model(x + delta).argmax(1) != y).sum())


def test_margin_and_its_kin() -> None:
    logits = torch.tensor([[3.0, 1.0, 0.5], [0.0, 2.0, 5.0], [1.0, 1.5, -2.0]], dtype=torch.float64)
    y = torch.tensor([0, 1, 0])
    expected = torch.tensor([-2.0, 3.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(margin(logits, y), expected)
    torch.testing.assert_close(BoundedMargin(2.0)(logits, y), (expected / 2).sigmoid())
    torch.testing.assert_close(dlr(logits, y), torch.tensor([-2 / 2.5, 3 / 5, 0.5 / 3.5], dtype=torch.float64))
    torch.testing.assert_close(dlr(7 * logits, y), dlr(logits, y))
    torch.testing.assert_close(
        BoundedMargin.fitting(7 * logits, y)(7 * logits, y), BoundedMargin.fitting(logits, y)(logits, y)
    )
    wide = torch.tensor([[0.0, 0.01], [0.0, 0.01], [0.0, 1000.0]], requires_grad=True)
    BoundedMargin.fitting(wide, torch.tensor([1, 1, 1]))(wide, torch.tensor([1, 1, 1])).sum().backward()
    assert wide.grad is not None
    assert bool((wide.grad != 0).all())
    with pytest.raises(ValueError, match='loss="dlr" needs at least 3 classes, got 2; take loss="margin"'):
        dlr(logits[:, :2], torch.tensor([0, 1, 0]))


def test_bad_names_are_refused() -> None:
    with pytest.raises(ValueError, match="loss must be one of cross-entropy, margin, dlr, got 'hinge'"):
        PGD(1.0, loss="hinge")
    with pytest.raises(ValueError, match="strength must be one of fast, standard, strong, got 'weak'"):
        Universal(1.0, strength="weak")


def test_the_worst_of_several_searches_is_no_weaker_than_one(digits: Any) -> None:
    model, x, y, unit = digits
    for fast, standard, strong in zip(
        *(every(0.15 * unit, steps=20, strength=strength) for strength in ("fast", "standard", "strong")), strict=True
    ):
        found = [errors(model, x, y, attack.perturb(model, x, y)) for attack in (fast, standard, strong)]
        assert errors(model, x, y, torch.zeros_like(x)) < found[0] <= found[1] <= found[2], fast


@pytest.mark.parametrize("strength", ["standard", "strong"])
def test_the_structure_holds_in_every_search(digits: Any, strength: str) -> None:
    model, x, y, unit = digits
    eps = 0.1 * unit
    for attack in every(eps, steps=10, strength=strength):
        delta = attack.perturb(model, x, y).double()
        assert float(delta.norm(dim=1).max()) <= eps * (1 + 1e-6)
        if isinstance(attack, Universal):
            assert float((delta - delta[0]).abs().max()) <= 1e-6 * float(delta.abs().max())
        elif isinstance(attack, GroupSparse):
            assert int((delta != 0).any(0).sum()) <= attack.k
        elif isinstance(attack, LowRank):
            sigma = torch.linalg.svdvals(delta)
            assert float(sigma[attack.rank]) <= 1e-5 * float(sigma[0])


def small_conv(seed: int, x: Tensor, y: Tensor) -> nn.Module:
    """A convolutional net for images of 8 by 8, trained for a moment."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(128, 10),
        )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    batches = list(zip(x.split(200), y.split(200), strict=True))
    for step in range(150):
        group, labels = batches[step % len(batches)]
        optimizer.zero_grad()
        cross_entropy(model(group), labels).backward()
        optimizer.step()
    return model.eval().requires_grad_(False)


def adam_on_the_shift(model: nn.Module, x: Tensor, y: Tensor, eps: float, gradients: int) -> int:
    """The most errors on the way of a shift that climbs σ(margin) by Adam."""
    shift = torch.zeros_like(x[:1]).requires_grad_()
    optimizer, most = torch.optim.Adam([shift], lr=0.1 * eps), 0
    for _ in range(gradients + 1):
        found = margin(model(x + shift * (eps / shift.norm().clamp(min=eps))), y)
        most = max(most, int((found > 0).sum()))
        optimizer.zero_grad()
        (-found.sigmoid().sum()).backward()
        optimizer.step()
    return most


def test_one_long_ascent_is_no_stronger() -> None:
    """Adam on the shift with as many gradients: 573 errors of 1,200 where standard has 586."""
    table = gsat.data.load("digits")
    X, y = torch.as_tensor(table.X).float(), torch.as_tensor(table.y).long()
    x, labels, unit = X[1500:1700], y[1500:1700], gsat.mean_norm(X)
    ours = adam = 0
    for model in (small_conv(seed, X[:1400], y[:1400]) for seed in range(3)):
        for eps in (0.2 * unit, 0.3 * unit):
            delta = Universal(eps, steps=20, strength="standard").perturb(model, x, labels)
            ours += errors(model, x, labels, delta)
            adam += adam_on_the_shift(model, x, labels, eps, 60)
    assert ours >= adam - 3


@pytest.mark.parametrize("steps", [1, 4, 20])
def test_standard_takes_three_times_the_gradients(digits: Any, steps: int) -> None:
    model, x, y, unit = digits
    taken = 0

    class Counting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            z = model(x)
            if z.requires_grad:
                z.register_hook(count)
            return z

    def count(gradient: Tensor) -> None:
        nonlocal taken
        taken += 1

    for attack in every(0.1 * unit, steps=steps, strength="standard"):
        taken = 0
        attack.perturb(Counting().eval(), x, y)
        assert 2 * steps < taken <= 3 * steps, attack


def test_errors_count_before_the_loss(digits: Any) -> None:
    """With a name for its loss an attack keeps the point with the most errors, with a function the largest loss."""
    model, x, y, unit = digits
    found = {
        kind: Universal(0.3 * unit, steps=40, loss=loss).perturb(model, x, y)
        for kind, loss in {"name": "cross-entropy", "function": gsat.losses.per_sample_cross_entropy}.items()
    }
    losses = {kind: float(cross_entropy(model(x + delta).detach().double(), y)) for kind, delta in found.items()}
    assert errors(model, x, y, found["name"]) >= errors(model, x, y, found["function"])
    assert losses["function"] >= losses["name"] * (1 - 1e-6)


def test_the_margin_does_not_see_the_units_of_the_logits(digits: Any) -> None:
    model, x, y, unit = digits
    for attack in every(0.1 * unit, steps=15, loss="margin"):
        found = [errors(model, x, y, attack.perturb(Times(model, factor).eval(), x, y)) for factor in (1.0, 64.0)]
        assert abs(found[0] - found[1]) <= 2, attack


@pytest.mark.filterwarnings("ignore:the gradient is exactly zero")
def test_flat_losses_are_seen(digits: Any) -> None:
    model, x, y, unit = digits
    sure = Times(model, 100.0).eval()
    with pytest.warns(UserWarning, match='the cross-entropy is flat .* take strength="standard", or loss="margin"'):
        table = gsat.evaluate(sure, x, y, [PGD(0.1 * unit, steps=10)])
    assert table["masked"][1] > 0.1
    assert list(table["search"]) == ["", "fast"]
    trusted = gsat.evaluate(sure, x, y, [PGD(0.1 * unit, steps=10)], strength="standard")  # no warning: errors are
    plain = gsat.evaluate(model, x, y, [PGD(0.1 * unit, steps=10)], strength="standard")
    assert abs(trusted["accuracy"][1] - plain["accuracy"][1]) <= 0.06


@pytest.mark.filterwarnings("ignore:the gradient is exactly zero")
def test_a_perturbation_of_another_model_is_tried() -> None:
    """The steps of the rounded model hide every slope: only what was found on the other model breaks it."""

    class Rounded(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            z = self.inner(x)
            return z.round() + 0 * z

    x = normal(30, 5, seed=0, dtype=torch.float32)
    open_model = nn.Linear(5, 3).eval()
    with torch.no_grad():
        open_model.weight.copy_(3 * normal(3, 5, seed=1, dtype=torch.float32))
    y = open_model(x).argmax(1)
    hidden = Rounded(open_model).eval()
    attack = Universal(1.0, steps=10, strength="standard")
    alone = errors(hidden, x, y, attack.perturb(hidden, x, y))
    helped = errors(hidden, x, y, attack.perturb(hidden, x, y, surrogate=open_model))
    assert helped > alone


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_of_half_precision(dtype: torch.dtype) -> None:
    model = build("elu", (12,), 3, hidden=8).eval().to(dtype)
    x, y = normal(9, 12, seed=1, dtype=torch.float32).to(dtype), torch.arange(9) % 3
    for attack in [*every(0.7, steps=6), FGM(0.7), LowRank(0.7, rank=2, steps=6, strength="standard")]:
        delta = attack.perturb(model, x, y)
        assert delta.dtype == dtype
        assert 0 < float(delta.double().norm(dim=1).max()) <= 0.7


def test_pgd_goes_into_the_box_and_the_ball(digits: Any) -> None:
    model, x, y, unit = digits
    lo, hi = float(x.min()), float(x.max())
    eps = 0.3 * unit
    boxed = PGD(eps, steps=20, bounds=(lo, hi))
    delta = boxed.perturb(model, x, y)
    moved = x + delta
    room = 1e-5 * (hi - lo)
    assert lo - room <= float(moved.min())
    assert float(moved.max()) <= hi + room
    assert float(delta.double().norm(dim=1).max()) <= eps * (1 + 1e-6)
    clamped = (x + PGD(eps, steps=20).perturb(model, x, y)).clamp(lo, hi) - x
    assert errors(model, x, y, delta) >= errors(model, x, y, clamped)
