"""A command that is told to end takes the workers it has started with it."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import end, start
from gsat.cli.app import _told_to_end

WAIT = 300  # seconds, after which the test fails


def children(process):
    """The running processes that this one has started."""
    started = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in started]


def is_running(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def until(condition):
    last = time.monotonic() + WAIT
    while not (found := condition()):
        assert time.monotonic() < last
        time.sleep(0.05)
    return found


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the children of a process are listed in /proc on Linux"
)
def test_workers_end_with_a_command_that_is_told_to_end(tmp_path):
    rng = np.random.default_rng(0)
    kind, lab = np.arange(90) % 2, np.arange(90) // 30
    frame = pd.DataFrame(rng.normal(size=(90, 5)), columns=list("abcde")).assign(kind=kind, lab=lab)
    frame.to_csv(tmp_path / "samples.csv", index=False)
    words = ["check", "samples.csv", "--label", "kind", "--batch", "lab", "--jobs", "2", "--out", "out"]
    started = start(words, tmp_path)
    workers = until(lambda: found if len(found := children(started.process.pid)) >= 2 else None)
    os.kill(started.process.pid, signal.SIGTERM)
    assert end(started).code == 128 + signal.SIGTERM
    until(lambda: not any(map(is_running, workers)))


def told_and_failing():
    """SIGTERM comes, and what is taken down because of it fails."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(WAIT)
    finally:
        raise RuntimeError("cannot join thread before it is started")


def test_what_fails_as_workers_are_taken_down_does_not_hide_that_it_was_told_to_end():
    with pytest.raises(SystemExit) as ended, _told_to_end():
        told_and_failing()
    assert ended.value.code == 128 + signal.SIGTERM


def test_other_errors_are_left_as_they_are():
    with pytest.raises(RuntimeError, match="mine"), _told_to_end():
        raise RuntimeError("mine")
