"""All experiments by name, in the order of the paper."""

from __future__ import annotations

from gsat.experiments import (
    biology,
    clean_accuracy,
    feature_selection,
    group_sizes,
    group_sparse_attack,
    iteration_time,
    lam_and_alpha,
    lam_and_norm,
    low_rank_attack,
    pgd_attack,
    shifts,
    transfer,
    universal_attack,
)
from gsat.experiments.plan import Experiment

MODULES = (
    universal_attack,
    group_sparse_attack,
    low_rank_attack,
    pgd_attack,
    biology,
    feature_selection,
    clean_accuracy,
    iteration_time,
    lam_and_alpha,
    lam_and_norm,
    group_sizes,
    transfer,
)
PAPER: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}
EXPERIMENTS = {**PAPER, shifts.EXPERIMENT.name: shifts.EXPERIMENT}  # and what goes beyond the paper
