"""One iteration of training, against our own PGD, against other libraries, and against the gradients alone."""

from collections.abc import Iterator

import gsat
import rivals
from plan import Plan
from problems import N_INNER, STRUCTURES, Iteration, Problem, floor, gsat_of, of_columns
from table import Row
from timing import alternate

PGD, FLOOR = f"PGD, {N_INNER} gradients", f"{N_INNER + 1} bare gradients"
PLAIN = ", plain path"
SHARES = (0.01, 0.1, 1.0)  # of the columns
GIVEN = f"{PGD}, layout as given"


def images(plan: Plan) -> Iterator[Row]:
    """The AlexNet, which has no short-cut; PGD of other libraries takes turns with ours.

    All have the same model and images. Ours is there twice: as it is, with the channels last, and as the others.
    """
    for problem in plan.alexnets():
        jobs, others = _iterations(plan, problem, [""]), rivals.jobs(problem)
        others[GIVEN] = Iteration(problem.as_given().run(gsat.defences.PGD(problem.eps, steps=N_INNER)))
        times = alternate({FLOOR: floor(problem), **jobs, **others}, plan.image_rounds, clock=plan.clock)
        for what, job in jobs.items():
            yield Row.timed("iteration", problem.name, what, PGD, times, floor=FLOOR, note=job.note)
        for name in rivals.MODULES:
            if name in others:
                yield Row.timed("other libraries", problem.name, PGD, name, times)
                yield Row.timed("other libraries", problem.name, GIVEN, name, times)
            else:
                yield Row("other libraries", problem.name, PGD, name, note=f"{name} is not installed: {rivals.INSTALL}")


def vectors(plan: Plan) -> Iterator[Row]:
    """The ELU net, as it is and on the plain path.

    Group-sparse training leaves most of these groups alone, and their ascents end early; so it is also there with a
    given share of the columns moving.
    """
    for problem in plan.elus():
        jobs = _iterations(plan, problem, [PLAIN, ""])
        known, control = plan.settled(problem, "group-sparse")
        for share in SHARES:
            run = known.run(of_columns(share, problem.X.shape[1]), control=control)
            jobs[f"group-sparse of {share:.0%}, {N_INNER} gradients"] = Iteration(run)
        times = alternate({FLOOR: floor(problem), **jobs}, plan.rounds, clock=plan.clock)
        for what, job in jobs.items():
            yield Row.timed("iteration", problem.name, what, PGD + PLAIN, times, floor=FLOOR, note=job.note)


def _iterations(plan: Plan, problem: Problem, paths: list[str]) -> dict[str, Iteration]:
    """PGD and GSAT with the same number of gradients on each of the paths, and GSAT as it is trained."""
    jobs = {}
    for path in paths:
        run = problem.run(gsat.defences.PGD(problem.eps, steps=N_INNER), plain=path == PLAIN)
        jobs[PGD + path] = Iteration(run)
    for structure in STRUCTURES:
        known, control = plan.settled(problem, structure)
        kinds = {f", {N_INNER} gradients{path}": (0.0, path == PLAIN) for path in paths}
        for kind, (tol, plain) in {**kinds, ", as trained": (None, False)}.items():
            run = known.run(gsat_of(structure, problem.m, tol=tol), plain=plain, control=control)
            jobs[structure + kind] = Iteration(run)
    return jobs
