"""Sweeps on a cluster of dask: two workers on this machine, of one thread each, against one process."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from dask.distributed import Client, LocalCluster, get_task_stream

import gsat
from gsat.estimators.from_table import Plan
from gsat.experiments import checking, transfer
from gsat.experiments.check_methods import QUICK
from gsat.experiments.comparing import Protocol, compare
from gsat.experiments.plan import Experiment, Order, Piece, Place
from gsat.experiments.runner import reproduce, run
from gsat.experiments.setting import SCALES, Arena, Scale

TABLE = gsat.data.make_batches(90, 6)
TINY = replace(QUICK, budgets=(0.1,), metric_budgets=(0.1,), lengths=(1.0,), cs=(1.0,), shrinkages=(0.6,), n_outer=4)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


def test_check(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "QUICK", TINY)
    one = gsat.check(TABLE.X, TABLE.y, TABLE.batch, quick=True, max_batches=2)
    with get_task_stream(client) as tasks, joblib.parallel_config(backend="dask"):
        two = gsat.check(TABLE.X, TABLE.y, TABLE.batch, quick=True, max_batches=2, n_jobs=2)
    assert len({task["worker"] for task in tasks.data}) == 2
    pd.testing.assert_frame_equal(two.table, one.table)
    pd.testing.assert_frame_equal(two.batches, one.batches)
    assert (two.verdict, two.command) == (one.verdict, one.command)


def test_compare(client: Client, tmp_path: Path) -> None:
    table = replace(TABLE, split=np.where(np.arange(90) % 3 > 0, "train", "test"))
    plan = Plan("erm", n_outer=4, group_size=20)
    protocol = Protocol(("erm", "low-rank"), ("pgd",), seeds=(0,), n_validation=30, steps=4, plan=plan)
    one = compare(table, protocol)
    with get_task_stream(client) as tasks, joblib.parallel_config(backend="dask"):
        two = compare(table, replace(protocol, jobs=2), out=tmp_path)
    assert tasks.data
    pd.testing.assert_frame_equal(two.table(), one.table())


def test_choice(client: Client) -> None:
    def search(n_jobs: int) -> gsat.GSATClassifierCV:
        few = {"structures": ("universal",), "budgets": (0.05,), "gammas": (0.0,), "cs": (1.0,), "shrinkages": (0.1,)}
        template = gsat.GSATClassifier(n_outer=4, hidden=4, random_state=0)
        return gsat.GSATClassifierCV(template, **few, n_folds=2, n_jobs=n_jobs).fit(TABLE.X, TABLE.y, batch=TABLE.batch)

    one = search(1)
    with get_task_stream(client) as tasks, joblib.parallel_config(backend="dask"):
        two = search(2)
    assert tasks.data
    names = ["params", "mean_test_score", "mean_test_loss"]
    assert pd.DataFrame(two.cv_results_)[names].equals(pd.DataFrame(one.cv_results_)[names])


def pieces(scale: Scale, seeds: int | None) -> list[Piece]:
    """Two models and the attacks on them."""
    plan = Plan("erm", n_outer=4, n_inner=2, group_size=20)
    arena = Arena("digits", "digits", plan, n_test=40, n_validation=20, steps=2, grid=(0.1,), structures=("low-rank",))
    given = {"arena": arena, "seed": 0, "sizes": [0.3]}
    return [Piece(name, transfer.transferred, {**given, "defence": name}) for name in ("erm", "low-rank")]


def test_reproduce(client: Client, tmp_path: Path) -> None:
    own = Experiment("transfer", "title", "paper", pieces, transfer.finish)
    one = reproduce(Order([own], SCALES["quick"], None, tmp_path / "one"))
    with get_task_stream(client) as tasks, joblib.parallel_config(backend="dask"):
        two = reproduce(Order([own], SCALES["quick"], None, tmp_path / "two"), jobs=2)
    assert tasks.data
    assert two["transfer"].headline == one["transfer"].headline
    pd.testing.assert_frame_equal(two["transfer"].tables["results"], one["transfer"].tables["results"])
    both = [pd.read_csv(tmp_path / place / "transfer" / "results.csv") for place in ("one", "two")]
    pd.testing.assert_frame_equal(*both)


def numbered(place: Place, n: int) -> pd.DataFrame:
    """The piece keeps something in its folder."""
    (place.work / f"{n}.txt").write_text("")
    return pd.DataFrame({"n": [n / 3], "name": ["none"]})


def test_a_worker_has_a_disk_of_its_own(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As machines that do not share the folder: what they found is sent back and kept here."""
    monkeypatch.chdir(tmp_path)
    for folder in (Path("work"), other := tmp_path / "other" / "work"):
        folder.mkdir(parents=True)
    before = client.run(os.getcwd)
    client.run(os.chdir, str(other.parent))
    try:
        pieces = [Piece(f"{n}", numbered, {"n": n}) for n in range(4)]
        with joblib.parallel_config(backend="dask"):
            frames = run(pieces, Place(Path("work")), jobs=2)
    finally:
        for worker, folder in before.items():
            client.run(os.chdir, folder, workers=[worker])
    assert [frame["n"].tolist() for frame in frames] == [[n / 3] for n in range(4)]
    assert len(list(other.glob("*.txt"))) == 4
    assert not list(Path("work").glob("*.txt"))
    assert all(piece.done(Place(Path("work"))) for piece in pieces)
