"""What gradients buy: how many reach the inner value of 20 steps of ADMM, and how long a sweep of attacks takes."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor
from torch.nn.functional import cross_entropy

import gsat
from gsat.costs import scaled
from inner import gradients_to
from iteration import PGD, PLAIN
from plan import Plan
from problems import N_INNER, Iteration, Problem, gsat_of, input_gradients
from table import Row
from timing import alternate

MARKS = (gsat.ADMM(), gsat.ADMM(eta1=0.1))  # with our step and with the paper's; the better of the two is the mark
WORTH, LOWER, MOST_TRIES = (
    0.05,
    0.9,
    20,
)  # a mark that Δ = 0 nearly reaches says nothing: λ is lowered until it is above


def equal_value(plan: Plan) -> Iterator[Row]:
    """An iteration with the gradients that reach the value of 20 steps of ADMM, against PGD with 20 gradients."""
    for problem in plan.alexnets():
        jobs = {PGD: Iteration(problem.run(gsat.defences.PGD(problem.eps, steps=N_INNER)))}
        notes = {}
        for structure in ("group-sparse", "low-rank"):
            known, control = plan.settled(problem, structure)
            groups = [_Inner(known, control.target, structure, seed) for seed in range(plan.marks)]
            lam, marks = _worth_reaching(groups, control.lam)
            counts = [group.gradients(mark, lam) for group, mark in zip(groups, marks, strict=True)]
            n = statistics.median_high(counts)
            what = f"{structure}, {n:g} gradients"
            found = [
                f"{count:g} (ADMM gains {mark - group.at_zero:.1e})"
                for count, mark, group in zip(counts, marks, groups, strict=True)
            ]
            notes[what] = f"gradients to the value of ADMM: {', '.join(found)}; λ {lam / control.lam:.2g} of training's"
            if math.isfinite(n):
                defence = gsat_of(structure, problem.m, n_inner=int(n))
                jobs[what] = Iteration(known.run(defence, control=replace(control, lam=lam)))
        times = alternate(jobs, plan.image_rounds, clock=plan.clock)
        for what, note in notes.items():
            if what in jobs:
                yield Row.timed("equal value", problem.name, what, PGD, times, note=note)
            else:
                yield Row("equal value", problem.name, what, PGD, math.inf, note=note)


class _Inner:
    """The inner problem of one group, and the value that 20 steps of ADMM reach there."""

    def __init__(self, problem: Problem, target: float, structure: str, seed: int) -> None:
        self.x, self._y = problem.groups(seed).next()
        self._model = problem.fresh().eval().requires_grad_(False)
        self._cost = scaled(gsat_of(structure, problem.m).cost, target)
        self.at_zero = float(self._loss(self.x).mean())

    def mark(self, lam: float) -> float:
        """The better of the two."""
        return max(self._reached(lam, solver) for solver in MARKS)

    def gradients(self, mark: float, lam: float) -> float:
        """The least n_inner that reaches the mark; inf where ADMM gave none."""
        if mark == -math.inf:
            return math.inf
        return gradients_to(mark, self._loss, self.x, self._cost, lam, gsat.Proximal())

    def _loss(self, z: Tensor) -> Tensor:
        return cross_entropy(self._model(z), self._y, reduction="none")

    def _reached(self, lam: float, solver: gsat.ADMM) -> float:
        try:
            return gsat.maximise(self._loss, self.x, self._cost, lam=lam, solver=solver, n_inner=N_INNER).objective
        except FloatingPointError:  # a fixed step may be too long
            return -math.inf


def _worth_reaching(groups: list[_Inner], lam: float) -> tuple[float, list[float]]:
    """The marks at the first λ, from the given one downwards, at which each is above the loss at Δ = 0 by a share.

    Where none is found, at the last one.
    """
    for tries in range(MOST_TRIES):
        lower = lam * LOWER**tries
        marks = [group.mark(lower) for group in groups]
        if all(mark > (1 + WORTH) * group.at_zero for mark, group in zip(marks, groups, strict=True)):
            break
    return lower, marks


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
        times = alternate(jobs, plan.sweep_rounds, clock=plan.clock, warm_up=0)  # a sweep is long
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
