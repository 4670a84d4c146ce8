"""Commands in two processes, as torchrun starts them."""

import json
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch.distributed import distributed_c10d

import gsat
from gsat.estimators import examining
from ranks import commands


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, 203)
    X = draw.normal(size=(203, 12))
    X[:, :3] += 3 * np.eye(3)[y]
    path = tmp_path_factory.mktemp("data") / "table.csv"
    pd.DataFrame(X, columns=[f"g{j}" for j in range(12)]).assign(kind=np.array(list("abc"))[y]).to_csv(path)
    return path


@pytest.mark.parametrize(("group", "defence"), [("own", "low-rank"), ("shared", "group-sparse")])
def test_one_process_writes_and_tells_and_a_run_of_both_can_be_opened(
    table: Path, tmp_path: Path, group: str, defence: str
) -> None:
    options = ["train", str(table), "--label", "kind", "--defence", defence, "--group", group, "--json"]
    options += ["--n-outer", "30", "--group-size", "40", "--out", str(tmp_path / "run")]
    first, second = commands(2, tmp_path, *options)
    assert (first[0], second) == (0, (0, ""))
    assert json.loads(first[1].splitlines()[-1])["test_accuracy"] > 0.8
    assert len((tmp_path / "run" / "log.jsonl").read_text().splitlines()) == 30
    assert isinstance(gsat.load(tmp_path / "run" / "model"), gsat.GSATClassifier)
    attack = ["attack", str(tmp_path / "run"), "--structure", "universal", "--group-size", "21", "--steps", "20"]
    attack += ["--eps", "0.3"]
    refused = commands(2, tmp_path, *attack)
    assert [code for code, _ in refused] == [2, 2]
    assert "".join(text for _, text in refused).count("gsat attack needs --group shared") == 1
    both = commands(2, tmp_path, *attack, "--group", "shared")
    assert ([code for code, _ in both], both[1][1]) == ([0, 0], "")
    shared = pd.read_csv(tmp_path / "run" / "results.csv")
    (tmp_path / "run" / "evaluations.jsonl").unlink()  # what is finished would not be run again
    assert commands(1, tmp_path, *attack, "--out", str(tmp_path / "alone.csv"))[0][0] == 0
    alone = pd.read_csv(tmp_path / "alone.csv")
    assert list(alone["attack"]) == ["none", "universal", "universal-all"]
    assert alone["accuracy"].nunique() > 1
    pd.testing.assert_frame_equal(shared.drop(columns="seconds"), alone.drop(columns="seconds"), rtol=0.01)
    if group == "own":  # the folder is there already
        again = commands(2, tmp_path, *options)
        assert [code for code, _ in again] == [2, 2]
        assert "".join(text for _, text in again).count("--out must be a new or empty folder") == 1
        alone = commands(1, tmp_path, *options, "--resume")
        assert alone[0][0] == 2
        assert "processes was 2, is 1" in alone[0][1]


def test_an_error_that_all_have_is_told_once(table: Path, tmp_path: Path) -> None:
    found = commands(2, tmp_path, "train", str(table), "--label", "kind", "--defence", "linea", "--out", "x")
    assert [code for code, _ in found] == [2, 2]
    assert "".join(text for _, text in found).count("--defence must be one of") == 1


def test_choosing_is_for_one_process(table: Path, tmp_path: Path) -> None:
    found = commands(2, tmp_path, "train", str(table), "--label", "kind", "--choose", "--out", "x")
    assert "--choose runs in one process" in found[0][1]


def examining_takes_long(fails: bool) -> None:
    """Examining a model takes longer than a process waits for another."""
    examine = examining.examine

    def late(*args: Any) -> Any:
        time.sleep(7)
        if fails:
            raise ValueError("mine")
        return examine(*args)

    examining.examine = late
    distributed_c10d.default_pg_timeout = timedelta(seconds=5)  # of torch: half an hour


@pytest.mark.parametrize("fails", [False, True])
def test_the_others_wait_for_as_long_as_the_first_takes_to_examine_and_write(
    table: Path, tmp_path: Path, fails: bool
) -> None:
    options = ["train", str(table), "--label", "kind", "--defence", "erm", "--n-outer", "2"]
    options += ["--out", str(tmp_path / "run")]
    found = commands(2, tmp_path, *options, before=partial(examining_takes_long, fails))
    assert [code for code, _ in found] == ([2, 2] if fails else [0, 0])
    assert (tmp_path / "run" / "metrics.json").exists() != fails
    assert "".join(text for _, text in found).count("gsat: mine") == fails


@pytest.mark.parametrize("command", [["predict", "run", "x.csv"], ["check", "digits"], ["data", "list"]])
def test_a_command_for_one_process_is_refused_once(tmp_path: Path, command: list[str]) -> None:
    found = commands(2, tmp_path, *command)
    assert [code for code, _ in found] == [2, 2]
    said = "".join(text for _, text in found)
    assert said.count("must run in one process, got 2 (WORLD_SIZE)") == 1
    assert said.startswith(f"gsat: gsat {command[0]} must")
