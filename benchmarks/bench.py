"""All speed benchmarks: one table, ratios first, measured side by side in one process; results/bench.json keeps it.

Times are medians of runs that take turns. A ratio is the median over the rounds of the ratio within a round; where the
column says "ABOVE" it is above what this project asks of itself. The problems are synthetic, in the shapes of MNIST,
CIFAR-10, genotypes (10,425) and gene expression (20,531). About a quarter of an hour on two free cores.
"""

import argparse
import importlib.metadata
import platform
import shlex
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import iteration
import scaling
import searching
import table
from plan import QUICK, Plan
from timing import CLOCKS, processor

PARTS = {
    "images": iteration.images,
    "vectors": iteration.vectors,
    "equal": searching.equal_value,
    "memory": scaling.memory,
    "growth": scaling.growth,
    "sweep": searching.sweep,
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny problems: shows that it works, and nothing else")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="rounds of every alternation")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help='"cpu" is fair on a busy machine, one thread')
    parser.add_argument("--out", type=Path, default=table.RESULTS, help="default: %(default)s")
    options = parser.parse_args(argv)
    chosen = options.only.split(",")
    if unknown := sorted(set(chosen) - set(PARTS)):
        parser.error(f"--only must name some of {', '.join(PARTS)}, got {', '.join(unknown)}")
    plan = replace(QUICK if options.quick else Plan(), clock=options.clock)
    if options.rounds:
        plan = replace(plan, rounds=options.rounds, image_rounds=options.rounds, sweep_rounds=options.rounds)
    rows: list[table.Row] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # λ has not settled yet in the first steps
        for name in chosen:
            print(f"measuring: {name}", file=sys.stderr, flush=True)
            rows += PARTS[name](plan)
    print(table.terminal(rows))
    table.save(options.out, described(plan, sys.argv if argv is None else ["bench.py", *argv]), rows)


def described(plan: Plan, command: list[str]) -> dict[str, Any]:
    """The machine, the versions and the sizes."""
    packages = ("torch", "numpy", "torchattacks", "adversarial-robustness-toolbox")
    return {
        "command": shlex.join(["python", "benchmarks/bench.py", *command[1:]]),
        "machine": {"system": platform.system(), "processor": processor()},
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
        "plan": vars(plan),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
