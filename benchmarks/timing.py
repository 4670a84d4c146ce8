"""Times of jobs that take turns: `gsat.experiments.timing`, under the name that the benchmarks use."""

from gsat.experiments.timing import CLOCKS, Job, Ratio, Times, alternate

__all__ = ["CLOCKS", "Job", "Ratio", "Times", "alternate"]
