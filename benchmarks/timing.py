"""Times of jobs that take turns (`gsat.experiments.timing`, under the name that the benchmarks use), and where."""

import platform
from pathlib import Path

from gsat.experiments.timing import CLOCKS, Job, Ratio, Times, alternate

__all__ = ["CLOCKS", "Job", "Ratio", "Times", "alternate", "processor"]


def processor() -> str:
    """Its name where Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
