"""`gsat train` with a metric, and with settings that are chosen on the batches of the training samples."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gsat
from gsat.cli import app

QUICK = ["--n-outer", "15", "--n-inner", "2", "--group-size", "40", "--eta0", "0.01"]
COLUMNS = ["--label", "kind", "--batch", "lab"]


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    rng = np.random.default_rng(0)
    n, d = 160, 6
    kind, lab = rng.integers(2, size=n), rng.integers(4, size=n)
    X = rng.normal(size=(n, d)) + 3 * rng.normal(size=(4, d))[lab]
    X[:, 0] += 3 * kind
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(d)]).assign(kind=kind, lab=[f"lab {b}" for b in lab])
    path = tmp_path_factory.mktemp("samples") / "samples.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("options", "directions"),
    [
        ([], True),
        (["--metric", "none"], False),
        (["--metric", "within", "--gamma", "3"], True),
        (["--gamma", "0"], False),
    ],
)
def test_batches_make_a_metric_unless_it_is_declined(samples, options, directions, tmp_path):
    run("train", samples, *COLUMNS, *QUICK, *options, "--out", tmp_path / "run")
    assert (gsat.load(tmp_path / "run").metric_ is not None) == directions


def test_choosing_writes_how_all_candidates_did_and_trains_the_best(samples, tmp_path):
    out = tmp_path / "run"
    found = json.loads(run("train", samples, *COLUMNS, *QUICK, "--choose", "--out", out, "--json").output)
    tried = pd.read_csv(out / "choice.csv")
    config = json.loads((out / "config.json").read_text())
    best = tried.iloc[0]
    assert best["rank_test_score"] == 1
    assert len(tried) == 3 + 24 + 16  # ERM and linear models with each preparation, GSAT
    assert best["defence"] == config["defence"] == config["choice"]["defence"]
    assert best["prepare"] == config["prepare"] == gsat.load(out).prepare
    assert str(best["defence"]) in found["chosen"]
    assert found["test_accuracy"] > 0.6
    run("predict", out, samples, "--label", "kind", "--out", tmp_path / "predictions.csv")
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == 160


def test_a_chosen_run_is_resumed_with_what_was_chosen(samples, tmp_path):
    out = tmp_path / "run"
    run("train", samples, *COLUMNS, *QUICK, "--choose", "--prepare", "none", "--out", out)
    before = gsat.load(out)
    again = run("train", samples, *COLUMNS, *QUICK, "--choose", "--prepare", "none", "--out", out, "--resume")
    assert "chosen" in again.output
    np.testing.assert_array_equal(gsat.load(out).mean_, before.mean_)
    said = " ".join(run("train", samples, *COLUMNS, *QUICK, "--out", out, "--resume", code=2).output.split())
    assert "--resume needs the options of the run: " in said
    assert "choice was" in said


def test_a_run_that_was_not_chosen_is_not_resumed_with_choose(samples, tmp_path):
    out = tmp_path / "run"
    run("train", samples, *COLUMNS, *QUICK, "--out", out)
    said = run("train", samples, *COLUMNS, *QUICK, "--choose", "--out", out, "--resume", code=2).output
    assert "begun with --choose and has chosen" in " ".join(said.split())
    said = run("train", samples, *COLUMNS, *QUICK, "--choose", "--out", out, code=2).output
    assert "--out must be a new or empty folder" in " ".join(said.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--metric", "all"], "--metric must be one of auto, batches, within, between, none"),
        (["--gamma", "-1"], "gamma must be >= 0, got -1"),
        (["--choose", "--model", "alexnet"], "--choose needs --model elu"),
        (["--choose", "--jobs", "0"], "--jobs must be >= 1"),
        (["--metric", "batches", "--test-batch", "lab 0", "--batch", "kind"], None),
    ],
)
def test_bad_options_are_told(samples, options, words, tmp_path):
    said = " ".join(run("train", samples, *COLUMNS, *QUICK, *options, "--out", tmp_path / "run", code=2).output.split())
    assert words is None or words in said
    assert not (tmp_path / "run").exists()


def test_what_needs_whole_batches_has_a_model_for_single_samples_beside_it(samples, tmp_path):
    """The shifts of these samples are large: a centred model wins."""
    out, one = tmp_path / "run", tmp_path / "one.csv"
    said = run("train", samples, *COLUMNS, *QUICK, "--choose", "--out", out).output
    assert gsat.load(out).prepare == "centre"
    assert gsat.load(out / "model-single").prepare != "centre"
    assert "model-single" in said
    pd.read_csv(samples).head(1).to_csv(one, index=False)
    told = run("predict", out, one, "--label", "kind", "--out", tmp_path / "p.csv", code=2).output
    assert "model-single was trained beside it for that" in " ".join(told.split()).replace("- ", "-")
    run("predict", out / "model-single", one, *COLUMNS, "--out", tmp_path / "p.csv")
    assert len(pd.read_csv(tmp_path / "p.csv")) == 1
    run("train", samples, *COLUMNS, *QUICK, "--out", out, "--force")
    assert not (out / "model-single").exists()
