"""What select, compare, demo and reproduce write: all of it or nothing; on how many threads; in any encoding."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from typer.testing import CliRunner

from gsat._files import drafts
from gsat.cli import app
from gsat.experiments import demonstration, runner, setting
from gsat.experiments.plan import Experiment, Order, Outcome, Piece
from gsat.experiments.runner import reproduce

SHORT = ["--n-outer", "3", "--group-size", "20"]
COMPARE = ["compare", "digits", "--defences", "erm,low-rank", "--attacks", "pgd@0.05", "--seeds", "1", "--steps", "2"]
COMPARE += ["--n-test", "20", "--n-validation", "20", "--n-inner", "2", *SHORT]


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 6)), columns=list("abcdef"))
    frame.assign(kind=np.where(frame["a"] > 0, "x", "y")).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def full_disk(monkeypatch):
    """From now on a file with one of the endings cannot be written."""
    endings = []

    def write(path, data):
        if path.name.endswith(tuple(endings)):
            raise OSError(28, "No space left on device", str(path))
        path.write_bytes(data)

    for module in (drafts, runner):
        monkeypatch.setattr(module, "write_durably", write)
    return endings.extend


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_select_writes_both_files_or_none(table, tmp_path, full_disk):
    args = ["select", table, "--label", "kind", "-k", "2", "--n-resamples", "0", *SHORT, "--out", tmp_path / "f.csv"]
    full_disk([".png"])
    assert "No space left on device" in run(*args, code=2)
    assert names(tmp_path) == {"table.csv"}
    assert "Traceback" not in run(*args, code=2)


def test_select_keeps_the_old_pair(table, tmp_path, full_disk):
    args = ["select", table, "--label", "kind", "-k", "2", "--n-resamples", "0", *SHORT, "--out", tmp_path / "f.csv"]
    run(*args)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"table.csv", "f.csv", "f.png"}
    full_disk([".png"])
    run(*args, "--force", "--seed", "1", "--all", code=2)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_compare_writes_its_tables_together(tmp_path, full_disk):
    full_disk(["differences.csv"])
    assert "No space left on device" in run(*COMPARE, "--out", tmp_path / "c", code=2)
    assert not {name for name in names(tmp_path / "c") if name.endswith(".csv")}


def rows(place, value):
    return pd.DataFrame({"value": [value]})


def order(out, value):
    def pieces(scale, seeds):
        return [Piece("piece", rows, {"value": value})]

    def finish(found, scale):
        return Outcome({"results": found, "last": found}, "fine", {}, {"a.png": b"png"})

    return Order([Experiment("small", "Small", "-", pieces, finish)], setting.SCALES["quick"], None, out)


def test_reproduce_replaces_whole_folders(tmp_path, full_disk):
    reproduce(order(tmp_path, 1))
    before = {path.name: path.read_bytes() for path in (tmp_path / "small").iterdir()}
    assert set(before) == {"config.json", "results.csv", "last.csv", "a.png"}
    full_disk(["last.csv"])
    with pytest.raises(OSError, match="No space left"):
        reproduce(order(tmp_path, 2))
    assert {path.name: path.read_bytes() for path in (tmp_path / "small").iterdir()} == before
    assert names(tmp_path) - {".gsat.lock"} == {"small", "work", "config.json"}


def test_reproduce_is_alone_in_its_folder(tmp_path):
    code = f"""
from pathlib import Path
from gsat._files import locked
with locked(Path({str(tmp_path)!r})):
    print("in", flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "in\n"
        said = run("reproduce", "universal", "--quick", "--out", tmp_path, code=2)
        other.communicate("\n")
    assert f"is being written by process {other.pid} on" in said


def test_threads_are_set_and_stored(tmp_path, threads):
    args = ["train", "digits", "--defence", "erm", *SHORT, "--out"]
    torch.set_num_threads(2)
    run(*args, tmp_path / "a")
    assert json.loads((tmp_path / "a" / "config.json").read_text())["threads"] == 2
    run(*args, tmp_path / "b", "--threads", "1")
    assert torch.get_num_threads() == 1
    assert json.loads((tmp_path / "b" / "config.json").read_text())["threads"] == 1
    torch.set_num_threads(2)
    run(*args, tmp_path / "b", "--resume")
    assert torch.get_num_threads() == 1  # that of the run
    assert "threads was 1, is 2" in run(*args, tmp_path / "b", "--resume", "--threads", "2", code=2)
    for command in (["train", "digits"], ["compare", "digits"], ["demo"], ["reproduce", "universal"], ["select", "x"]):
        assert "--threads must be >= 1, got 0" in run(*command, "--threads", "0", code=2)


def test_a_run_without_stored_threads_is_resumed(tmp_path, threads):
    args = ["train", "digits", "--defence", "erm", *SHORT, "--out", tmp_path / "a"]
    run(*args)
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    config.pop("threads")
    (tmp_path / "a" / "config.json").write_text(json.dumps(config))
    run(*args, "--resume")


def test_compare_stores_its_threads(tmp_path, threads):
    torch.set_num_threads(2)
    run(*COMPARE, "--out", tmp_path / "a", "--threads", "1")
    assert json.loads((tmp_path / "a" / "config.json").read_text())["threads"] == 1


def test_demo_stores_its_threads(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(demonstration, "DEFENCES", ("erm",))
    run("demo", "--out", tmp_path / "d", "--n-outer", "2", "--threads", "1")
    assert json.loads((tmp_path / "d" / "config.json").read_text())["threads"] == 1


def ascii_only(*args, cwd):
    return subprocess.run(
        [sys.executable, "-m", "gsat", *map(str, args)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        cwd=cwd,
        capture_output=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("command", [[], *([name] for name in typer.main.get_command(app).commands)])
def test_help_in_ascii(command, tmp_path):
    done = ascii_only(*command, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert b"Traceback" not in done.stderr


def test_signs_are_spelt_in_ascii(tmp_path):
    done = ascii_only(*COMPARE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"mean +- standard deviation" in done.stdout
    assert b"low-rank - erm: " in done.stdout
    done = ascii_only("train", "Zähler-λ.csv", "--label", "kind", cwd=tmp_path)
    assert done.returncode == 2
    assert b"is missing" in done.stderr
    assert b"Traceback" not in done.stderr
