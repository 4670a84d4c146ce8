"""The benchmark of samples larger than memory runs, and its file is what it says."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from gsat import data

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def large(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("large")


def test_it_runs_and_prints_memory_and_times(large, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("sys.argv", ["large.py", "--quick", "--folder", str(tmp_path), "--parts", "train,time,ahead"])
    monkeypatch.setattr("sys.argv", [*sys.argv, "--out", str(tmp_path / "told.txt")])
    large.main()
    found = capfd.readouterr().out
    assert (tmp_path / "run" / "model").is_dir()
    assert 0.1 < float(re.search(r"train .* peak ([0-9.]+) GB", found)[1]) < 4
    assert re.search(r"a group read +[0-9.]+ s on disk, [0-9.]+ s in memory: [0-9.]+ times", found)
    assert len(re.findall(r"steps with a thread, without = 1, file .*: [0-9.]+ \([0-9.]+ to [0-9.]+\)", found)) == 2
    assert (tmp_path / "told.txt").read_text() == found
    table = data.load(tmp_path / "cells-600x400.h5ad", label="type", batch="donor", stream=True)
    rows = table.X[:]
    assert sp.issparse(rows)
    assert table.X.shape == (600, 400)
    assert 0.04 < rows.nnz / np.prod(rows.shape) < 0.08
    assert table.describe()["classes"].keys() == set(large.TYPES)


def test_a_part_that_is_not_there(large, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["large.py", "--parts", "train,fly"])
    with pytest.raises(SystemExit):
        large.main()
    assert "--parts must be of train, predict, diagnose, time and ahead, got fly" in capsys.readouterr().err
