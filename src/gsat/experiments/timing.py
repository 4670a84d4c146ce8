"""Times of jobs that take turns in one process, and their ratios.

A machine is never twice as fast as it was a minute ago, so nothing here compares two times of different rounds: the
ratio of two jobs is the median over the rounds of the ratio within a round.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Job = Callable[[], object]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}  # "cpu" is fair on a busy machine, with one thread


@dataclass(frozen=True)
class Ratio:
    """The median of the paired ratios and their quartiles."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Times:
    """Seconds of each job, round by round."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        """The median of its seconds."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, base: str) -> Ratio:
        """How long `name` takes in units of `base`."""
        paired = [a / b for a, b in zip(self.seconds[name], self.seconds[base], strict=True)]
        low, _, high = statistics.quantiles(paired, n=4, method="inclusive") if len(paired) > 1 else 3 * paired
        return Ratio(statistics.median(paired), low, high)


def alternate(jobs: Mapping[str, Job], rounds: int, *, clock: str = "wall", warm_up: int = 1) -> Times:
    """Run all jobs `rounds` times in turn, every other round backwards, after `warm_up` rounds that do not count."""
    now = CLOCKS[clock]
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(-warm_up, rounds):
        gc.collect()
        for name in list(jobs) if turn % 2 == 0 else reversed(list(jobs)):
            begin = now()
            jobs[name]()
            took = now() - begin
            if turn >= 0:
                seconds[name].append(took)
    return Times(seconds)
