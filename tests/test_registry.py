"""The table of names: every name is found, an unknown one is an error, and a new structure is one row."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

import gsat
import strategies  # noqa: F401  one thread
from gsat import _defaults, attacks, registry
from gsat.data import Table
from gsat.estimators import TorchClassifier
from gsat.estimators.from_table import Plan, classifier_for, train
from gsat.models import build
from gsat.training.loop import gdadmm
from strategies import normal

QUICK: dict[str, Any] = {"n_outer": 6, "n_inner": 3, "group_size": 20, "eta0": 1e-2}


@pytest.fixture
def table() -> Table:
    X = normal(40, 7, seed=5, dtype=torch.float32).numpy()
    return Table(X, (X[:, 0] > X[:, 1]).astype(int))


def bits(classifier: TorchClassifier) -> bytes:
    return b"".join(value.numpy().tobytes() for value in classifier.module_.state_dict().values())


def test_what_is_shown_before_torch_is_imported_is_what_the_table_has() -> None:
    assert tuple(registry.STRUCTURES) == _defaults.STRUCTURES
    assert tuple(registry.BASELINES) == _defaults.BASELINES
    assert registry.defence_names() == _defaults.DEFENCES
    assert registry.attack_names() == _defaults.ATTACKS
    assert _defaults.STRUCTURE in registry.STRUCTURES
    code = "import sys, gsat._defaults; sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'sklearn')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_names_are_errors_that_say_the_known_ones(table: Table) -> None:
    X, y = table.X, table.y
    structures, defences = ", ".join(registry.STRUCTURES), ", ".join(registry.defence_names())
    for call, message in (
        (lambda: registry.structure("magic"), f"structure must be one of {structures}, got 'magic'"),
        (lambda: registry.structure_cost("magic"), f"structure must be one of {structures}, got 'magic'"),
        (lambda: gsat.GSATClassifier("magic").fit(X, y), f"structure must be one of {structures}, got 'magic'"),
        (lambda: gsat.GSATClassifier("pgd").fit(X, y), f"structure must be one of {structures}, got 'pgd'"),
        (lambda: gsat.GSATRegressor("magic").fit(X, y), f"structure must be one of {structures}, got 'magic'"),
        (lambda: registry.named("magic", eps=1.0), f"defence must be one of {defences}, got 'magic'"),
        (lambda: registry.named("structured-unstructured", eps=1.0), "got 'structured-unstructured'"),
        (lambda: classifier_for(Plan("magic"), table), f"defence must be one of {defences}, got 'magic'"),
        (lambda: registry.parse_attack("magic:3", 1.0), "attack must be one of universal, .*, fgm, got 'magic'"),
        (lambda: registry.parse_attack("unstructured", 1.0), "attack must be one of .* got 'unstructured'"),
        (lambda: gsat.StructuredATClassifier("magic").fit(X, y), "structure must be .* or low-rank, got 'magic'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("universal", attacks.Universal(0.1, steps=100)),
        ("universal@0.3", attacks.Universal(0.6, steps=100)),
        ("universal-one@0.3", attacks.Universal(0.6, steps=100)),
        ("group-sparse", attacks.GroupSparse(0.1, k=50)),
        ("group-sparse:7@0.2", attacks.GroupSparse(0.4, k=7)),
        ("low-rank", attacks.LowRank(0.1, rank=5)),
        ("low-rank:0", attacks.LowRank(0.1, rank=0)),
        ("pgd@0.5", attacks.PGD(1.0)),
        ("fgm", attacks.FGM(0.1)),
    ],
)
def test_attacks_are_read_from_text(text: str, expected: attacks.Attack) -> None:
    assert registry.parse_attack(text, 2.0) == expected


def test_a_structure_with_a_count_says_what_it_counts() -> None:
    words = {name: (row.k, row.axis) for name, row in registry.STRUCTURES.items()}
    assert words["group-sparse"] == (50, "columns that move")
    assert words["low-rank"] == (5, "rank")
    assert words["universal"] == words["unstructured"] == (None, "eps / E‖X‖")


@pytest.mark.parametrize("text", ["low-rank:many", "pgd@far", "low-rank:1.5@0.1"])
def test_text_that_is_no_attack(text: str) -> None:
    with pytest.raises(ValueError, match='an attack must read "name", "name:count" or "name:count@eps", got'):
        registry.parse_attack(text, 1.0)


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("universal", gsat.PerBatch(gsat.Universal(0.2), n_random=100)),
        ("universal-one", gsat.Universal(0.2)),
        ("group-sparse", gsat.GroupSparse(0.1)),
        ("low-rank", gsat.LowRank(0.2)),
        ("unstructured", gsat.Unstructured()),
    ],
)
def test_the_recommended_alpha_is_taken_where_none_is_given(name: str, cost: Any) -> None:
    assert registry.structure_cost(name) == cost
    assert registry.named(name, eps=1.0).cost == cost  # type: ignore[attr-defined]


def test_the_same_words_give_the_same_model(table: Table) -> None:
    plan = Plan("group-sparse", standardize=True, **QUICK)
    words = {**QUICK, "random_state": 0}
    ours = gsat.GSATClassifier("group-sparse", **words).fit_run(table.X, table.y, seed=0)
    assert bits(train(table, plan).classifier) == bits(ours)
    same, other = (gsat.GSATClassifier("group-sparse", alpha=alpha, **words) for alpha in (0.1, 0.5))
    assert bits(same.fit_run(table.X, table.y, seed=0)) == bits(ours)
    assert bits(other.fit_run(table.X, table.y, seed=0)) != bits(ours)


def test_the_defaults_that_users_were_promised() -> None:
    params = gsat.GSATClassifier().get_params()
    promised = {"structure": "low-rank", "lam": "auto", "budget": 0.05, "alpha": None, "k": None, "solver": "proximal"}
    sizes = {"n_inner": 5, "n_outer": 1000, "group_size": 200, "eta0": 1e-3, "hidden": 100, "standardize": True}
    assert promised | sizes == {name: params[name] for name in (*promised, *sizes)}
    assert gsat.GSATRegressor().get_params() == {
        name: value for name, value in params.items() if name not in ("class_weight", "calibrate")
    }
    assert gsat.PGDClassifier().eps == gsat.StructuredATClassifier().eps == 0.05
    loop = {name: entry.default for name, entry in inspect.signature(gsat.gdadmm).parameters.items()}
    assert (loop["group_size"], loop["budget"], loop["lam"], loop["eta0"]) == (200, 0.05, "auto", 1e-3)
    assert registry.named("low-rank", eps=1.0).describe()["n_inner"] == 5  # type: ignore[attr-defined]
    assert registry.named("pgd", eps=1.0).attack.steps == 20  # type: ignore[attr-defined]
    assert gsat.Universal() == gsat.Universal(0.5)


@pytest.mark.parametrize("name", registry.defence_names())
def test_every_name_has_a_classifier_with_the_same_defaults(name: str, table: Table) -> None:
    made = classifier_for(Plan(name), table)
    own = {"module": None, "standardize": True, "random_state": None}  # a plan says these in another way
    default = type(made)(**({"structure": made.structure} if hasattr(made, "structure") else {}))
    assert default.get_params() == made.get_params() | own
    assert made.set_params(n_outer=2).fit(table.X, table.y).score(table.X, table.y) >= 0


@dataclass(frozen=True)
class Entrywise:
    """A made-up cost with nothing but a value and a prox: α·Σ|Δ_ij| + (1−α)·‖Δ‖²."""

    alpha: float

    def value(self, delta: Tensor) -> Tensor:
        return self.alpha * delta.abs().sum() + (1 - self.alpha) * delta.square().sum()

    def prox(self, v: Tensor, tau: float) -> Tensor:
        size = 1 + 2 * tau * (1 - self.alpha)
        return v.sign() * (v.abs() / size - tau * self.alpha / size).clamp(min=0)


@dataclass(frozen=True)
class FewEntries(attacks.PGD):
    """A made-up attack: at most k entries of each sample move."""

    name: ClassVar[str] = "entrywise"
    k: int = field(kw_only=True)

    def perturb(self, model: Any, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        delta = super().perturb(model, x, y, batch)
        kept = delta.abs().topk(self.k, dim=1).indices
        return torch.zeros_like(delta).scatter(1, kept, delta.gather(1, kept))


def test_a_new_structure_is_one_row(monkeypatch: pytest.MonkeyPatch, table: Table, tmp_path: Any) -> None:
    weights: list[float] = []

    def cost(alpha: float, **_: Any) -> Entrywise:
        weights.append(alpha)
        return Entrywise(alpha)

    row = registry.Structure(
        cost=cost,
        attack=lambda eps, k, steps, loss, **_: FewEntries(eps, k=k, steps=steps, loss=loss),
        alpha=0.35,
        k=2,
    )
    monkeypatch.setitem(registry.STRUCTURES, "entrywise", row)
    X, y = torch.from_numpy(table.X), torch.from_numpy(table.y)

    model = build("elu", (7,), 2, hidden=5).eval()
    defence = registry.named("entrywise", eps=1.0, n_inner=3)
    history = gdadmm(model, X, y, defence, n_outer=6, group_size=20, generator=Generator().manual_seed(0))
    assert len(history) == 6
    assert history.mean_norm > 0

    attack = registry.parse_attack("entrywise:3@0.1", gsat.mean_norm(X), steps=5)
    moved = attack(model, X, y)
    assert ((moved != 0).sum(1) == 3).all()
    assert float(torch.linalg.vector_norm(moved, dim=1).max()) <= 0.1 * gsat.mean_norm(X) * (1 + 1e-5)
    assert gsat.evaluate(model, X, y, attack)["accuracy"].between(0, 1).all()

    for classifier in (gsat.GSATClassifier("entrywise", **QUICK), classifier_for(Plan("entrywise", **QUICK), table)):
        weights.clear()
        classifier.fit(table.X, table.y)
        assert set(weights) == {0.35}
        delta = classifier.perturb(table.X, table.y)
        assert 0 < np.count_nonzero(delta) < delta.size  # the l1 norm leaves entries where they are
        classifier.save(tmp_path / "model")
        assert gsat.load(tmp_path / "model").structure == "entrywise"

    trained = classifier_for(Plan("structured-entrywise", **QUICK), table).fit(table.X, table.y)
    assert isinstance(trained, gsat.StructuredATClassifier)
    assert (np.count_nonzero(trained.perturb(table.X, table.y), axis=1) <= 2).all()
