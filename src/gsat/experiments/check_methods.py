"""What `check` compares: methods with as many strengths each, and what they are called."""

from __future__ import annotations

from gsat.experiments.shift_candidates import Setting
from gsat.experiments.shift_choice import GSAT_ALL, IN_METRIC, PREPARED, Method
from gsat.experiments.shift_choice import METHODS as KNOWN

REFERENCE, MAJORITY = "logistic", "majority"
_NAMES = {
    MAJORITY: "majority class",
    REFERENCE: "logistic regression",
    "LDA": "shrinkage LDA",
    "erm": "plain network",
    "pgd": "network trained with PGD",
    "universal": "GSAT universal",
    "group-sparse": "GSAT group-sparse",
    "low-rank": "GSAT low-rank",
    **{name: f"GSAT {name.removesuffix(', metric')} in the metric" for name in IN_METRIC},
    GSAT_ALL: "whatever left-out batches choose",
}
METHODS: dict[str, Method] = {
    name + suffix: KNOWN[name + suffix] for suffix in ("", PREPARED) for name in _NAMES if name + suffix in KNOWN
}
TITLES = {key: _NAMES[key.removesuffix(PREPARED)] + (", prepared" if PREPARED in key else "") for key in METHODS}

USUAL = Setting(
    budgets=(0.02, 0.06, 0.15), metric_budgets=(0.02, 0.06, 0.15), lengths=(0.5, 1.0, 2.0),
    cs=(1e-3, 3e-2, 1.0), metric_cs=(), shrinkages=(0.05, 0.2, 0.6), n_outer=150,
)  # fmt: skip
QUICK = Setting(
    budgets=(0.03, 0.1), metric_budgets=(0.03, 0.1), lengths=(0.5, 1.0), cs=(1e-3, 3e-2), metric_cs=(),
    shrinkages=(0.1, 0.6), n_outer=60, folds=2,
)  # fmt: skip
SEEDS, QUICK_SEEDS, QUICK_BATCHES = 2, 1, 3  # of the networks that are tested; and batches left out with quick
