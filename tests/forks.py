"""Processes forked from one that has everything loaded: each test process has one such server, for all of its tests."""

from multiprocessing import get_context

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(  # here alone: a second list would take the place of this one
    [
        "torch",
        "torch._dynamo",
        "torch.distributed",
        "matplotlib.figure",
        "matplotlib.backends.backend_agg",
        "gsat.cli",
        "gsat.estimators.from_table",
        "gsat.selectors.ranking",
        "gsat.experiments.comparing",
        "gsat.experiments.demonstration",
        "gsat.experiments.paper",
        "gsat.experiments.runner",
        "gsat.report",
        "gsat.diagnosis",
        "gsat.data.fetching",
    ]
)
