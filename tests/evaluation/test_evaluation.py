"""evaluate: one tidy table, deterministic, and not computed twice."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import gsat
from gsat.attacks import FGM, PGD, GroupSparse, LowRank, Universal
from gsat.evaluation import COLUMNS, evaluate
from strategies import normal

N, D = 50, 8


class Counted(nn.Linear):
    """A linear model that counts its calls and keeps the number of samples of each."""

    def __init__(self) -> None:
        super().__init__(D, 3)
        with torch.no_grad():
            self.weight.copy_(normal(3, D, seed=1))
            self.bias.zero_()
        self.calls: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append(len(x))
        return super().forward(x)


@pytest.fixture
def model() -> Counted:
    return Counted().eval()


@pytest.fixture
def data(model: Counted) -> tuple[Tensor, Tensor]:
    x = normal(N, D, seed=2, dtype=torch.float32)
    y = model(x).argmax(1)
    y[:10] = (y[:10] + 1) % 3
    model.calls.clear()
    return x, y


ATTACKS = [GroupSparse(0.5, k=2), Universal(0.5), LowRank(0.5, rank=1), PGD(0.5), FGM(0.3)]


def same(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    return a.drop(columns="seconds").equals(b.drop(columns="seconds"))


def test_one_tidy_row_per_attack(model: Counted, data: Any) -> None:
    table = evaluate(model, *data, ATTACKS, group_size=20)
    assert list(table.columns) == COLUMNS
    assert list(table["attack"]) == ["none", "group-sparse", "universal", "universal-all", "low-rank", "pgd", "fgm"]
    assert list(table["strength"]) == [0, 2, 0.5, 0.5, 1, 0.5, 0.3]
    assert list(table["eps"]) == [0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.3]
    assert (table["n"] == N).all()
    assert (table["seconds"] >= 0).all()
    rows = table.set_index("attack")
    assert rows.loc["none", "accuracy"] == pytest.approx(0.8)
    assert rows.loc["none", "mean_norm"] == 0
    assert np.allclose(rows["mean_norm"].iloc[1:], rows["eps"].iloc[1:], rtol=1e-5)
    assert (rows["loss"].iloc[1:] > rows.loc["none", "loss"]).all()
    clean = nn.functional.cross_entropy(model(data[0]), data[1]).item()
    assert rows.loc["none", "loss"] == pytest.approx(clean, rel=1e-5)
    # one shift for all has less freedom than one for each group, and that less than one for each sample
    assert rows.loc["universal-all", "loss"] <= rows.loc["universal", "loss"] <= rows.loc["pgd", "loss"]


def test_deterministic_and_from_arrays_or_tensors(model: Counted, data: Any) -> None:
    x, y = data
    first = evaluate(model, x, y, ATTACKS, group_size=20, random_state=3)
    assert same(first, evaluate(model, x, y, ATTACKS, group_size=20, random_state=3))
    assert same(
        first, evaluate(model, x.double().numpy(), y.numpy().astype(np.int32), ATTACKS, group_size=20, random_state=3)
    )
    assert same(first, evaluate(model, x.numpy(), y.tolist(), ATTACKS, group_size=20, random_state=3))
    shuffled = pd.Series(y.numpy(), index=np.arange(N)[::-1])  # labels of the index are not places
    assert same(first, evaluate(model, x.numpy(), shuffled, ATTACKS, group_size=20, random_state=3))
    assert not same(first, evaluate(model, x, y, ATTACKS, group_size=20, random_state=4))
    named = evaluate(model, x, y, {"mine": ATTACKS[1]}, group_size=20, random_state=3)
    assert list(named["attack"]) == ["none", "mine", "mine-all"]
    assert same(
        evaluate(model, x, y, ATTACKS[1], group_size=20), evaluate(model, x, y, iter([ATTACKS[1]]), group_size=20)
    )
    assert list(evaluate(model, x, y, [])["attack"]) == ["none"]


def test_groups_have_the_size_and_hold_one_batch(model: Counted, data: Any) -> None:
    evaluate(model, *data, PGD(0.5, steps=1), group_size=20)
    assert sorted(set(model.calls)) == [10, 20]
    seen: list[set[Any]] = []

    class Spy(PGD):
        def perturb(self, module: Any, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
            seen.append({float(row[0]) for row in x})
            return super().perturb(module, x, y, batch)

    x = data[0].clone()
    batch = np.array(["a", "b", "c"])[np.arange(N) % 3]
    x[:, 0] = torch.arange(N) % 3
    evaluate(model, x, data[1], Spy(0.5, steps=1), group_size=10, batch=batch)
    assert [len(values) for values in seen] == [1] * 6  # 17, 17 and 16 samples in groups of 10 and less


def test_finished_rows_are_not_run_again(model: Counted, data: Any, tmp_path: Path) -> None:
    out = tmp_path / "new" / "rows.jsonl"
    first = evaluate(model, *data, ATTACKS, group_size=20, out=out)
    model.calls.clear()
    again = evaluate(model, *data, ATTACKS, group_size=20, out=out)
    assert model.calls == []
    assert again.equals(first)
    evaluate(model, *data, [*ATTACKS, PGD(0.1, steps=2)], group_size=20, out=out)
    assert 0 < len(model.calls) < 60  # the new row, and the comparison of losses


def test_a_line_that_was_cut_off_is_run_again(model: Counted, data: Any, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    first = evaluate(model, *data, ATTACKS, group_size=20, out=out)
    whole = out.read_bytes()
    assert [set(json.loads(line)) for line in whole.splitlines()] == [{"key", "row"}] * 7
    out.write_bytes(whole[:-30])
    model.calls.clear()
    assert same(evaluate(model, *data, ATTACKS, group_size=20, out=out), first)
    assert model.calls
    model.calls.clear()
    assert same(evaluate(model, *data, ATTACKS, group_size=20, out=out), first)
    assert model.calls == []  # the new row did not end up on the cut line


def test_what_changes_the_result_is_run_again(data: Any, tmp_path: Path) -> None:
    out, x, y = tmp_path / "rows.jsonl", *data

    def ran(model: nn.Module, x: Tensor, attack: Any = ATTACKS[0], **options: Any) -> bool:
        before = out.read_bytes() if out.exists() else b""
        evaluate(model, x, y, attack, out=out, **({"group_size": 20} | options))
        return out.read_bytes() != before

    model = Counted().eval()
    assert ran(model, x)
    assert not ran(model, x)
    assert ran(model, x, group_size=21)
    assert ran(model, x, random_state=1)
    assert ran(model, x, batch=np.arange(N) % 2)
    assert ran(model, x * 1.001)
    assert ran(model, x, GroupSparse(0.5, k=3))
    assert ran(nn.Sequential(model, nn.Tanh()).eval(), x)
    assert ran(nn.Sequential(model, nn.ELU()).eval(), x)  # the same weights
    with torch.no_grad():
        model.weight += 1e-3
    assert ran(model, x)


def test_metrics_and_surrogates_are_told_apart(data: Any, tmp_path: Path) -> None:
    """The repr of a metric names neither its directions nor all of its stretches."""
    out, x, y = tmp_path / "rows.jsonl", *data
    model, eye = Counted().eval(), torch.eye(D)
    metrics = [gsat.Metric(eye[k : k + 2], torch.tensor([5.0, 5.0])) for k in (0, 2)]
    metrics.append(gsat.Metric(eye[:2], torch.tensor([2.0, 5.0])))
    for metric in metrics:
        attack = PGD(0.3, steps=5, metric=metric)
        assert same(evaluate(model, x, y, attack, out=out), evaluate(model, x, y, attack))
    surrogates = [nn.Linear(D, 3).eval() for _ in range(2)]
    attack = Universal(0.3, steps=5, strength="standard")
    sizes = []
    for surrogate in (None, *surrogates, surrogates[0]):
        evaluate(model, x, y, attack, out=out, surrogate=surrogate)
        sizes.append(len(out.read_text().splitlines()))
    assert sizes[0] < sizes[1] < sizes[2] == sizes[3]


def test_the_comparison_of_losses_is_in_the_metric_of_the_attack(monkeypatch: Any) -> None:
    metric = gsat.Metric(torch.eye(D)[:2], torch.tensor([5.0, 5.0]))
    seen = []
    run = PGD.perturb
    monkeypatch.setattr(
        PGD, "perturb", lambda self, *args, **more: seen.append(self.metric) or run(self, *args, **more)
    )
    x = normal(N, D, seed=2, dtype=torch.float32)
    evaluate(Counted().eval(), x, torch.arange(N) % 3, LowRank(0.3, rank=1, steps=5, metric=metric))
    assert seen == [metric, metric]


def test_long_masks_and_batches_are_told_apart(tmp_path: Path) -> None:
    """The repr of a long array leaves out its middle."""
    out, n, d = tmp_path / "rows.jsonl", 1500, 1500
    model = nn.Linear(d, 2).eval()
    x, y = normal(n, d, seed=5, dtype=torch.float32), torch.arange(n) % 2
    masks = [torch.arange(d) != j for j in (700, 701)]
    batches = [(np.arange(n) == i).astype(int) for i in (700, 701)]
    sizes = []
    for mask in masks:
        evaluate(model, x, y, FGM(1.0, feature_mask=mask), out=out)
        sizes.append(len(out.read_text().splitlines()))
    for batch in batches:
        evaluate(model, x, y, [], batch=batch, out=out)
        sizes.append(len(out.read_text().splitlines()))
    assert sizes == [2, 3, 4, 5]


def test_bounds_hold_for_what_is_evaluated() -> None:
    seen: list[float] = []

    class Watch(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(float(x.detach().abs().max()))
            return super().forward(x)

    x = normal(N, D, seed=2, dtype=torch.float32).clamp(-1, 1)
    evaluate(Watch(D, 3).eval(), x, torch.arange(N) % 3, PGD(9.0, bounds=(-1.0, 1.0)))
    assert max(seen) <= 1.0


def test_a_fitted_classifier_has_its_own_labels(model: Counted, data: Any) -> None:
    x, y = data
    names = np.array(["B", "NK", "T"])
    classifier = SimpleNamespace(module_=model, classes_=names, module_input=lambda X: X)
    assert same(evaluate(classifier, x, names[y.numpy()], ATTACKS), evaluate(model, x, y, ATTACKS))
    with pytest.raises(ValueError, match="y must hold only labels the classifier knows"):
        evaluate(classifier, x, ["B"] * (N - 1) + ["monocyte"], ATTACKS)


def test_warnings_and_errors(model: Counted, data: Any) -> None:
    x, y = data
    with pytest.warns(UserWarning, match="the model is in train mode"):
        evaluate(model.train(), x, y, [])
    assert model.training
    model.eval()
    with pytest.raises(ValueError, match=r"y must have one label per sample of X \(50, at least 1\), got 49"):
        evaluate(model, x, y[:-1], ATTACKS)
    with pytest.raises(ValueError, match=r"y must have one label per sample of X \(0, at least 1\), got 0"):
        evaluate(model, x[:0], y[:0], ATTACKS)
    with pytest.raises(ValueError, match="group_size must be >= 1, got 0"):
        evaluate(model, x, y, ATTACKS, group_size=0)
    with pytest.raises(TypeError, match=r"attacks must be of gsat.attacks, got 'pgd'"):
        evaluate(model, x, y, ["pgd"])
    with pytest.raises(TypeError, match="model must be a torch module or a fitted gsat classifier, got object"):
        evaluate(object(), x, y, ATTACKS)
    with pytest.raises(ValueError, match=r"batch must have one id per sample \(50\), got 2"):
        evaluate(model, x, y, ATTACKS, batch=[0, 1])
