"""Groups that a thread reads ahead are those that are drawn, and a run is the same with and without the thread."""

import threading

import numpy as np
import pytest
import torch

import gsat
from gsat import defences
from gsat.data.rows import StoredRows
from gsat.estimators.weighted import Positions, View
from stored import Held

N, D, M = 90, 7, 20


def samples():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)).astype(np.float32), rng.integers(3, size=N)


class Watched(Held):
    """Rows in memory that tell in which thread they were asked for; the call of number `fails` is an error."""

    def __init__(self, X, fails=None):
        super().__init__(X)
        self.threads, self.rows, self.fails = [], [], fails

    def read(self, rows):
        self.threads.append(threading.current_thread().name)
        self.rows.append(rows.tolist())
        if len(self.rows) == self.fails:
            raise OSError("the disk is gone")
        return super().read(rows)


def trained(X, n_outer=6, **options):
    _, y = samples()
    model = torch.nn.Linear(D, 3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.linspace(-1, 1, weight.numel()).view_as(weight))
    generator = torch.Generator().manual_seed(3)
    options = {"n_outer": n_outer, "group_size": M, "lam": 1.0, "generator": generator} | options
    history = gsat.gdadmm(model, X, y, defences.GSAT(gsat.LowRank(), n_inner=2), **options)
    return model.state_dict(), generator.get_state(), history


def equal(first, second):
    return all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize("shuffle", ["rows", "block"])
@pytest.mark.parametrize("wrap", [lambda X: X, lambda X: View(X, Positions(np.arange(N)))], ids=["plain", "view"])
def test_a_run_is_the_same_with_and_without_a_thread(wrap, shuffle, monkeypatch):
    X, _ = samples()
    runs = {}
    for thread in (True, False):
        monkeypatch.setattr(StoredRows, "on_disk", thread)
        store = Watched(X)
        runs[thread] = (*trained(wrap(StoredRows(store)), shuffle=shuffle)[:2], store)
    assert equal(runs[True][0], runs[False][0])
    assert torch.equal(runs[True][1], runs[False][1])  # the caller's generator is left alike
    assert runs[True][2].rows == runs[False][2].rows  # nothing is read twice, or in another order
    main = threading.main_thread().name
    apart = [name != main for name in runs[True][2].threads]
    assert apart == sorted(apart)  # the first group is read where it is needed, all others in the thread
    assert sum(apart) >= 4
    assert set(runs[False][2].threads) == {main}
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("gsat-reads")]


def test_memory_maps_are_read_ahead_and_arrays_are_not(tmp_path, monkeypatch):
    X, _ = samples()
    np.save(tmp_path / "X.npy", X)
    begun = []
    monkeypatch.setattr("gsat.training.ahead.Ahead.begin", lambda self, *args: begun.append(args))
    in_memory = trained(X)[0]
    assert begun == []
    assert equal(trained(np.load(tmp_path / "X.npy", mmap_mode="r"))[0], in_memory)
    assert len(begun) == 5  # none after the last group


def test_a_run_that_was_stopped_goes_on_with_the_same_bits(tmp_path):
    X, _ = samples()
    whole = trained(StoredRows(Watched(X)))[0]

    class StopError(Exception):
        pass

    def stop(step, model):
        if step.t == 3:
            raise StopError

    options = {"out": tmp_path, "checkpoint_every": 2}
    with pytest.raises(StopError):
        trained(StoredRows(Watched(X)), callbacks=[stop], **options)
    assert equal(trained(StoredRows(Watched(X)), resume=True, **options)[0], whole)


def test_an_error_of_the_thread_is_that_of_the_step():
    X, _ = samples()
    store, seen = Watched(X), []
    trained(StoredRows(store))
    before = len(store.rows) - 6  # reads before the first group
    with pytest.raises(OSError, match="the disk is gone"):
        trained(StoredRows(Watched(X, fails=before + 4)), callbacks=[lambda step, model: seen.append(step.t)])
    assert seen == [0, 1, 2]
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("gsat-reads")]


def test_groups_that_were_not_foreseen_are_read_at_once(monkeypatch):
    X, _ = samples()
    expected = trained(X)[0]
    from gsat.training import ahead

    monkeypatch.setattr(ahead, "draw", lambda n, m, generator, run: torch.arange(m))
    assert equal(trained(StoredRows(Watched(X)))[0], expected)
