"""gdadmm: what it trains, what it records, and when it stops."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Generator, Tensor, nn

import gsat
import strategies  # noqa: F401  one thread
from gsat import attacks, defences, registry
from gsat._arrays.chunks import take, take_labels
from gsat.models import seeded
from gsat.training.groups import draw
from gsat.training.history import Step
from gsat.training.loop import Diverged, Validation, gdadmm


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor]:
    table = gsat.data.load("digits")
    return torch.as_tensor(table.X).float()[:600], torch.as_tensor(table.y).long()[:600]


def net(dropout: float = 0.0) -> nn.Sequential:
    with seeded(3):
        return nn.Sequential(nn.Linear(64, 30), nn.ELU(), nn.Dropout(dropout), nn.Linear(30, 10))


def weights(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten() for value in model.parameters()])


def train(digits: Any, defence: Any, model: nn.Module | None = None, **options: Any) -> tuple[nn.Module, Any]:
    model = net() if model is None else model
    settings = {"n_outer": 12, "group_size": 40, "eta0": 1e-2, "generator": Generator().manual_seed(7)}
    with seeded(11):
        return model, gdadmm(model, *digits, defence, **(settings | options))


@pytest.mark.parametrize(
    "cost",
    [
        gsat.Universal(0.3),
        gsat.PerBatch(gsat.Universal(), n_random=5),
        gsat.GroupSparse(0.3),
        gsat.LowRank(0.3),
        gsat.Unstructured(),
    ],
    ids=lambda cost: type(cost).__name__,
)
def test_an_infinite_price_is_empirical_risk_minimisation_step_by_step(digits: Any, cost: Any) -> None:
    paths: list[list[Tensor]] = [[], []]
    for defence, path in zip((defences.ERM(), defences.GSAT(cost)), paths, strict=True):
        train(digits, defence, net(0.3), lam=1e12, callbacks=[lambda _, model, path=path: path.append(weights(model))])
    assert len(paths[0]) == 12
    for erm, gsat_weights in zip(*paths, strict=True):
        assert torch.allclose(gsat_weights, erm, rtol=0, atol=1e-7)
    assert not torch.allclose(paths[0][0], paths[0][-1], atol=1e-3)


@pytest.mark.parametrize("name", registry.defence_names())
def test_same_seed_same_bits(digits: Any, name: str) -> None:
    runs = [train(digits, registry.named(name, eps=0.5, k=4, n_inner=5), net(0.3), n_outer=5) for _ in range(2)]
    assert torch.equal(weights(runs[0][0]), weights(runs[1][0]))
    assert runs[0][1].steps == runs[1][1].steps
    other, _ = train(digits, defences.ERM(), net(0.3), n_outer=5, generator=Generator().manual_seed(8))
    assert not torch.equal(weights(other), weights(runs[0][0]))


def test_lam_as_the_paper_has_it_or_as_a_number(digits: Any) -> None:
    _, paper = train(digits, defences.GSAT(gsat.LowRank()), lam="paper", n_outer=3)
    assert {step.lam for step in paper} == {0.25 * gsat.mean_norm(digits[0])}
    defence = defences.GSAT(gsat.LowRank())
    _, number = train(digits, defence, lam=0.7, n_outer=3)
    assert {step.lam for step in number} == {0.7}
    assert number.lam == pytest.approx(0.7)
    assert defence.scale is None  # the plain cost


def test_the_first_lam_is_of_the_size_of_the_slope(digits: Any) -> None:
    model = nn.Linear(64, 2)
    slope = float(torch.linalg.vector_norm(model.weight[0].detach().double()))

    def linear(outputs: Tensor, y: Tensor) -> Tensor:
        return outputs[:, 0]

    defence = defences.GSAT(gsat.Unstructured(), solver="linearised", loss=linear)
    _, history = train(digits, defence, model, loss=linear, budget=0.1, n_outer=1)
    target = 0.1 * gsat.mean_norm(digits[0])
    assert history[0].lam == pytest.approx(target * slope, rel=1e-5)
    assert history[0].mean_norm == pytest.approx(target / 2, rel=1e-5)


def test_errors(digits: Any, tmp_path: Path) -> None:
    X, y = digits
    adversary = defences.GSAT(gsat.LowRank())
    for options, message in (
        ({"lam": "best"}, 'lam must be a number > 0, "auto" or "paper", got \'best\''),
        ({"lam": -1.0}, "lam must be > 0, got -1.0"),
        ({"budget": 0.0}, "budget must be > 0, got 0.0"),
        ({"n_outer": 0}, "n_outer must be >= 1, got 0"),
        ({"group_size": 0}, "group_size must be >= 1, got 0"),
        ({"checkpoint_every": 0}, "checkpoint_every must be >= 1, got 0"),
        ({"log_every": 0}, "log_every must be >= 1, got 0"),
        ({"schedule": "step"}, 'schedule must be "constant", "cosine" or a function, got \'step\''),
        ({"ema": 1.5}, "ema must be > 0 and < 1, got 1.5"),
        ({"batch": [0, 1]}, r"batch must have one id per sample of X \(600\), got 2"),
        ({"resume": True}, "resume=True needs out=, the folder of the run"),
    ):
        with pytest.raises(ValueError, match=message):
            train(digits, adversary, **options)
    with pytest.raises(ValueError, match=r"y must have one label per sample of X \(600, at least 1\), got 599"):
        gdadmm(net(), X, y[1:], adversary, n_outer=3)
    with pytest.raises(ValueError, match=r"needs samples that are not all zero, got E‖X‖ = 0"):
        gdadmm(net(), X * 0, y, adversary, n_outer=3)
    with pytest.raises(ValueError, match=r'lam="auto" needs finite samples, got E‖X‖ = nan'):
        gdadmm(net(), X * math.nan, y, adversary, n_outer=3)
    with pytest.raises(ValueError, match="patience must be >= 1, got 0"):
        Validation(X, y, patience=0)
    with pytest.raises(ValueError, match="every must be >= 1, got 0"):
        Validation(X, y, every=0)


@pytest.mark.parametrize(("n", "m"), [(11, 4), (200, 5)])  # both ways to draw
def test_groups_are_uniform_without_replacement(n: int, m: int) -> None:
    generator = Generator().manual_seed(0)
    n_draws = 4000
    counts, first = torch.zeros(n), torch.zeros(n)
    for _ in range(n_draws):
        chosen = draw(n, m, generator)
        assert len(chosen.unique()) == m
        counts[chosen] += 1
        first[chosen[0]] += 1
    for seen, share in ((counts, m / n), (first, 1 / n)):
        assert float(((seen - n_draws * share) / math.sqrt(n_draws * share * (1 - share))).abs().max()) < 4.5
    assert sorted(draw(n, n, generator).tolist()) == list(range(n))


def test_rows_are_taken_by_place(digits: Any) -> None:
    chosen = torch.tensor([4, 0, 2])
    values = np.array([10, 11, 12, 13, 14], dtype=np.int16)
    for container in (values, values.tolist(), torch.from_numpy(values), pd.Series(values, index=[4, 3, 2, 1, 0])):
        assert take(container, chosen).tolist() == [14, 10, 12]
        assert take_labels(container, chosen).dtype == torch.int64
    assert take_labels(values / 4.0, chosen).dtype == torch.float64
    sizes: list[int] = []

    class Spy(defences.ERM):
        def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
            sizes.append(len(x))
            assert torch.equal(x.sum(1).double().round().long() % 7, torch.as_tensor(batch))
            return super().__call__(model, x, y, batch)

    X, y = digits[0][:30].numpy(), digits[1][:30].numpy().astype(np.int32)
    batch = torch.from_numpy(X).sum(1).double().round().long() % 7
    train((X, y), Spy(), group_size=1000, batch=batch.tolist(), n_outer=2)
    assert sizes == [30, 30]


def test_optimizer_and_schedule(digits: Any) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
    gradients = []
    hook = model[0].weight.register_hook(lambda gradient: gradients.append(gradient.clone()))
    before = model[0].weight.detach().clone()
    _, history = train(digits, defences.ERM(), model, optimizer=optimizer, n_outer=4, schedule="cosine")
    hook.remove()
    rates = [0.4 * 0.5 * (1 + math.cos(math.pi * t / 4)) for t in range(4)]
    assert [step.learning_rate for step in history] == pytest.approx(rates)
    moved = sum(rate * gradient for rate, gradient in zip(rates, gradients, strict=True))
    assert torch.allclose(model[0].weight, before - moved, atol=1e-6)
    _, own = train(digits, defences.ERM(), n_outer=4, schedule=lambda share: 1 + share)
    assert [step.learning_rate for step in own] == pytest.approx([0.01, 0.0125, 0.015, 0.0175])


def test_weight_average(digits: Any) -> None:
    seen: list[Tensor] = []
    model, _ = train(digits, defences.ERM(), ema=0.7, callbacks=[lambda _, model: seen.append(weights(model))])
    plain, _ = train(digits, defences.ERM())
    assert torch.equal(seen[-1], weights(plain))  # the average does not disturb training
    average = seen[0]
    for one in seen[1:]:
        average = 0.7 * average + 0.3 * one
    assert torch.allclose(weights(model), average, atol=1e-6)


def test_early_stopping_keeps_the_best_weights(digits: Any) -> None:
    X, y = digits
    rule = Validation(X[500:], y[500:], attacks.FGM(1.0), every=5, patience=3)
    seen: dict[int, Tensor] = {}
    model, history = train(
        (X[:500], y[:500]), defences.GSAT(gsat.LowRank()), n_outer=400, eta0=0.05, validation=rule,
        log_every=3, callbacks=[lambda step, model: seen.update({step.t: weights(model)})],
    )  # fmt: skip
    measured = {step.t: step.validation for step in history if step.validation is not None}
    assert history.stopped_early
    assert len(history) < 400
    assert list(measured) == list(range(4, max(measured) + 1, 5))
    assert history.best_validation == max(measured.values())
    best = min(t for t, value in measured.items() if value == history.best_validation)
    assert max(measured) == best + 3 * 5
    assert torch.equal(weights(model), seen[best])
    groups = [(X[500:540], y[500:540]), (X[540:580], y[540:580]), (X[580:], y[580:])]
    hits = sum(
        int((model(x + rule.attack.perturb(model, x, labels)).argmax(1) == labels).sum()) for x, labels in groups
    )
    assert hits / 100 == pytest.approx(history.best_validation)
    assert history.lam > 0  # although the run never came to the last tenth of its steps
    assert history.mean_norm > 0


def test_history_and_callbacks(digits: Any, tmp_path: Path) -> None:
    calls: list[tuple[Step, bool]] = []
    model = net().eval()
    _, history = train(
        digits, defences.GSAT(gsat.GroupSparse()), model, log_every=5, out=tmp_path / "run",
        callbacks=[lambda step, model: calls.append((step, model.training))],
    )  # fmt: skip
    assert [step.t for step in history] == [0, 5, 10]
    assert calls == [(step, True) for step in history]
    assert not model.training
    frame = pd.DataFrame(history.columns())
    expected = ["t", "loss", "mean_norm", "lam", "measure", "learning_rate", "validation", "validation_loss"]
    assert list(frame.columns) == expected
    assert len(frame) == len(history) == 3
    assert frame["measure"].between(0, 64).all()
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert [Step(**json.loads(line)) for line in lines] == history.steps
    with pytest.raises(
        FileExistsError, match=r"out must be a folder without a run, got .*run; take another, or resume"
    ):
        train(digits, defences.ERM(), out=tmp_path / "run")


@pytest.mark.parametrize("defence", [defences.ERM(), defences.PGD(0.5, steps=2), defences.GSAT(gsat.LowRank())])
def test_divergence_says_where_and_what_to_do(digits: Any, tmp_path: Path, defence: Any) -> None:
    message = r"at step \d+; the last good checkpoint is .*step-00000000\d; take a smaller learning rate, a smaller"
    with pytest.raises(Diverged, match=message) as caught:
        train(digits, defence, eta0=1e30, out=tmp_path / "run", checkpoint_every=1)
    assert isinstance(caught.value, FloatingPointError)
    assert "step-000000000" in str(caught.value)  # of the later ones the weights are already lost
    X = digits[0].clone()
    X[:, 3] = math.nan
    with pytest.raises(Diverged, match=r"at step 0; no checkpoint was kept \(out= is not set\); .*not finite"):
        train((X, digits[1]), defence, lam=1.0)


def test_weights_that_are_not_finite_are_not_kept(digits: Any, tmp_path: Path) -> None:
    def poison(step: Step, model: nn.Module) -> None:
        if step.t == 3:
            with torch.no_grad():
                model[0].weight[0, 0] = math.inf

    with pytest.raises(Diverged, match=r"the weights are not finite after step 3; the last good .*step-000000003"):
        train(digits, defences.ERM(), out=tmp_path / "run", checkpoint_every=1, callbacks=[poison])
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoint").iterdir())[-1] == "step-000000003"
