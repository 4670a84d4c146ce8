"""All experiments by name, in the order of the paper; the module of one is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsat.experiments.plan import Experiment

PAPER = {  # name: module
    "universal": "universal_attack",
    "group-sparse": "group_sparse_attack",
    "low-rank": "low_rank_attack",
    "pgd": "pgd_attack",
    "biology": "biology",
    "algorithm": "algorithm",
    "selection": "feature_selection",
    "basis": "basis_selection",
    "tcga-clean": "clean_accuracy",
    "speed": "iteration_time",
    "lam-alpha": "lam_and_alpha",
    "lam-norm": "lam_and_norm",
    "group-size": "group_sizes",
    "transfer": "transfer",
}
EXPERIMENTS = {**PAPER, "shifts": "shifts"}  # and what goes beyond the paper
OWN_SOLVER = ("algorithm", "selection", "basis", "speed", "shifts")  # they compare solvers, or have one for a reason
SCALES = ("quick", "cpu", "overnight", "paper")


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    found: Experiment = import_module(f"gsat.experiments.{EXPERIMENTS[name]}").EXPERIMENT
    return found
