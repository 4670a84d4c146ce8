"""Group optimal transport between discrete distributions, for checking theory on small problems."""

from gsat.transport.results import Transform, Transport, WorstRisk
from gsat.transport.values import (
    c_transform,
    check_permutation_invariance,
    dual,
    primal,
    worst_risk,
    worst_risk_within,
)

__all__ = [
    "Transform",
    "Transport",
    "WorstRisk",
    "c_transform",
    "check_permutation_invariance",
    "dual",
    "primal",
    "worst_risk",
    "worst_risk_within",
]
