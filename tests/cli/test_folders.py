"""The folder of a run: kept from others and from a full disk, and put in order after a kill."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer import Exit

import gsat
from commands import run
from gsat._files import is_ours, locked
from gsat.cli.folders import new_run, running

QUICK = ["train", "digits", "--defence", "erm", "--n-outer", "3", "--group-size", "20"]
OLD, NEW = ({"data": "digits", "defence": "erm", "seed": seed} for seed in (0, 1))


def child(code: str, *args: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=600, check=False
    )


def content(folder: Path) -> dict[str, bytes]:
    """All files of a run but those of the lock."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not is_ours(path)
    }


def make(out: Path, config: dict = OLD, step: int = 5) -> None:
    """What a run leaves, in small."""
    checkpoint = out / "checkpoint" / f"step-{step:09d}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_text(str(config["seed"]))
    (out / "config.json").write_text(json.dumps(config, indent=1))
    (out / "log.jsonl").write_text(f"log of {config['seed']}\n")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    done = run([*QUICK, "--out", out], out.parent)
    assert done.code == 0, done.said
    return out


@pytest.mark.parametrize("limit", [200, 2000])
def test_a_full_disk_does_not_cost_the_old_run(trained, tmp_path, limit):
    out = tmp_path / "run"
    shutil.copytree(trained, out)
    done = run([*QUICK, "--out", out, "--seed", 1, "--force"], tmp_path, limit=limit)
    assert done.code == 2
    assert "File too large" in done.said
    assert "Traceback" not in done.said
    assert content(out) == content(trained)
    assert {path.name for path in out.iterdir()} <= {*(path.name for path in trained.iterdir()), ".gsat.lock"}
    again = run([*QUICK, "--out", out, "--seed", 1, "--force"], tmp_path)
    assert again.code == 0, again.said
    assert json.loads((out / "config.json").read_text())["seed"] == 1


def test_a_full_disk_leaves_no_begun_run(tmp_path):
    out = tmp_path / "run"
    assert run([*QUICK, "--out", out], tmp_path, limit=2000).code == 2
    done = run([*QUICK, "--out", out], tmp_path)
    assert done.code == 0, done.said


def test_the_old_run_stays_until_the_new_one_has_trained(tmp_path):
    make(tmp_path)
    before = content(tmp_path)

    def fails(step: int) -> None:
        with running(tmp_path, NEW, resume=False, force=True):
            assert json.loads((tmp_path / "config.json").read_text()) == NEW
            make(tmp_path, NEW, step)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails(0)
    assert content(tmp_path) == before
    with pytest.raises(KeyboardInterrupt):
        fails(7)
    assert json.loads((tmp_path / "config.json").read_text()) == NEW
    assert {path.name for path in (tmp_path / "checkpoint").iterdir()} == {"step-000000007"}
    assert not list(tmp_path.glob(".repl*"))


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("then", ["new", "--resume", "--force"])
def test_a_kill_at_any_renaming_of_a_forced_run(tmp_path, n, then):
    make(tmp_path)
    before = content(tmp_path)
    body = f"""
import os, signal
from pathlib import Path
from gsat.cli.folders import running
real, count = os.replace, 0
def replace(*args):
    global count
    count += 1
    if count == {n}:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*args)
os.replace = replace
out = Path({str(tmp_path)!r})
with running(out, {NEW!r}, resume=False, force=True):
    (out / "checkpoint" / "step-000000000").mkdir(parents=True)
    (out / "checkpoint" / "step-000000000" / "state.json").write_text("1")
    raise OSError("the disk is full")
"""
    killed = child(body)
    if killed.returncode == 1:
        assert "the disk is full" in killed.stderr
        assert content(tmp_path) == before
        return
    assert killed.returncode == -9, killed.stderr
    if then == "new":
        with pytest.raises(Exit), running(tmp_path, NEW, resume=False, force=False):
            pass
        assert content(tmp_path) == before
    elif then == "--resume":
        with running(tmp_path, OLD, resume=True, force=False):
            assert content(tmp_path) == before
    else:
        with running(tmp_path, NEW, resume=False, force=True):
            assert list(content(tmp_path)) == [
                *(f".replaced-run/{name}" for name in before),
                "config.json",
            ]
            make(tmp_path, NEW)
        assert "log of 1" in (tmp_path / "log.jsonl").read_text()
        assert not list(tmp_path.glob(".repl*"))


def test_a_resumed_run_that_replaces_another_goes_on(tmp_path):
    make(tmp_path, NEW, 0)
    make(tmp_path / ".replaced-run", OLD)
    with running(tmp_path, NEW, resume=True, force=False):
        assert (tmp_path / "checkpoint" / "step-000000000").exists()
        assert (tmp_path / ".replaced-run").exists()
        (tmp_path / "checkpoint" / "step-000000009").mkdir()
        (tmp_path / "checkpoint" / "step-000000009" / "state.json").write_text("1")
    assert not (tmp_path / ".replaced-run").exists()


def test_a_replaced_run_of_an_earlier_version_is_put_back_or_removed(tmp_path):
    make(tmp_path / "a" / ".replaced-abc123")
    with pytest.raises(Exit), running(tmp_path / "a", NEW, resume=False, force=False):
        pass
    assert "log of 0" in (tmp_path / "a" / "log.jsonl").read_text()
    make(tmp_path / "b", NEW)
    make(tmp_path / "b" / ".replaced-abc123")
    with running(tmp_path / "b", NEW, resume=True, force=False):
        pass
    assert "log of 1" in (tmp_path / "b" / "log.jsonl").read_text()
    assert not list(tmp_path.glob("*/.repl*"))


def test_a_users_file_survives_the_putting_back(tmp_path):
    make(tmp_path / ".replaced-run")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Exit), running(tmp_path, NEW, resume=False, force=True):
        pass
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert "log of 0" in (tmp_path / "log.jsonl").read_text()


def test_a_folder_of_others_gets_nothing(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("mine")
    for options in ({"resume": False, "force": True}, {"resume": True, "force": False}):
        with pytest.raises(Exit), running(tmp_path, NEW, **options):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert "it is not overwritten" in capsys.readouterr().err


def test_a_second_process_is_told_who_is_there(tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    with locked(out):
        done = run([*QUICK, "--out", out], tmp_path)
    assert done.code == 2
    assert f"is being written by process {os.getpid()} on" in done.said
    assert not (out / "config.json").exists()


def test_a_second_trainer_in_python_is_told_too(tmp_path):
    import numpy as np
    import torch

    X, y = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2
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
        with pytest.raises(BlockingIOError, match=f"is being written by process {other.pid} on"):
            gsat.gdadmm(torch.nn.Linear(3, 2), X, y, gsat.defences.ERM(), n_outer=2, out=tmp_path)
        other.communicate("\n")
    gsat.gdadmm(torch.nn.Linear(3, 2), X, y, gsat.defences.ERM(), n_outer=2, out=tmp_path)


def test_a_demo_that_fails_leaves_the_old_one(tmp_path):
    make(tmp_path, {**OLD, "defences": []})
    before = content(tmp_path)

    def fails() -> None:
        with new_run(tmp_path, force=True):
            (tmp_path / "config.json").write_text("{}")
            (tmp_path / "erm" / "model").mkdir(parents=True)
            (tmp_path / "erm" / "model" / "model.json").write_text("{}")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fails()
    assert content(tmp_path) == before


def test_a_diagnosis_in_the_folder_of_a_run_stays(tmp_path):
    (tmp_path / "diagnosis.json").write_text("mine")
    for force in (False, True):
        with new_run(tmp_path, force):
            (tmp_path / "config.json").write_text('{"data": "digits", "defence": "erm"}')
            (tmp_path / "results.csv").write_text(str(force))
    assert (tmp_path / "results.csv").read_text() == "True"
    assert (tmp_path / "diagnosis.json").read_text() == "mine"
