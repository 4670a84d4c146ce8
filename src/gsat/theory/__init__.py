"""What the paper proves, computed: step sizes of Theorem 3, stationarity, the dual bound and certificates."""

from gsat.theory.certificate import certify
from gsat.theory.curvature import curvature_bound
from gsat.theory.result import Certificate
from gsat.theory.step_sizes import Schedule, schedule, stationarity

__all__ = ["Certificate", "Schedule", "certify", "curvature_bound", "schedule", "stationarity"]
