"""What gradients buy: how many reach the inner value of 20 steps of ADMM, and how long a sweep of attacks takes."""

import math
import statistics
from collections.abc import Iterator

from torch import Tensor
from torch.nn.functional import cross_entropy

import gsat
from gsat.control import Control
from gsat.grouping import scaled
from inner import gradients_to
from iteration import PGD, PLAIN
from plan import Plan
from problems import N_INNER, Iteration, Problem, gsat_of, input_gradients
from table import Row
from timing import alternate

MARKS = (gsat.ADMM(), gsat.ADMM(eta1=0.1))  # with our step and with the paper's; the better of the two is the mark


def equal_value(plan: Plan) -> Iterator[Row]:
    """An iteration with the gradients that reach the value of 20 steps of ADMM, against PGD with 20 gradients."""
    for problem in plan.alexnets():
        jobs = {PGD: Iteration(problem.run(gsat.defences.PGD(problem.eps, steps=N_INNER)))}
        notes = {}
        for structure in ("group-sparse", "low-rank"):
            known, control = plan.settled(problem, structure)
            found = [_gradients(known, control, structure, seed) for seed in range(plan.marks)]
            n = statistics.median_high(count for count, _ in found)
            what = f"{structure}, {n:g} gradients"
            counts = ", ".join(f"{count:g} (ADMM gains {gain:.1e})" for count, gain in found)
            notes[what] = f"gradients to the value of ADMM: {counts}"
            if math.isfinite(n):
                jobs[what] = Iteration(known.run(gsat_of(structure, problem.m, n_inner=int(n)), control=control))
        times = alternate(jobs, plan.image_rounds, clock=plan.clock)
        for what, note in notes.items():
            if what in jobs:
                yield Row.timed("equal value", problem.name, what, PGD, times, note=note)
            else:
                yield Row("equal value", problem.name, what, PGD, math.inf, note=note)


def _gradients(problem: Problem, control: Control, structure: str, seed: int) -> tuple[float, float]:
    """The least n_inner that reaches the mark on one group, and how far the mark is above S(0)."""
    x, y = problem.groups(seed).next()
    model = problem.fresh().eval().requires_grad_(False)
    cost = scaled(gsat_of(structure, problem.m).cost, control.target)

    def loss(z: Tensor) -> Tensor:
        return cross_entropy(model(z), y, reduction="none")

    mark = max(_reached(loss, x, cost, control.lam, solver) for solver in MARKS)
    return gradients_to(mark, loss, x, cost, control.lam, gsat.Proximal()), mark - float(loss(x).mean())


def _reached(loss: gsat.oracle.Loss, x: Tensor, cost: gsat.GroupCost, lam: float, solver: gsat.ADMM) -> float:
    try:
        return gsat.maximise(loss, x, cost, lam=lam, solver=solver, n_inner=N_INNER).objective
    except FloatingPointError:  # a fixed step may be too long
        return -math.inf


def sweep(plan: Plan) -> Iterator[Row]:
    """`gsat.evaluate` with attacks of many strengths, against as many bare gradients; one group, the ELU net."""
    n = plan.strengths * plan.attack_steps
    for problem in (plan.elus()[0], plan.elus()[-1]):
        some = max(20, 100_000 // problem.X[0].numel())
        base = f"{n:,} bare gradients"
        jobs = {base: input_gradients(problem, some)}
        for path in (PLAIN, ""):
            for name in ("PGD", "low-rank", "group-sparse"):
                if problem is plan.elus()[0] or (path == "" and name != "group-sparse"):
                    jobs[name + path] = _Sweep(plan, problem, name, plain=path == PLAIN)
        jobs[base]()
        times = alternate(jobs, 1, clock=plan.clock, warm_up=0)  # a sweep is long
        times.seconds[base] = [seconds * n / some for seconds in times.seconds[base]]
        case = f"{plan.strengths} strengths x {plan.attack_steps} steps, {problem.name}"
        for name in list(jobs)[1:]:
            yield Row.timed("sweep", case, name, base, times)


class _Sweep:
    """The attacks of one structure, with eps up to a fifth of the mean norm."""

    def __init__(self, plan: Plan, problem: Problem, name: str, *, plain: bool) -> None:
        self.model = problem.fresh(plain=plain).eval()
        self.X, self.y = problem.groups().next()
        sizes = [4 * problem.eps * (i + 1) / plan.strengths for i in range(plan.strengths)]
        kinds = {
            "PGD": gsat.attacks.PGD,
            "low-rank": lambda eps, **more: gsat.attacks.LowRank(eps, rank=3, **more),
            "group-sparse": lambda eps, **more: gsat.attacks.GroupSparse(eps, k=50, **more),
        }
        self.attacks = [kinds[name](eps, steps=plan.attack_steps) for eps in sizes]

    def __call__(self) -> None:
        gsat.evaluate(self.model, self.X, self.y, self.attacks)
