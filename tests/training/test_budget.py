"""λ and the budget: what is measured, how λ follows it, rare classes, and how far a sample may move."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.metrics import balanced_accuracy_score
from torch import Generator, Tensor, nn

import gsat
import strategies  # noqa: F401  one thread
from gsat import defences, registry
from gsat.defences.gsat import FARTHEST
from gsat.models import build
from gsat.training.budget import Control

BUDGET = 0.05


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor]:
    table = gsat.data.load("digits")
    return torch.as_tensor(table.X).float()[:600], torch.as_tensor(table.y).long()[:600]


def rare(n: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two Gaussian classes four deviations apart; `share` of the rows are of class 1."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) < share * n).astype(int)
    X = rng.normal(size=(n, 20))
    X[:, 0] += 4.0 * y
    return X.astype(np.float32), y


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", registry.STRUCTURES)
def test_the_budget_is_met_in_200_steps(digits: Any, name: str, seed: int) -> None:
    defence = registry.named(name, eps=0.0, n_inner=10, group_size=60)
    model = build("elu", (64,), 10, hidden=30, seed=seed)
    generator = Generator().manual_seed(seed)
    history = gsat.gdadmm(
        model, *digits, defence, n_outer=200, group_size=60, eta0=2e-3, budget=BUDGET, generator=generator
    )
    last = history.steps[-20:]
    assert history.used == pytest.approx(1, abs=0.1)
    assert history.mean_norm == pytest.approx(BUDGET * gsat.mean_norm(digits[0]), rel=0.25)  # classes are about equal
    assert history.mean_norm == pytest.approx(np.mean([step.mean_norm for step in last]), rel=1e-9)
    assert history.lam == pytest.approx(np.mean([step.lam for step in last]), rel=1e-9)


@pytest.mark.parametrize(("n_outer", "off"), [(100, 0.12), (200, 0.1)])
def test_one_shift_for_all_meets_the_budget_with_every_seed(digits: Any, n_outer: int, off: float) -> None:
    """Its length jumps from group to group, and a short run has few of them in its last tenth."""
    for seed in range(5):
        defence = registry.named("universal-one", eps=0.0, group_size=60)
        model, generator = build("elu", (64,), 10, hidden=30, seed=seed), Generator().manual_seed(seed)
        options = {"n_outer": n_outer, "group_size": 60, "eta0": 2e-3, "budget": BUDGET, "generator": generator}
        assert gsat.gdadmm(model, *digits, defence, **options).used == pytest.approx(1, abs=off)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ["low-rank", "unstructured"])
def test_nearly_even_classes_move_by_the_budget(name: str, seed: int) -> None:
    """One class of 250 and four of 200: the plain mean of the norms is the budget, as with equal classes."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(5), [250, 200, 200, 200, 200])
    X = (2.5 * np.eye(5, 20)[y] + rng.normal(size=(len(y), 20))).astype(np.float32)
    model, generator = build("elu", (20,), 5, hidden=30, seed=seed), Generator().manual_seed(seed)
    defence = registry.named(name, eps=0.0, group_size=100)
    options = {"n_outer": 200, "group_size": 100, "eta0": 3e-3, "budget": BUDGET, "generator": generator}
    history = gsat.gdadmm(model, X, y, defence, **options)
    assert history.mean_norm == pytest.approx(BUDGET * gsat.mean_norm(torch.from_numpy(X)), rel=0.1)


def test_a_class_of_three_quarters_counts_as_large_as_the_largest() -> None:
    control = Control(1.0, target=2.0, sizes=[100.0, 76.0, 74.0, 0.0, 5.0])
    assert control.targets == pytest.approx([2, 2, 2 * 0.74, 0, 2 * 0.05])


def test_the_last_tenth_makes_up_for_what_it_used() -> None:
    """Nine of its ten groups use 1.2 of the budget: λ rises more and more, by half at the most."""
    control, y = Control(1.0, target=1.0, n_outer=100), torch.zeros(2, dtype=torch.long)
    for t, used in enumerate([1.0] * 90 + [1.2] * 9 + [0.0]):
        control.update(t, torch.tensor([used, used]), y)
        factor = (control.lam or 0.0) / control.prices[0]
        if t < 90 or t == 99:
            assert factor == pytest.approx(1)  # before, and after the last group
        else:
            k = t - 89
            assert factor == pytest.approx(min((10 - k) / (10 - 1.2 * k), 1.5) if 1.2 * k < 10 else 1.5)
    assert control.used == pytest.approx(1.08)
    control = Control(1.0, target=1.0, n_outer=10)
    control.update(9, torch.tensor([5.0]), y[:1])
    assert control.lam == pytest.approx(control.prices[0])


def test_lam_is_the_mean_of_the_prices_of_the_classes() -> None:
    control = Control(2.0, target=3.0, n_outer=1000)
    y = torch.tensor([0, 0, 0, 0, 2])  # class 1 is not seen
    control.update(0, torch.tensor([1.0, 2.0, 3.0, 4.0, 6.0]), y)
    prices = [2 + 0.2 * (2 * 2.5 / 3 - 2), 2 + 0.2 * (2 * 6 / (3 * 1 / 4) - 2)]
    assert [control.prices[0], control.prices[2]] == pytest.approx(prices)
    assert control.lam == pytest.approx(np.mean(prices))
    assert control.used is None  # the last tenth has not begun
    lam, norms = control.lam, torch.tensor([2.0, 2.0, 2.0, 2.0, 0.4])
    control.update(900, norms, y)
    after = [a + 0.04 * (lam * ratio - a) for a, ratio in zip(prices, (2 / 3, 0.4 / 0.75), strict=True)]
    used = np.mean([2 / 3, 0.4 / 0.75])  # of 1 in the first of the last hundred groups: the others make up for it
    assert control.lam == pytest.approx(np.mean(after) * 99 / (100 - used))  # a group's weight is 4 over this tenth
    assert control.used == pytest.approx(used)
    assert control.averages([]) == pytest.approx((1.68, lam))


@pytest.mark.parametrize("y", [torch.randn(5), torch.zeros(5, 3), torch.tensor([-1, -1, -1, -1, -1])])
def test_targets_that_are_no_classes_count_as_one(y: Tensor) -> None:
    control = Control(2.0, target=1.0)
    control.update(0, torch.tensor([0.0, 1.0, 2.0, 3.0, 1.5]), y)
    assert control.lam == pytest.approx(2 * (1 + 0.2 * 0.5))


def test_a_budget_out_of_reach_is_told_once() -> None:
    control = Control(1.0, target=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for t in range(1000):
            control.update(t, torch.zeros(3), torch.zeros(3, dtype=torch.long))
    assert [warning.category for warning in caught] == [RuntimeWarning]
    assert "the budget, a mean norm of 1, seems out of reach" in str(caught[0].message)
    assert 0 < control.lam < 1e-12


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("structure", registry.STRUCTURES)
def test_a_rare_class_is_not_given_up(structure: str, class_weight: Any) -> None:
    train, (X, y) = rare(800, 0.03, seed=0), rare(1000, 0.5, seed=1)
    options = {"n_outer": 150, "group_size": 100, "eta0": 3e-3, "class_weight": class_weight, "random_state": 0}
    erm = gsat.ERMClassifier(**options).fit(*train)
    clf = gsat.GSATClassifier(structure, n_inner=10, **options).fit(*train)
    before, after = (balanced_accuracy_score(y, model.predict(X)) for model in (erm, clf))
    assert before > 0.8
    assert after > before - 0.04


def test_early_stopping_does_not_give_up_a_rare_class() -> None:
    """The loss of held-out samples is that at the budget, of which a rare class has its small share."""
    train, (X, y) = rare(1600, 0.03, seed=0), rare(1000, 0.5, seed=1)
    options = {"n_outer": 300, "group_size": 100, "eta0": 3e-3, "random_state": 0}
    whole, short = (gsat.GSATClassifier(early_stopping=early, **options).fit(*train) for early in (False, True))
    before, after = (balanced_accuracy_score(y, model.predict(X)) for model in (whole, short))
    assert after > before - 0.04


@pytest.mark.parametrize("name", registry.STRUCTURES)
def test_no_sample_moves_farther_than_three_times_the_budget(name: str) -> None:
    """Also where the inner problem has no maximum; and what is cut keeps its structure."""
    x, y = torch.randn(40, 6, generator=Generator().manual_seed(0)), torch.zeros(40)
    model = nn.Linear(6, 1)
    nn.init.ones_(model.weight)

    def squared(outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs[:, 0] - y).square()

    defence = registry.named(name, eps=0.0, loss=squared, group_size=40)
    assert isinstance(defence, defences.GSAT)
    defence.scale, defence.lam = 0.2, 1e-4
    moved = defence(model, x, y) - x
    norms = moved.norm(dim=1)
    assert float(norms.max()) <= FARTHEST * 0.2 * (1 + 1e-4)
    assert float(norms.mean()) > 0.2
    if name == "universal":
        assert len({tuple(row) for row in (moved * 1e3).round().tolist()}) <= 20  # a shift for every two samples


@pytest.mark.parametrize("name", registry.STRUCTURES)
def test_no_group_uses_more_than_twice_its_budget(name: str) -> None:
    """Nine samples of class 0 and one of class 1, whose target is a ninth; what is scaled keeps its structure."""
    x, y = torch.randn(10, 6, generator=Generator().manual_seed(0)), torch.tensor([0] * 9 + [1])
    model = nn.Linear(6, 2, bias=False)
    nn.init.normal_(model.weight, generator=Generator().manual_seed(1))
    defence = registry.named(name, eps=0.0, group_size=10)
    assert isinstance(defence, defences.GSAT)
    defence.scale, defence.lam = 0.9, 1e-3
    free = defence(model, x, y) - x
    defence.targets = [0.9, 0.1]
    defence.adversary.generator.manual_seed(0)
    moved = defence(model, x, y) - x
    norms = moved.double().norm(dim=1)
    used = (norms[:9].mean() / 0.9 + norms[9] / 0.1) / 2
    assert float(used) == pytest.approx(2, rel=1e-4)
    along = float((moved * free).sum() / free.square().sum())
    assert 0 < along < 1
    assert torch.allclose(moved, along * free, atol=1e-5)
    assert torch.allclose(defence.norms.double(), norms, rtol=1e-4)


@pytest.mark.parametrize("structure", registry.STRUCTURES)
@pytest.mark.parametrize("target", ["diabetes", "linear"])
def test_regression_trains_with_its_defaults(structure: str, target: str) -> None:
    X, y = load_diabetes(return_X_y=True)
    if target == "linear":
        y = X @ np.arange(1, 11)
    model = gsat.GSATRegressor(structure, n_outer=200, n_inner=10, eta0=5e-3, random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > (0.35 if target == "diabetes" else 0.9)
    assert max(step.mean_norm for step in model.history_) <= 1.001 * FARTHEST * BUDGET * model.mean_norm_


def test_a_number_for_lam_that_leaves_no_maximum_is_told_once() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = gsat.GSATRegressor("unstructured", lam=1e-6, n_outer=5, n_inner=20, random_state=0)
    with pytest.warns(RuntimeWarning, match=r"loss − lam·c\(Δ\) has no maximum.*take lam above") as caught:
        model.fit(X, y)
    assert len([one for one in caught if "has no maximum" in str(one.message)]) == 1
