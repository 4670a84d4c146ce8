"""Theorem 3 at work: the average of ‖∇F(w)‖² over the iterations of Algorithm 1 falls like 1/T, for all three costs.

The loss of a sample is σ(−y·⟨w, x⟩) + τ/2·‖w‖², y = ±1: smooth, and not convex in w. Where ‖w‖ ≤ B and ‖x‖ ≤ R its
gradient in (w, x) turns at most by β = (B² + R²)/(6√3) + ¼ + τ, because |σ″| ≤ 1/(6√3) and σ′ ≤ ¼. There is one group
of all samples (m = n). An iteration is one step of ADMM, whose variables are carried over as in the proof, and one
projected step of w, with the step sizes of `gsat.schedule`. The multiplier γ = ρu of ADMM has the step ρ of Algorithm 2
as corrected (docs/paper.md), or with --multiplier proof the step η₀ that it has in the proof. ‖∇F‖ is measured, with
the inner problem solved to high accuracy, at iterations that grow geometrically; between them ‖∇F‖² is taken as linear.

The second table compares Theorem 3's bound of the iterations (`Schedule.iterations`) with the number after which the
average of ‖∇F‖² was at most ε² for the first time. F(w_0) stands for F(w_0) − min F, since the loss is positive.
"""

import argparse
import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

import gsat
from gsat.solvers.admm import ADMMState
from gsat.solvers.oracle import Oracle

M, D = 24, 5
B, R, TAU = 1.5, 1.0, 0.1
ALPHA = 0.1
EPS = (0.1, 0.03, 0.01)


class Linear(nn.Module):
    """⟨w, x⟩ for each sample, and τ/2·‖w‖²."""

    def __init__(self, w: Tensor) -> None:
        super().__init__()
        self.w = nn.Parameter(w)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x @ self.w, (TAU / 2 * self.w.square().sum()).expand(len(x))], dim=1)


def smooth_loss(outputs: Tensor, y: Tensor) -> Tensor:
    return torch.sigmoid(-y * outputs[:, 0]) + outputs[:, 1]


def problem() -> tuple[Tensor, Tensor]:
    """Two overlapping classes of unequal size inside the ball of radius 0.8·R."""
    generator = torch.Generator().manual_seed(0)
    y = torch.where(torch.arange(M) % 3 == 0, -1.0, 1.0).double()
    x = torch.randn(M, D, generator=generator, dtype=torch.float64)
    x[:, 0] += 1.5 * y
    return 0.8 * R * x / x.norm(dim=1).max(), y


def descend(
    cost: gsat.GroupCost, lam: float, steps: gsat.Schedule, rho: float, n_outer: int, multiplier: float | None = None
) -> tuple[np.ndarray, ...]:
    """The iterations at which ‖∇F‖² was measured, its values, how far w and the samples went, and ‖Δ‖ at the end.

    multiplier: the step of γ = ρu, by default ρ
    """
    x, y = problem()
    model = Linear(torch.full((D,), -0.4, dtype=torch.float64))
    solver = gsat.ADMM(rho=rho, eta1=steps.eta1)
    state = ADMMState(*(torch.zeros_like(x) for _ in range(3)))
    marks, values, reach = np.unique(np.geomspace(1, n_outer, 80).round()).astype(int), [], [0.0, 0.0]
    wanted = set(marks.tolist())
    for t in range(1, n_outer + 1):
        if t in wanted:
            values.append(gsat.stationarity(model, x, y, cost, lam, loss=smooth_loss) ** 2)
            far = max(float((x + d).norm(dim=1).max()) for d in (state.split, state.delta))
            reach = [max(reach[0], float(model.w.detach().norm())), max(reach[1], far)]
        with torch.no_grad():
            before = state
            state = solver.step(Oracle(lambda z: smooth_loss(model(z), y), x), cost, state, lam=lam)
        if multiplier is not None:
            state = replace(state, dual=before.dual - multiplier / rho * (state.split - state.delta))
        (slope,) = torch.autograd.grad(smooth_loss(model(x + state.delta), y).mean(), model.w)
        with torch.no_grad():
            model.w -= steps.eta0 * slope
            model.w *= min(1.0, B / float(model.w.norm()))
    return marks, np.array(values), np.array([*reach, float(state.delta.norm())])


def averages(marks: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(1/T)·Σ_{t ≤ T} ‖∇F(w_t)‖² at each of the marks T."""
    between = (values[1:] + values[:-1]) / 2 * np.diff(marks)
    return (values[0] + np.concatenate([[0.0], np.cumsum(between)])) / marks


def first_below(marks: np.ndarray, means: np.ndarray, eps: float) -> float:
    """The first T at which the average is at most ε², between two marks on a line of logarithms; inf if none is."""
    small = np.flatnonzero(means <= eps**2)
    if len(small) == 0:
        return math.inf
    at = int(small[0])
    if at == 0:
        return float(marks[0])
    ends = slice(at, at - 2 if at > 1 else None, -1)  # means fall, np.interp wants them to rise
    return float(np.exp(np.interp(2 * math.log(eps), np.log(means[ends]), np.log(marks[ends]))))


def bound(cost: gsat.GroupCost, lam: float, steps: gsat.Schedule, eps: float) -> float:
    """Theorem 3's for the run of `descend`."""
    x, y = problem()
    model = Linear(torch.full((D,), -0.4, dtype=torch.float64)).requires_grad_(False)
    found = gsat.maximise(lambda z: smooth_loss(model(z), y), x, cost, lam=lam, n_inner=500)
    return steps.iterations(eps, gap=found.objective, distance=float(found.delta.norm()) / math.sqrt(M))


def slope(marks: np.ndarray, means: np.ndarray) -> float:
    """Of the line through log(average) against log T, over the last decade."""
    late = marks >= marks[-1] / 10
    return float(np.polyfit(np.log(marks[late]), np.log(means[late]), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-outer", type=int, default=60_000)
    parser.add_argument("--multiplier", choices=("admm", "proof"), default="admm")
    args = parser.parse_args()
    n_outer = args.n_outer
    beta = (B**2 + R**2) / (6 * math.sqrt(3)) + 0.25 + TAU
    rho, lam = beta / 2, 2 * beta / (1 - ALPHA)
    steps = gsat.schedule(beta, lam, ALPHA, rho)
    print(f"m = n = {M}, d = {D}; beta = {beta:.3f}, lam = {lam:.3f}, alpha = {ALPHA}, rho = {rho:.3f}")
    print(f"eta1 = {steps.eta1:.4f}, eta0 = {steps.eta0:.6f}, kappa = {steps.kappa:.3f}")
    columns = [n_outer // 1000, n_outer // 100, n_outer // 10, n_outer]
    heads = "".join(f"{f'T = {T}':>14}" for T in columns)
    print(f"{'average of |grad F|^2':<22}{heads}{'slope':>9}{'last':>11}{'|w| <=':>8}{'|x+d| <=':>9}{'|delta|':>9}")
    counted = []
    for cost in (gsat.Universal(ALPHA), gsat.GroupSparse(ALPHA), gsat.LowRank(ALPHA)):
        marks, values, (w, far, size) = descend(
            cost, lam, steps, rho, n_outer, steps.eta0 if args.multiplier == "proof" else None
        )
        means = averages(marks, values)
        cells = "".join(f"{np.exp(np.interp(np.log(T), np.log(marks), np.log(means))):>14.2e}" for T in columns)
        tail = f"{slope(marks, means):>9.3f}{values[-1]:>11.1e}{w:>8.2f}{far:>9.2f}{size:>9.3f}"
        print(f"{type(cost).__name__:<22}{cells}{tail}", flush=True)
        for eps in EPS:
            counted.append((type(cost).__name__, eps, first_below(marks, means, eps), bound(cost, lam, steps, eps)))
    print(f"\n{'iterations to eps':<22}{'eps':>8}{'measured':>12}{'Theorem 3':>12}{'ratio':>10}")
    for name, eps, measured, allowed in counted:
        print(f"{name:<22}{eps:>8g}{measured:>12.3g}{allowed:>12.3g}{measured / allowed:>10.1e}")


if __name__ == "__main__":
    main()
