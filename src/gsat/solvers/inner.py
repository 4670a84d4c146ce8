"""The inner problem: maximise S(Δ) = Σ_i ℓ(x_i + δ_i) − λ·c(Δ) over the perturbations of one group."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Generator, Tensor

from gsat import _checks, _defaults
from gsat._arrays.norms import norm, size, total
from gsat.costs import GroupCost, Penalised, PerBatch, bound
from gsat.metric import Metric, fitting
from gsat.models.modes import untouched
from gsat.solvers.admm import ADMM
from gsat.solvers.base import Answer, Solution, Solver
from gsat.solvers.linearised import Linearised
from gsat.solvers.oracle import Loss, Oracle
from gsat.solvers.proximal import Proximal

ROUNDING = 1e-3  # of a loss that is taken for straight
NAMED: dict[str, Solver] = {
    "proximal": Proximal(),
    "admm": ADMM(),
    "admm-paper": ADMM(rho=1.0, eta1=0.1),  # the numbers of the paper
    "linearised": Linearised(),
}


def maximise(
    loss: Loss,
    x: Tensor,
    cost: GroupCost | PerBatch,
    *,
    lam: float,
    solver: str | Solver = "proximal",
    n_inner: int = _defaults.N_INNER,
    feature_mask: Any = None,
    bounds: Any = None,
    batch: Any = None,
    generator: Generator | None = None,
    metric: Metric | None = None,
) -> Solution:
    """The perturbation Δ of the group x that maximises S(Δ) = Σ_i ℓ(x_i + δ_i) − λ·c(Δ).

    Parameters
    ----------
    loss : callable
        (m, *features) -> (m,), one loss per sample, each depending on its own sample alone.
    x : Tensor, (m, *features)
        The group.
    cost : GroupCost or PerBatch
        c(Δ).
    lam : float
        The price λ > 0.
    solver : str or Solver
        "proximal", "admm", "admm-paper" (the paper's ρ and η₁), "linearised", or an instance of `Proximal`,
        `ADMM` or `Linearised`.
    n_inner : int
        At most this many gradients are evaluated, rejected trials included.
    feature_mask : boolean (*features), optional
        True where the adversary may move.
    bounds : pair (lo, hi), optional
        The loss sees clamp(x + Δ, lo, hi); Δ keeps its structure.
    batch : m ids, optional
        For a `PerBatch` cost; without it such a cost draws from `generator`.
    generator : torch.Generator, optional
        Of those draws.
    metric : Metric, optional
        The cost is c(Z) with Δ = Z·A: moving along the directions of the metric is cheap. The structure is that of Z.

    Returns
    -------
    Solution
        Its objective S(Δ)/m is never below that of Δ = 0.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> x = torch.zeros(5, 4)
    >>> found = gsat.maximise(lambda z: z[:, 0] - z[:, 1], x, gsat.GroupSparse(), lam=0.5)
    >>> found.delta.abs().sum(0) > 0  # the features that move
    tensor([ True,  True, False, False])
    """
    x = _checks.group("x", x)
    lam = _checks.number("lam", lam, above=0)
    n_inner = _checks.count("n_inner", n_inner, least=1)
    chosen = named(solver)
    _checks.methods("cost must be", cost.cost if isinstance(cost, PerBatch) else cost, "value", "prox")
    with untouched(x):
        group_cost = bound(cost, len(x), batch, generator)
        mask = _checks.feature_mask(feature_mask, x)
        metric = fitting(metric, x, mask)
        oracle = Oracle(loss, x, mask, _checks.bounds(bounds, x), n_inner, metric=metric)
        found = climb(oracle, group_cost, lam=lam, solver=chosen)
        return found if metric is None else replace(found, delta=metric.apply(found.delta))


def climb(oracle: Oracle, cost: Penalised, *, lam: float, solver: Solver, warn: bool = True) -> Solution:
    """The loop of every solver: steps until it is done or has used n_inner gradients, then the best of its answers.

    warn: whether to tell of a loss that outgrows the cost
    """
    state = solver.init(oracle, cost, lam=lam)
    while not state.done and oracle.n_gradients < oracle.n_inner:
        state = solver.step(oracle, cost, state, lam=lam)
    ending = solver.finish(cost, state, lam=lam)
    delta, objective = _best(oracle, cost, ending.answers, lam)
    fault = None
    if warn and not (state.done and oracle.is_near(delta)):
        fault = _unbounded(oracle, cost, delta, ending.travel, lam)
    if fault is not None:
        warnings.warn(fault, RuntimeWarning, stacklevel=3)
    return Solution(
        delta, objective / size(oracle.x), ending.residual, state.n_steps, oracle.n_gradients, fault is not None
    )


def named(solver: str | Solver) -> Solver:
    """The solver of that name, or the instance itself."""
    if isinstance(solver, str):
        if solver not in NAMED:
            raise ValueError(f"solver must be one of {', '.join(NAMED)} or an instance, got {solver!r}")
        return NAMED[solver]
    return cast(Solver, _checks.methods("solver must be a name or", solver, "init", "step", "finish"))


def _best(oracle: Oracle, cost: Penalised, answers: list[Answer], lam: float) -> tuple[Tensor, float]:
    """The best of the answers and Δ = 0, with S there."""
    best, objective = None, oracle.floor
    for answer, losses in answers:
        delta = answer if oracle.mask is None else torch.where(oracle.mask, answer, 0)
        if losses is None:
            delta = oracle.within_reach(delta)
        at = oracle.losses(delta) if losses is None else losses
        value = float(total(at)) - lam * float(cost.value(delta))
        if math.isfinite(value) and value > objective:
            best, objective = delta, value
    return torch.zeros_like(oracle.x) if best is None else best, objective


def _unbounded(oracle: Oracle, cost: Penalised, delta: Tensor, travel: float, lam: float) -> str | None:
    """Why an ascent that did not end by itself may have no end, or None; travel: the length of its next step.

    Without a quadratic term that is where it still moves. With one it is where Δ is longer than the group and the loss
    bends up along it more than λ·ridge·‖Δ‖² does: the curvature along Δ is
    Σ_i [ℓ(x_i + 3δ_i) − 2ℓ(x_i + 2δ_i) + ℓ(x_i + δ_i)]/‖Δ‖², and g grows linearly and has none. A loss that is
    infinite there outgrows every cost; NaN is outside its domain.
    """
    length = float(norm(delta))
    if cost.unbounded and travel > 1e-2 * length:
        return (
            "alpha = 1 leaves the perturbation without a quadratic term, and there may be no maximum: stopped "
            f"after {oracle.n_gradients} gradients with steps of length {travel:.3g}; take alpha < 1"
        )
    if cost.ridge == 0 or length <= oracle.size:
        return None
    once, twice, thrice = (float(total(oracle.losses(k * delta))) for k in (1, 2, 3))
    curvature, enough = (thrice - 2 * twice + once) / length**2, 2 * lam * cost.ridge
    stopped = f"the ascent was stopped at ‖Δ‖ = {length:.3g} where ‖x‖ = {oracle.size:.3g}"
    if math.inf in (twice, thrice):
        return (
            f"the loss is infinite farther along the perturbation: loss − lam·c(Δ) has no maximum, and {stopped}; take "
            "a larger lam, or a loss that grows more slowly"
        )
    if curvature > enough + ROUNDING * abs(thrice) / length**2:
        return (
            f"the loss has curvature {curvature:.3g} along the perturbation, above 2·lam·ridge = {enough:.3g}: "
            f"loss − lam·c(Δ) has no maximum, and {stopped}; take lam above {curvature / (2 * cost.ridge):.3g}"
        )
    return None
