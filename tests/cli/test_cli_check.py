"""`gsat check` and `gsat.check`: the command from a file to the line that trains the winner."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy import sparse
from typer.testing import CliRunner

import gsat
from gsat.cli import app
from gsat.experiments import check_folds, checking
from gsat.experiments.check_commands import in_python, options
from gsat.experiments.check_methods import METHODS, TITLES
from gsat.experiments.shift_candidates import Candidate, Setting
from stored import write_cells

TINY = Setting(
    budgets=(0.1,), metric_budgets=(0.1,), lengths=(1.0,), cs=(0.1,), metric_cs=(), shrinkages=(0.3,),
    n_outer=2, n_inner=1, group_size=16, hidden=(100,), folds=1,
)  # fmt: skip
OPTIONS = ["--label", "kind", "--batch", "lab", "--quick", "--jobs", 1]


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(checking, "QUICK", TINY)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """90 samples of three batches, each with a shift of its own; the first feature tells the two classes apart."""
    rng = np.random.default_rng(0)
    n, d = 90, 5
    kind, lab = np.arange(n) % 2, np.arange(n) // 30
    X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(3, d))[lab]
    X[:, 0] += 3 * kind
    names = np.array(["ill", "well"])[kind]
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(d)]).assign(kind=names, lab=lab + 1)
    path = tmp_path_factory.mktemp("samples") / "samples.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def frame(samples):
    return pd.read_csv(samples)


def test_a_check_that_was_stopped_goes_on_and_ends_alike(samples, tmp_path, monkeypatch):
    whole = run("check", samples, *OPTIONS, "--out", tmp_path / "whole")
    plain, trainings = check_folds.predicted, []

    def stopping(*args):
        trainings.append(args)
        if len(trainings) == 12:
            raise KeyboardInterrupt
        return plain(*args)

    monkeypatch.setattr("gsat.experiments.shift_folds.predicted", stopping)
    out = tmp_path / "out"
    run("check", samples, *OPTIONS, "--out", out, code=130)
    assert not (out / "metrics.json").exists()
    assert "--force to overwrite it, or --resume" in run("check", samples, *OPTIONS, "--out", out, code=2).output
    kept = len(list((out / "work" / "pieces").iterdir()))
    assert kept > 0
    resumed = run("check", samples, *OPTIONS, "--out", out, "--resume")
    assert resumed.stdout.replace(str(out), "OUT") == whole.stdout.replace(str(tmp_path / "whole"), "OUT")
    one, other = (json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("whole", "out"))
    assert one.pop("command").replace("whole", "out") == other["command"]
    assert one == {key: value for key, value in other.items() if key != "command"}
    n = len(trainings)
    run("check", samples, *OPTIONS, "--out", out, "--resume")
    assert len(trainings) == n  # everything was there
    refused = run("check", samples, *OPTIONS, "--out", out, "--resume", "--max-features", 3, code=2)
    assert "features was 1000, is 3" in refused.output
    page = (out / "report.html").read_text()
    assert one["verdict"] in page
    assert "GSAT group-sparse in the metric, prepared" in page
    (out / "metrics.json").write_text('{"kind": "check", "table": []}')
    assert "metrics.json must have table as a list of objects" in run("report", out, code=2).output
    _the_train_line_runs(other["command"], tmp_path / "out-model")


def _the_train_line_runs(command, model):
    program, *words = shlex.split(command)
    assert program == "gsat"
    assert words[-1] == str(model)
    run(*words)
    config = json.loads((model / "config.json").read_text())
    assert config["class_weight"] == "balanced"
    assert gsat.load(model / "model").n_features_in_ == 5


def test_wrong_options_are_told_before_anything_is_trained(samples, tmp_path):
    out = ["--out", tmp_path / "x"]
    assert "batch='nowhere'" in run("check", samples, "--label", "kind", "--batch", "nowhere", *out, code=2).output
    assert "--label must name the column" in run("check", samples, *out, code=2).output
    assert "--jobs must be >= 1, got 0" in run("check", samples, *OPTIONS, "--jobs", 0, *out, code=2).output
    frame = pd.read_csv(samples).assign(kind=lambda rows: rows["lab"].map({1: "a", 2: "b", 3: "c"}))
    frame.to_csv(tmp_path / "confounded.csv", index=False)
    found = run("check", tmp_path / "confounded.csv", *OPTIONS, *out, code=2)
    assert "batches and classes are confounded" in found.output
    frame.assign(kind=np.arange(90) / 7).to_csv(tmp_path / "numbers.csv", index=False)
    assert (
        "must name classes, got numbers such as"
        in run("check", tmp_path / "numbers.csv", *OPTIONS, *out, code=2).output
    )
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--defence", "linear", "--c", "0.1", "--class-weight", "balanced"], "test           accuracy"),
        (["--defence", "linear", "--metric", "batches", "--gamma", "3"], "test           accuracy"),
    ],
)
def test_train_takes_linear_models(samples, tmp_path, extra, words):
    found = run("train", samples, "--label", "kind", "--batch", "lab", *extra, "--out", tmp_path / "x")
    assert words in found.output
    assert "mean_norm" not in found.output  # there was no adversary, and no price of it
    assert "lam " not in found.output
    assert json.loads((tmp_path / "x" / "config.json").read_text())["defence"] == "linear"


@pytest.mark.parametrize(
    "one",
    [
        Candidate("logistic", 0.1, prepare="zscore"),
        Candidate("erm", 2.0, prepare="centre", hidden=100),
        Candidate("pgd", 0.1, hidden=100),
        Candidate("universal", 0.1, hidden=100),
        Candidate("low-rank", 0.1, "auto", 10.0, hidden=100),
    ],
    ids=lambda one: one.family,
)
@pytest.mark.parametrize("learnt", ["batches", "within"])
def test_every_method_is_trained_as_the_lines_say(samples, frame, tmp_path, one, learnt):
    """By the options of the command and by the line of Python: a model of the same kind with the same settings."""
    out = tmp_path / "model"
    words = options(one, TINY, learnt=learnt)
    run("train", samples, "--label", "kind", "--batch", "lab", *words, "--test-fraction", 0, "--out", out)
    given = {"gsat": gsat, "X": frame.filter(like="g"), "y": frame["kind"], "batch": frame["lab"]}
    plain = eval(in_python(one, TINY, by_batch=True, learnt=learnt), given)
    loaded = gsat.load(out / "model")
    assert type(loaded) is type(plain)
    first, second = (model.get_params() for model in (loaded, plain))
    own = {"module", "module_options", "random_state", "n_inner" if one.family == "erm" else ""}
    isotropic = {"metric", "gamma"} if one.metric == "none" and one.family != "logistic" else set()  # gamma is 0 there
    assert {k: v for k, v in first.items() if k not in own | isotropic} == {
        k: v for k, v in second.items() if k not in own | isotropic
    }
    for model in (loaded, plain):
        assert (getattr(model, "metric_", None) is not None) == (one.metric == "auto")
    assert loaded.predict(given["X"], given["batch"]).shape == (90,)


def test_the_line_that_chooses_anew_runs(samples, tmp_path):
    words = options(None, TINY, learnt="batches")
    found = run(
        "train", samples, "--label", "kind", "--batch", "lab", *words, "--test-fraction", 0, "--out", tmp_path / "x"
    )
    assert "chosen" in found.output


def test_the_samples_are_read_as_for_training(samples, frame, tmp_path):
    """Columns that are dropped, rows that are left out and the normalisation stand in the line that trains."""
    path = tmp_path / "more.csv"
    more = frame.assign(sex="f", id=[f"c{i}" for i in range(90)], kind=frame["kind"].where(frame.index != 3))
    more.to_csv(path, index=False)
    told = run("check", path, *OPTIONS, "--ids", "id", "--out", tmp_path / "x", code=2).output
    assert "--drop" in told
    reading = ["--ids", "id", "--drop", "sex", "--unlabelled", "drop", "--normalise", "zscore-samples"]
    told = run("check", path, *OPTIONS, *reading, "--out", tmp_path / "x").output
    line = next(line for line in told.splitlines() if line.startswith("gsat train"))
    assert all(f" {' '.join(pair)} " in line for pair in zip(reading[::2], reading[1::2], strict=True))
    run(*shlex.split(line)[1:])
    model = gsat.load(f"{tmp_path / 'x'}-model")
    assert model.normalise == "zscore-samples"
    assert list(model.feature_names_in_) == [f"g{j}" for j in range(5)]
    said = run("diagnose", path, "--label", "kind", "--batch", "lab", *reading[:-2]).output
    assert "gsat check" in said
    assert "--ids id --drop sex --unlabelled drop" in " ".join(said.split())


def test_train_refuses_c_for_others(samples, tmp_path):
    found = run("train", samples, "--label", "kind", "--c", 3, "--out", tmp_path / "x", code=2)
    assert "--c is for --defence linear, got --defence low-rank" in found.output


def test_the_function(frame, tmp_path, capsys):
    X, y, batch = frame.filter(like="g"), frame["kind"], frame["lab"]
    found = gsat.check(X, y, batch, quick=True, out=tmp_path / "pieces", verbose=True)
    assert "on 1 core" in capsys.readouterr().out
    assert isinstance(found, gsat.CheckResult)
    assert list(found.table.index) == list(TITLES.values())
    assert sorted(found.batches.columns) == ["1", "2", "3"]
    assert len(found.choices) == 3 * len(METHODS)
    assert found.by_batch
    fitted = eval(found.command, {"gsat": gsat, "X": X, "y": y, "batch": batch})
    assert fitted.score(X, y) > 0.5
    again = gsat.check(sparse.csr_array(X.to_numpy()), y, batch, quick=True, out=tmp_path / "pieces")
    pd.testing.assert_frame_equal(found.batches, again.batches)


def test_samples_that_stay_in_their_file(tmp_path):
    path = write_cells(tmp_path / "cells.h5ad", 60, 40)
    told = [*OPTIONS[4:], "--label", "type", "--batch", "donor", "--max-features", 20, "--max-batches", 1]
    found = []
    for stream in ("--stream", "--no-stream"):
        run("check", path, *told, "--normalise", "log1p-cpm", "--out", tmp_path / stream, stream)
        found.append([(tmp_path / stream / name).read_text() for name in ("methods.csv", "results.csv")])
        assert "missed" in found[-1][1]
    assert found[0] == found[1]


def test_cells_without_batches(frame):
    X = frame.filter(like="g").to_numpy(np.float32)
    obs = frame[["kind"]].astype("category").set_index(frame.index.astype(str))
    obs.iloc[:4, 0] = np.nan
    cells = AnnData(sparse.csr_matrix(X), obs=obs)
    found = gsat.tl.check(cells, "kind", quick=True)
    assert "nothing is known about a next batch" in found.verdict
    assert found.counts.to_numpy().sum() == 86
    assert list(cells.obs) == ["kind"]


def test_arguments_that_do_not_fit(frame):
    X, y = frame.filter(like="g").to_numpy(), frame["kind"]
    with pytest.raises(ValueError, match=r"y must have one entry per sample \(90\), got shape \(89,\)"):
        gsat.check(X, y[1:])
    with pytest.raises(ValueError, match="n_jobs must be"):
        gsat.check(X, y, n_jobs=0)
    with pytest.raises(TypeError, match=r"gsat\.tl\.check"):
        gsat.check(AnnData(X), y)
