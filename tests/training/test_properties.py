"""What holds for a run of gdadmm with any cost, any defence and any small data."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor, nn

import gsat
from gsat import defences, registry
from gsat.models import build, seeded
from gsat.training import Diverged, History, Step, gdadmm
from strategies import blocks, normal

N_OUTER = 6
EXACT = {torch.float32: 1e-6, torch.float64: 1e-9}  # of weights of size 1, after steps of size 0.01


@dataclass(frozen=True)
class Data:
    """A small data set: Gaussian columns, of which some may be constant, in two or three classes."""

    n: int
    d: int
    classes: int
    dtype: torch.dtype
    constant: bool
    rare: bool
    scale: float
    seed: int

    @property
    def X(self) -> Tensor:
        X = normal(self.n, self.d, seed=self.seed, dtype=self.dtype)
        if self.constant:
            X[:, ::3] = 1.5
        return self.scale * X

    @property
    def y(self) -> Tensor:
        if self.rare:
            return torch.tensor([self.classes - 1] + [0] * (self.n - 1))
        return torch.arange(self.n) % self.classes

    @property
    def batch(self) -> list[str]:
        return ["ABA"[i % 3] for i in range(self.n)]

    @property
    def model(self) -> nn.Module:
        return build("elu", (self.d,), self.classes, hidden=4, seed=self.seed).to(self.dtype)


DATA = st.builds(
    Data,
    n=st.integers(2, 40),
    d=st.integers(1, 12),
    classes=st.integers(2, 3),
    dtype=st.sampled_from((torch.float32, torch.float64)),
    constant=st.booleans(),
    rare=st.booleans(),
    scale=st.sampled_from((0.01, 1.0, 30.0)),
    seed=st.integers(0, 1000),
)
ALPHAS = st.sampled_from((0.0, 0.1, 0.5, 0.9))


@st.composite
def costs(draw: st.DrawFn, d: int) -> Any:
    """Any cost with a quadratic term, penalised or counted, for the group or for each batch."""
    alpha, k = draw(ALPHAS), draw(st.sampled_from((None, 1, 2)))
    cost = draw(
        st.sampled_from(
            (
                gsat.Universal(alpha),
                gsat.GroupSparse(alpha, k=k),
                gsat.GroupSparse(alpha, k=k, feature_groups=blocks(d)),
                gsat.LowRank(alpha, k=k),
                gsat.Unstructured(),
            )
        )
    )
    return draw(st.sampled_from((cost, gsat.PerBatch(cost, n_random=3))))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Data, Any, dict[str, Any]]:
    """A data set, how to make a defence (by its name, or GSAT with any cost), and options of gdadmm."""
    data = draw(DATA)
    name = draw(st.sampled_from((*registry.defence_names(), "any cost", "any cost")))
    options: dict[str, Any] = {
        "group_size": draw(st.integers(1, data.n + 1)),
        "lam": draw(st.sampled_from(("auto", "paper", 0.3))),
        "budget": draw(st.sampled_from((0.02, 0.5))),
        "batch": draw(st.sampled_from((None, data.batch))),
        "ema": draw(st.sampled_from((None, 0.6))),
        "schedule": draw(st.sampled_from(("constant", "cosine"))),
    }
    if name == "any cost":
        cost, solver = draw(costs(data.d)), draw(st.sampled_from(("proximal", "linearised")))
        return data, lambda: defences.GSAT(cost, solver=solver, n_inner=3), options
    eps, k = 0.1 * gsat.mean_norm(data.X), draw(st.sampled_from((None, 1)))
    return data, lambda: registry.named(name, eps=eps, k=k, n_inner=3, group_size=options["group_size"]), options


def train(data: Data, defence: Any, callbacks: Any = (), **options: Any) -> tuple[nn.Module, History]:
    model = data.model
    with seeded(1):
        history = gdadmm(
            model, data.X, data.y, defence, callbacks=callbacks,
            **{"n_outer": N_OUTER, "eta0": 1e-2, "generator": Generator().manual_seed(2)} | options,
        )  # fmt: skip
    return model, history


def weights(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten() for value in model.parameters()])


class Killed(Exception):  # noqa: N818
    pass


@settings(max_examples=60)
@given(problems(), st.integers(0, N_OUTER - 1), st.integers(1, 3))
def test_weights_are_finite_and_a_resumed_run_equals_an_unbroken_one(problem: Any, stop: int, every: int) -> None:
    data, make, options = problem

    def kill(step: Step, model: nn.Module) -> None:
        if step.t == stop:
            raise Killed

    whole, history = train(data, make(), **options)
    assert bool(weights(whole).isfinite().all())
    assert not torch.equal(weights(whole), weights(data.model))
    assert len(history) == N_OUTER
    assert all(step.mean_norm >= 0 and torch.tensor(step.loss).isfinite() for step in history)
    with tempfile.TemporaryDirectory() as folder:
        options |= {"out": folder, "checkpoint_every": every}
        with pytest.raises(Killed):
            train(data, make(), (kill,), **options)
        torch.manual_seed(99)  # whatever a new process has
        model, resumed = train(data, make(), resume=True, **options | {"generator": Generator().manual_seed(77)})
    assert torch.equal(weights(model), weights(whole))
    assert resumed == history


@settings(max_examples=40)
@given(st.data(), DATA, st.integers(1, 41), st.booleans())
def test_an_infinite_price_is_empirical_risk_minimisation_step_by_step(
    chosen: Any, data: Data, group_size: int, by_name: bool
) -> None:
    if by_name:
        defence = registry.named(chosen.draw(st.sampled_from(tuple(registry.STRUCTURES))), eps=0.0, n_inner=3)
    else:
        defence = defences.GSAT(chosen.draw(costs(data.d)), n_inner=3)
    paths: list[list[Tensor]] = [[], []]
    for one, path in zip((defences.ERM(), defence), paths, strict=True):

        def follow(step: Step, model: nn.Module, path: list[Tensor] = path) -> None:
            path.append(weights(model))

        train(data, one, (follow,), group_size=group_size, lam=1e12)
    for plain, robust in zip(*paths, strict=True):
        assert torch.allclose(robust, plain, rtol=0, atol=EXACT[data.dtype])


@settings(max_examples=12)
@given(
    st.sampled_from(tuple(registry.STRUCTURES)),
    st.sampled_from((0.02, 0.1)),
    st.integers(10, 40),
    st.integers(2, 12),
    st.sampled_from((torch.float32, torch.float64)),
    st.sampled_from((0.01, 1.0, 30.0)),
    st.integers(0, 1000),
)
def test_the_budget_is_reached(
    name: str, budget: float, n: int, d: int, dtype: torch.dtype, scale: float, seed: int
) -> None:
    """It can be reached where the loss has a slope, the structure lets something move, and λ has the time to settle.

    So: all samples in every group, the recommended alpha, steps so short that the model hardly changes, and the mean
    over many groups, since the batches of "universal" are drawn anew for each.
    """
    data = Data(n, d, 2, dtype, constant=False, rare=False, scale=scale, seed=seed)
    defence = registry.named(name, eps=0.0, n_inner=8, group_size=n)
    _, history = train(data, defence, n_outer=120, eta0=1e-5, group_size=n, budget=budget)
    late = fmean(step.mean_norm for step in history.steps[60:])
    assert late == pytest.approx(budget * gsat.mean_norm(data.X), rel=0.1)


def test_a_loss_that_is_not_finite_is_told(tmp_path: Any) -> None:
    data = Data(12, 3, 2, torch.float32, constant=False, rare=False, scale=1.0, seed=0)
    with pytest.raises(Diverged, match="at step 0; no checkpoint was kept"):
        train(data, defences.ERM(), loss=lambda outputs, y: outputs.sum(1) / 0)
