"""Losses by name, the worst of several searches, and what makes an attack look weak."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gsat
from gsat.attacks import PGD, GroupSparse, LowRank, Universal
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


def test_samples_that_cannot_be_seen_are_told_with_the_remedy(digits: Any) -> None:
    """Of the samples without a slope those count that are not wrong yet, and only a fast attack relies on one loss."""
    model, x, y, unit = digits
    sure = Times(model, 1e4).eval()
    right = int((model(x[:50]).argmax(1) == y[:50]).sum())
    with pytest.warns(UserWarning, match='of 50 samples.* take loss="margin" or strength="standard"') as caught:
        PGD(0.1 * unit, steps=2)(sure, x, y)
    told = int(str(caught[0].message).split("zero for ")[1].split()[0])
    assert 0 < told <= right
    PGD(0.1 * unit, steps=2, strength="standard")(sure, x, y)  # a warning is an error
    wrong = (y + 1) % 10
    seen = model(x).argmax(1) == y
    PGD(0.1 * unit, steps=2)(sure, x[seen], wrong[seen])


def test_probabilities_are_told_for_every_attack(digits: Any) -> None:
    model, x, y, unit = digits
    chances = nn.Sequential(model, nn.Softmax(1)).eval()
    with pytest.warns(UserWarning, match="returns probabilities"):
        PGD(0.1 * unit, steps=2, loss="cross-entropy")(chances, x, y)
    with pytest.warns(UserWarning, match="returns probabilities"):
        gsat.evaluate(chances, x, y, [PGD(0.1 * unit, steps=2), PGD(0.1 * unit, steps=2, loss="margin")])
    gsat.evaluate(chances, x, y, [PGD(0.1 * unit, steps=2, loss="margin")])  # which probabilities do not hurt


def test_samples_outside_the_bounds_are_told(digits: Any) -> None:
    model, x, y, unit = digits
    lo, hi = float(x.min()), float(x.max())
    attack = PGD(0.1 * unit, steps=2, bounds=(lo, hi))
    attack(model, x, y)
    moved = x.clone()
    moved[0, :32] = hi + 1
    with pytest.warns(UserWarning, match=r"^0.2% of the entries of x are outside bounds .* units that the module sees"):
        attack(model, moved, y)
    with pytest.warns(UserWarning, match="of the entries of x are outside bounds") as caught:
        gsat.evaluate(model, moved, y, [attack, Universal(0.1 * unit, steps=2, bounds=(lo, hi))])
    assert len(caught) == 1


@pytest.mark.filterwarnings("ignore:the gradient is exactly zero")
def test_flat_losses_are_seen(digits: Any) -> None:
    model, x, y, unit = digits
    sure = Times(model, 100.0).eval()
    told = r'the cross-entropy is flat \(median \d.* take strength="standard", or loss="margin"'  # not median -0
    with pytest.warns(UserWarning, match=told):
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


def test_columns_stay_in_the_box_in_every_search(digits: Any) -> None:
    model, x, y, unit = digits
    lo, hi = float(x.min()), float(x.max())
    room = 1e-5 * (hi - lo)
    attack = GroupSparse(0.15 * unit, k=3, steps=20, strength="strong", bounds=(lo, hi))
    for group, labels in zip(x[:40].split(2), y[:40].split(2), strict=True):
        moved = group + attack.perturb(model, group, labels)
        assert lo - room <= float(moved.min())
        assert float(moved.max()) <= hi + room


@pytest.mark.parametrize("strength", ["standard", "strong"])
@pytest.mark.parametrize("loss", ["margin", "cross-entropy"])
def test_two_classes(loss: str, strength: str) -> None:
    model = nn.Linear(6, 2).eval()
    x = normal(20, 6, seed=3, dtype=torch.float32)
    y = model(x).argmax(1)
    for attack in every(0.5, steps=6, loss=loss, strength=strength):
        delta = attack.perturb(model, x, y)
        assert errors(model, x, y, delta) > 0, attack


@pytest.mark.parametrize("strength", ["fast", "standard", "strong"])
def test_a_loss_of_ones_own_needs_no_classes(strength: str) -> None:
    model = nn.Linear(6, 1).eval()
    x = normal(20, 6, seed=4, dtype=torch.float32)

    def square(outputs: Tensor, y: Tensor) -> Tensor:
        return 0.5 * (outputs[:, 0] - y).square()

    def binary(outputs: Tensor, y: Tensor) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], y.float(), reduction="none")

    for loss, y in ((square, x.sum(1)), (binary, torch.arange(20) % 2)):
        for attack in every(0.5, steps=6, loss=loss, strength=strength):
            delta = attack(model, x, y)
            with torch.no_grad():
                assert float(loss(model(x + delta), y).sum()) > float(loss(model(x), y).sum()), attack


@pytest.mark.parametrize("strength", ["standard", "strong"])
def test_a_loss_of_ones_own_is_searched_with_alone(digits: Any, strength: str) -> None:
    """Labels of classes allow shifts towards one as starts; the loss is the user's in every search."""
    model, x, y, unit = digits
    loss = gsat.losses.per_sample_cross_entropy
    found = {}
    for kind in ("fast", strength):
        for attack in every(0.2 * unit, steps=10, loss=loss, strength=kind):
            with torch.no_grad():
                found[kind, attack.name] = float(loss(model(x + attack.perturb(model, x, y)), y).double().mean())
    for name in ("universal", "group-sparse", "low-rank", "pgd"):
        assert found[strength, name] >= found["fast", name] * (1 - 1e-6)


@pytest.mark.parametrize("loss", [None, "margin", "dlr"])
@pytest.mark.parametrize("label", [-1, 12])
def test_a_label_that_is_no_class_is_named(digits: Any, loss: str | None, label: int) -> None:
    model, x, y, _ = digits
    with pytest.raises(ValueError, match=rf"y must be of the 10 classes 0, 1, ..., got {label}$"):
        PGD(1.0, steps=2, loss=loss)(model, x[:5], torch.full_like(y[:5], label))


def test_one_shift_uses_all_its_gradients(digits: Any) -> None:
    model, x, y, unit = digits
    taken = 0

    class Counting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            nonlocal taken
            taken += x.requires_grad and torch.is_grad_enabled()
            return model(x)

    Universal(0.1 * unit, steps=40).perturb(Counting().eval(), x, y)
    assert taken >= 39
