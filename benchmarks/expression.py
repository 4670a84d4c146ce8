"""Group-sparse training on real gene expression: an iteration in the middle of it, against PGD on the plain path.

TCGA lung (tumour or normal, 20,530 genes, standardised), the ELU net, groups of 200, lam="auto" with a budget of 0.05,
20 gradients of PGD, at most 20 of GSAT, which ends early where nothing is gained. "ratio" is the median of iterations
that take turns, with quartiles; "in all" is the ratio of the times of all of them.
"""

import argparse
import warnings

import torch

import gsat
from gsat.data import load
from gsat.models import build
from gsat.training.loop import iterate
from problems import N_INNER, Iteration, Problem
from timing import alternate

ALPHAS = (0.02, 0.1, 0.5)
PGD = "PGD"


def lung() -> Problem:
    """The training side, standardised, and an untrained model."""
    table = load("tcga-luad").train
    X, y = torch.from_numpy(table.X).float(), torch.from_numpy(table.codes)
    X = (X - X.mean(0)) / X.std(0).clamp(min=1e-6)
    model = build("elu", (X.shape[1],), int(y.max()) + 1, seed=0)
    return Problem("TCGA lung", model, X.contiguous(), y, 200, eta0=1e-4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=int, default=200, help="steps of training before the first that is timed")
    parser.add_argument("--rounds", type=int, default=24)
    options = parser.parse_args()
    problem = lung()
    jobs = {PGD: Iteration(problem.run(gsat.defences.PGD(problem.eps, steps=N_INNER), plain=True))}
    for alpha in ALPHAS:
        run = problem.run(gsat.defences.GSAT(gsat.GroupSparse(alpha), n_inner=N_INNER))
        for _ in range(options.before):
            iterate(run)
        jobs[f"alpha = {alpha:g}"] = Iteration(run)
    times = alternate(jobs, options.rounds)
    print(f"{problem.name}, {problem.X.shape[1]:,} genes, {torch.get_num_threads()} threads; {PGD} = 1")
    for name, job in jobs.items():
        ratio = times.ratio(name, PGD)
        whole = sum(times.seconds[name]) / sum(times.seconds[PGD])
        spread = f"({ratio.low:.2f} to {ratio.high:.2f})"
        print(f"{name:<14} ratio {ratio.median:.2f} {spread:<16} in all {whole:.2f}   {job.note}", flush=True)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # λ has not settled yet in the first steps
        main()
