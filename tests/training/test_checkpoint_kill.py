"""A real process, killed at random moments and resumed, ends with the bits of the unbroken run."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gsat

SCRIPT = Path(__file__).with_name("run_to_kill.py")


def start(data: Path, folder: Path, mode: str, pause: float = 0.0) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), str(data), str(folder), mode, str(pause)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines(folder: Path) -> int:
    log = folder / "log.jsonl"
    return len(log.read_bytes().splitlines()) if log.exists() else 0


def wait_for_lines(folder: Path, n: int, process: subprocess.Popen[str]) -> None:
    while lines(folder) < n and process.poll() is None:
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
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    process = start(data, folder, "new")
    digest, errors = process.communicate()
    assert process.returncode == 0, errors
    log = (folder / "log.jsonl").read_text()
    assert len(log.splitlines()) == 150
    return digest, log


def test_killed_ten_times(data: Path, unbroken: tuple[str, str], tmp_path: Path) -> None:
    folder, chance = tmp_path / "run", random.Random(4)
    kills = 0
    for target in sorted(chance.sample(range(2, 145), 10)):
        process = start(data, folder, "resume", 0.004)
        wait_for_lines(folder, target, process)
        time.sleep(chance.random() * 0.006)  # anywhere in a step, the writing of a checkpoint included
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        kills += 1
    assert kills == 10
    process = start(data, folder, "resume")
    digest, errors = process.communicate()
    assert process.returncode == 0, errors
    assert (digest, (folder / "log.jsonl").read_text()) == unbroken
    assert [path.name for path in (folder / "checkpoint").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(("number", "codes"), [(signal.SIGTERM, {143}), (signal.SIGINT, {130, -signal.SIGINT})])
def test_a_polite_signal_writes_a_checkpoint_first(
    data: Path, unbroken: tuple[str, str], tmp_path: Path, number: int, codes: set[int]
) -> None:
    folder = tmp_path / "run"
    process = start(data, folder, "new", 0.02)
    wait_for_lines(folder, 10, process)
    process.send_signal(number)
    process.communicate()
    assert process.returncode in codes
    step = lines(folder)
    assert 10 <= step < 150
    assert (folder / "checkpoint" / f"step-{step:09d}").is_dir()
    process = start(data, folder, "resume")
    digest, errors = process.communicate()
    assert process.returncode == 0, errors
    assert (digest, (folder / "log.jsonl").read_text()) == unbroken
