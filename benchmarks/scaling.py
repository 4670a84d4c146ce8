"""How time and memory of an iteration grow with the features and the samples, on the ELU net."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

import gsat
from allocations import peak_bytes
from iteration import PGD, PLAIN
from plan import Plan
from problems import N_INNER, STRUCTURES, Iteration, Problem, elu, gsat_of, settled
from table import Row
from timing import alternate

LOW_RANK = f"low-rank, {N_INNER} gradients"
FITTED = 4  # times the narrowest: exponents in d are fitted from there on, for below it the heads of calls count
FEWER = 2e6  # entries of a group; larger ones are run in fewer rounds


def memory(plan: Plan) -> Iterator[Row]:
    """The peak of an iteration at the largest width, beyond the group and the model."""
    problem = plan.elus()[-1]
    for path in (PLAIN, ""):
        jobs = {PGD: problem.run(gsat.defences.PGD(problem.eps, steps=N_INNER), plain=path == PLAIN)}
        for structure in STRUCTURES:
            known, control = plan.settled(problem, structure)
            defence = gsat_of(structure, problem.m)
            jobs[f"{structure}, {N_INNER} gradients"] = known.run(defence, plain=path == PLAIN, control=control)
        for name, run in jobs.items():
            value = arrays(Iteration(run), problem)
            yield Row("memory", problem.name, name + path, value=value, unit="arrays")


def arrays(job: Iteration, problem: Problem) -> float:
    """The peak in arrays of (m, d) beyond the group, the weights and the optimizer's moments.

    The gradient of the weights counts, for it is let go between iterations; it is as large as W.
    """
    job()  # the optimizer allocates its moments
    run = job.run
    run.optimizer.zero_grad()
    run.defence.delta = None
    if isinstance(run.defence, gsat.defences.GSAT):
        run.defence.solution = None
    one = problem.m * problem.X[0].numel() * problem.X.element_size()
    return peak_bytes(job) / one - 1


def growth(plan: Plan) -> Iterator[Row]:
    """Low-rank through the short-cut against PGD on the plain path over a grid, and the exponents of both."""
    found: dict[tuple[str, int, int], tuple[float, float]] = {}
    for d in plan.growth_d:
        widest = elu(d, max(plan.growth_m), n=max(plan.growth_m))
        for m in plan.growth_m:
            problem = replace(widest, m=m)
            known, control = settled(problem, "low-rank", steps=3, m=25)
            jobs = {
                LOW_RANK: Iteration(known.run(gsat_of("low-rank", m), control=control)),
                PGD + PLAIN: Iteration(problem.run(gsat.defences.PGD(problem.eps, steps=N_INNER), plain=True)),
            }
            rounds = max(1, min(plan.rounds, round(plan.rounds * FEWER / (m * d))))
            times = alternate(jobs, rounds, clock=plan.clock)
            case = f"m = {m}, d = {d:,}"
            for name, job in jobs.items():
                held = arrays(job, problem)
                found[name, m, d] = times.median(name), (held + 1) * m * d
                yield Row.timed("growth", case, name, PGD + PLAIN, times, note=f"{held:.1f} arrays")
    yield from _exponents(plan, found)


def _exponents(plan: Plan, found: dict[tuple[str, int, int], tuple[float, float]]) -> Iterator[Row]:
    """Of time in d for each m; of the rest in the middle of the grid."""
    wide = [d for d in plan.growth_d if d >= FITTED * plan.growth_d[0]]
    m, d = plan.growth_m[len(plan.growth_m) // 2], plan.growth_d[len(plan.growth_d) // 2]
    for name in (LOW_RANK, PGD + PLAIN):
        lines = [("time in d", 0, [(n, p) for p in wide], f"m = {n}") for n in plan.growth_m]
        lines += [
            ("time in m", 0, [(n, d) for n in plan.growth_m], f"d = {d:,}"),
            ("memory in d", 1, [(m, p) for p in wide], f"m = {m}"),
            ("memory in m", 1, [(n, d) for n in plan.growth_m], f"d = {d:,}"),
        ]
        for quantity, which, cells, at in lines:
            sizes = [cell[quantity.endswith("d")] for cell in cells]
            value = exponent(sizes, [found[name, *cell][which] for cell in cells])
            what = f"{quantity}, {sizes[0]:,} to {sizes[-1]:,}, {at}"
            yield Row("exponent", name, what, value=value, unit="")


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """P of the power law values ∝ sizes^p that fits best in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
