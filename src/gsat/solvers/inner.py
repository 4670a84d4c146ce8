"""The inner problem: maximise S(Δ) = Σ_i ℓ(x_i + δ_i) − λ·c(Δ) over the perturbations of one group."""

from __future__ import annotations

import math
import warnings
from typing import Any, cast

import torch
from torch import Generator, Tensor

from gsat import _checks
from gsat._arrays.norms import norm, total
from gsat.costs import GroupCost, Penalised, PerBatch, bound
from gsat.solvers.admm import ADMM
from gsat.solvers.base import Solution, Solver, State
from gsat.solvers.linearised import Linearised
from gsat.solvers.oracle import Loss, Oracle, untouched
from gsat.solvers.proximal import Proximal

NAMED: dict[str, Solver[Any]] = {"proximal": Proximal(), "admm": ADMM(), "linearised": Linearised()}


def maximise(
    loss: Loss,
    x: Tensor,
    cost: GroupCost | PerBatch,
    *,
    lam: float,
    solver: str | Solver[Any] = "proximal",
    n_inner: int = 20,
    feature_mask: Any = None,
    bounds: Any = None,
    batch: Any = None,
    generator: Generator | None = None,
    residual: bool = True,
) -> Solution:
    """The perturbation Δ of the group x that maximises Σ_i ℓ(x_i + δ_i) − λ·c(Δ), in at most n_inner gradients.

    loss:         (m, *features) -> (m,), one loss per sample, each depending on its own sample alone
    solver:       "proximal", "admm", "linearised", or an instance of `Proximal`, `ADMM`, `Linearised`
    feature_mask: boolean (*features), True where the adversary may move
    bounds:       (lo, hi); the loss sees clamp(x + Δ, lo, hi)
    batch:        one id per sample, for a `PerBatch` cost; without it such a cost draws from `generator`
    residual:     whether that of the solution is wanted, for which the proximal solver makes one more step without
                  a gradient
    The objective is never below that of Δ = 0.
    """
    x = _checks.group("x", x)
    lam = _checks.number("lam", lam, above=0)
    n_inner = _checks.count("n_inner", n_inner, least=1)
    chosen = named(solver)
    _checks.methods("cost must be", cost.cost if isinstance(cost, PerBatch) else cost, "value", "prox")
    with untouched(x):
        group_cost = bound(cost, len(x), batch, generator)
        oracle = Oracle(loss, x, _checks.feature_mask(feature_mask, x), _checks.bounds(bounds, x))
        return climb(oracle, group_cost, lam=lam, solver=chosen, n_inner=n_inner, residual=residual)


def climb(
    oracle: Oracle, cost: GroupCost, *, lam: float, solver: Solver[Any], n_inner: int, residual: bool = True
) -> Solution:
    """The loop of every solver: steps until it is done or has used n_inner gradients, then the best of its answers."""
    cost = cost.remembering() if isinstance(cost, Penalised) else cost
    state = solver.init(oracle.x, n_inner)
    while not state.done and oracle.n_gradients < n_inner:
        state = solver.step(oracle, cost, state, lam=lam)
    if not state.done and hasattr(solver, "finish"):
        state = solver.finish(oracle, cost, state, lam=lam)
    unbounded = isinstance(cost, Penalised) and cost.ridge == 0
    left = state.residual
    if not state.done and hasattr(solver, "probe"):
        left = math.nan
        if residual or unbounded or state.n_steps == 0:  # before the first step the probe is the answer
            state = solver.probe(oracle, cost, state, lam=lam)
            left = state.residual
    delta, objective = _best(oracle, cost, state, lam)
    if not state.done and unbounded:
        _warn_unbounded(state.drift, float(norm(delta)), n_inner)
    return Solution(delta, objective / len(oracle.x), left, state.n_steps, oracle.n_gradients)


def named(solver: str | Solver[Any]) -> Solver[Any]:
    """The solver of that name, or the instance itself."""
    if isinstance(solver, str):
        if solver not in NAMED:
            raise ValueError(f"solver must be one of {', '.join(NAMED)} or an instance, got {solver!r}")
        return NAMED[solver]
    return cast("Solver[Any]", _checks.methods("solver must be a name or", solver, "init", "step"))


def _best(oracle: Oracle, cost: GroupCost, state: State, lam: float) -> tuple[Tensor, float]:
    """The best of the solver's answers and Δ = 0, with S there."""
    best, objective = None, float(total(oracle.at_zero))
    for answer, losses in state.answers:
        delta = answer if oracle.mask is None else torch.where(oracle.mask, answer, 0)
        at = oracle.losses(delta) if losses is None else losses
        value = float(total(at)) - lam * float(cost.value(delta))
        if math.isfinite(value) and value > objective:
            best, objective = delta, value
    return torch.zeros_like(oracle.x) if best is None else best, objective


def _warn_unbounded(drift: float, size: float, n_inner: int) -> None:
    if drift > 1e-2 * size:
        warnings.warn(
            "alpha = 1 leaves the perturbation without a quadratic term, and there may be no maximum: stopped "
            f"at n_inner = {n_inner} with steps of length {drift:.3g}; take alpha < 1",
            RuntimeWarning,
            stacklevel=4,
        )
