"""A real process, killed at random moments and resumed, ends with the bits of the unbroken run."""

import os
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
from run_to_kill import digest_of, run

import gsat
from forks import FORKS


def start(data: Path, folder: Path, *, resume: bool, pause: float = 0.0, hold: int = 1000) -> BaseProcess:
    options = {"resume": resume, "pause": pause, "hold": hold}
    process = FORKS.Process(target=run, args=(data, folder), kwargs=options)
    process.start()
    return process


def ended(data: Path, folder: Path, *, resume: bool) -> tuple[str, str]:
    """The hash of the weights and the log of a run that nobody disturbs."""
    process = start(data, folder, resume=resume)
    process.join()
    assert process.exitcode == 0
    return digest_of(folder).read_text(encoding="ascii"), (folder / "log.jsonl").read_text()


def send(process: BaseProcess, number: int) -> int | None:
    """The exit code of a process after a signal."""
    os.kill(process.pid, number)
    process.join()
    return process.exitcode


def lines(folder: Path) -> int:
    log = folder / "log.jsonl"
    return len(log.read_bytes().splitlines()) if log.exists() else 0


def wait_for_lines(folder: Path, n: int, process: BaseProcess) -> None:
    while lines(folder) < n and process.exitcode is None:
        time.sleep(0.002)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits as files, which a process reads in no time."""
    folder = tmp_path_factory.mktemp("data")
    table = gsat.data.load("digits")
    np.save(folder / "X.npy", np.asarray(table.X))
    np.save(folder / "y.npy", np.asarray(table.y))
    return folder


@pytest.fixture(scope="module")
def unbroken(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    digest, log = ended(data, tmp_path_factory.mktemp("unbroken") / "run", resume=False)
    assert len(log.splitlines()) == 150
    return digest, log


def test_killed_ten_times(data: Path, unbroken: tuple[str, str], tmp_path: Path) -> None:
    folder, chance = tmp_path / "run", random.Random(4)
    for target in sorted(chance.sample(range(2, 145), 10)):
        process = start(data, folder, resume=True, pause=0.004, hold=target + 4)
        wait_for_lines(folder, target, process)
        time.sleep(chance.random() * 0.006)  # anywhere in a step, the writing of a checkpoint included
        assert send(process, signal.SIGKILL) == -signal.SIGKILL
        assert target <= lines(folder) < 150
    assert ended(data, folder, resume=True) == unbroken
    assert [path.name for path in (folder / "checkpoint").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_polite_signal_writes_a_checkpoint_first(
    data: Path, unbroken: tuple[str, str], tmp_path: Path, number: int, code: int
) -> None:
    folder = tmp_path / "run"
    process = start(data, folder, resume=False, pause=0.02)
    wait_for_lines(folder, 10, process)
    assert send(process, number) == code
    step = lines(folder)
    assert 10 <= step < 150
    assert (folder / "checkpoint" / f"step-{step:09d}").is_dir()
    assert ended(data, folder, resume=True) == unbroken
