"""`gsat train` with a metric, and with settings that are chosen on the batches of the training samples."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gsat
from gsat.cli import app
from gsat.estimators import leaving_out

QUICK = ["--n-outer", "15", "--n-inner", "2", "--group-size", "40", "--eta0", "0.01"]
COLUMNS = ["--label", "kind", "--batch", "lab"]
UNPREPARED = ["--choose", "--prepare", "none", "--calibrate"]


def genes(path):
    return pd.read_csv(path).filter(like="g")


def labs_of(path):
    return pd.read_csv(path)["lab"]


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


@pytest.fixture(scope="module")
def all_chosen(samples, tmp_path_factory):
    """A run whose settings and preparation were chosen, and what its command said; changed in copies alone."""
    out = tmp_path_factory.mktemp("chosen") / "run"
    return out, json.loads(run("train", samples, *COLUMNS, *QUICK, "--choose", "--out", out, "--json").stdout)


@pytest.fixture(scope="module")
def unprepared(samples, tmp_path_factory):
    """A run whose settings were chosen for samples as they are, calibrated; changed in copies alone."""
    out = tmp_path_factory.mktemp("unprepared") / "run"
    run("train", samples, *COLUMNS, *QUICK, *UNPREPARED, "--out", out)
    return out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([*COLUMNS], "6 directions, learnt from 3 batches, gamma 10"),  # the largest is held out
        ([*COLUMNS, "--test-fraction", "0"], "6 directions, learnt from 4 batches, gamma 10"),
        ([*COLUMNS, "--test-batch", "lab 0"], "6 directions, learnt from 3 batches, gamma 10"),
        ([*COLUMNS, "--metric", "none"], "isotropic"),
        ([*COLUMNS, "--metric", "within", "--gamma", "3"], "6 directions, learnt from 3 batches, gamma 3"),
        ([*COLUMNS, "--gamma", "0"], "isotropic"),
        (["--label", "kind"], "isotropic"),
        (["--label", "kind", "--metric", "within"], "6 directions, learnt inside the classes, gamma 10"),
    ],
)
def test_batches_make_a_metric_unless_it_is_declined(samples, options, words, tmp_path):
    if "lab" not in options:
        frame = pd.read_csv(samples).drop(columns="lab")
        samples = tmp_path / "without.csv"
        frame.to_csv(samples, index=False)
    found = json.loads(run("train", samples, *QUICK, *options, "--out", tmp_path / "run", "--json").stdout)
    assert found["metric"] == words
    metric = gsat.load(tmp_path / "run").metric_
    assert (metric is None) if words == "isotropic" else (len(metric.stretch) == 6)


def test_a_set_with_batches_has_a_metric_of_them_where_it_is_asked_for(tmp_path, data_dir):
    out, quick = tmp_path / "run", ["--n-outer", "2", "--n-inner", "1"]
    found = json.loads(run("train", "bladderbatch", "--metric", "between", *quick, "--out", out, "--json").stdout)
    assert "learnt from" in found["metric"]


@pytest.mark.parametrize(
    ("options", "uses"), [([], False), (["--prepare", "zscore"], False), (["--prepare", "centre"], True)]
)
def test_what_is_said_of_batches_is_true(samples, options, uses, tmp_path):
    said = run("train", samples, *COLUMNS, *QUICK[:2], "--defence", "erm", *options, "--out", tmp_path / "run").output
    assert ("erm makes no use of the batches in training" in " ".join(said.split())) != uses
    assert not any(line.startswith("metric ") for line in said.splitlines())


def test_choosing_writes_how_all_candidates_did_and_trains_the_best(samples, all_chosen, tmp_path):
    out, found = all_chosen
    tried = pd.read_csv(out / "choice.csv")
    config = json.loads((out / "config.json").read_text())
    best = tried.iloc[0]
    assert best["rank_test_score"] == 1
    assert len(tried) == 3 + 24 + 12 + 16  # ERM, logistic regression and LDA with each preparation, GSAT
    assert best["defence"] == config["defence"] == config["choice"][0]["defence"]
    members = gsat.load(out).estimators_
    assert len(members) == len(config["choice"]) == 14  # the best quarter of 55
    assert [one.prepare for one in members] == [one["prepare"] for one in config["choice"]]
    assert found["chosen"].startswith("the average of 14 (")
    assert f"the best of them {best['defence']}, prepare {best['prepare']}" in found["chosen"]
    assert (
        len((out / "choice.jsonl").read_text().splitlines()) == 55 * 3
    )  # labs left out in turn, of those that are not held out for the test
    assert found["test_accuracy"] > 0.6
    run("predict", out, samples, "--label", "kind", "--out", tmp_path / "predictions.csv")
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == 160


def test_the_preparation_is_chosen_by_name_too(samples, tmp_path):
    options = [*COLUMNS, *QUICK[:2], "--choose", "--prepare", "choose", "--metric", "between"]
    run("train", samples, *options, "--combine", "best", "--out", tmp_path / "run")
    assert not hasattr(gsat.load(tmp_path / "run"), "estimators_")
    assert set(pd.read_csv(tmp_path / "run" / "choice.csv")["prepare"]) == {"none", "centre", "zscore"}
    assert json.loads((tmp_path / "run" / "config.json").read_text())["metric"] == "between"


def test_a_metric_of_batches_needs_them(samples, tmp_path):
    frame = pd.read_csv(samples).drop(columns="lab")
    frame.to_csv(tmp_path / "without.csv", index=False)
    options = ["--label", "kind", "--metric", "between", "--out", tmp_path / "run"]
    said = " ".join(run("train", tmp_path / "without.csv", *options, code=2).output.split())
    assert "--metric between needs --batch to tell the batches, got none" in said


def test_a_chosen_run_is_resumed_with_what_was_chosen(samples, unprepared, tmp_path):
    out = shutil.copytree(unprepared, tmp_path / "run")
    before = gsat.load(out).predict_proba(genes(samples), labs_of(samples))
    again = run("train", samples, *COLUMNS, *QUICK, *UNPREPARED, "--out", out, "--resume")
    assert "chosen" in again.output
    np.testing.assert_allclose(gsat.load(out).predict_proba(genes(samples), labs_of(samples)), before, atol=1e-6)
    said = " ".join(run("train", samples, *COLUMNS, *QUICK, "--out", out, "--resume", code=2).output.split())
    assert "--resume needs the options of the run: " in said
    assert "choice was" in said


def test_a_choice_that_was_stopped_goes_on_where_it_was(samples, tmp_path, monkeypatch):
    whole, out = tmp_path / "whole", tmp_path / "run"
    options = [*COLUMNS, "--n-outer", "3", "--n-inner", "1", "--choose", "--prepare", "none"]
    run("train", samples, *options, "--out", whole)
    with monkeypatch.context() as patched:
        stop_at_training(patched, 30)
        assert CliRunner().invoke(app, ["train", str(samples), *options, "--out", str(out)]).exit_code != 0
    kept = (out / "choice.jsonl").read_text().splitlines()
    assert len(kept) == 30
    said = run("predict", out, samples, "--label", "kind", "--out", tmp_path / "p.csv", code=2).output
    assert "its training was stopped; --resume goes on with it" in " ".join(said.split())
    with (out / "choice.jsonl").open("a") as file:  # what a kill leaves: the beginning of a line
        file.write(kept[0][:20])
    trainings = count_trainings(monkeypatch)
    run("train", samples, *options, "--out", out, "--resume")
    every = (whole / "choice.jsonl").read_text().splitlines()
    assert len(trainings) == len(every) - 30
    lines = (out / "choice.jsonl").read_text().splitlines()
    assert lines[:30] == kept
    assert [json.loads(line)["key"] for line in lines if line.endswith("}")] == [json.loads(o)["key"] for o in every]
    chosen = [json.loads((each / "config.json").read_text())["choice"] for each in (whole, out)]
    assert chosen[0] == chosen[1]
    found = [gsat.load(each).predict_proba(genes(samples), labs_of(samples)) for each in (whole, out)]
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


def stop_at_training(patched, n):
    """The n-th training on a fold is the last."""
    trained, one = [], leaving_out._one

    def until(*args):
        if len(trained) == n:
            raise KeyboardInterrupt
        trained.append(args)
        return one(*args)

    patched.setattr(leaving_out, "_one", until)


def count_trainings(patched):
    trained, one = [], leaving_out._one
    patched.setattr(leaving_out, "_one", lambda *args: (trained.append(args[0]), one(*args))[1])
    return trained


def test_a_run_that_was_not_chosen_is_not_resumed_with_choose(samples, tmp_path):
    out = tmp_path / "run"
    run("train", samples, *COLUMNS, *QUICK, "--out", out)
    said = run("train", samples, *COLUMNS, *QUICK, "--choose", "--out", out, "--resume", code=2).output
    assert "--resume needs a run that was begun with --choose, got" in " ".join(said.split())
    said = run("train", samples, *COLUMNS, *QUICK, "--choose", "--out", out, code=2).output
    assert "--out must be a new or empty folder" in " ".join(said.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--metric", "all"], "--metric must be one of auto, batches, within, between, none"),
        (["--gamma", "-1"], "gamma must be >= 0, got -1"),
        (["--choose", "--model", "alexnet"], "--choose needs --model elu"),
        (["--choose", "--jobs", "0"], "--jobs must be >= 1"),
        (["--choose", "--defence", "erm"], "--choose chooses the defence on batches left out: leave out --defence"),
        (["--choose", "--budget", "0.05"], "--choose chooses the budget on batches left out: leave out --budget"),
        (["--choose", "--gamma", "3"], "--choose chooses the gamma on batches left out: leave out --gamma"),
        (["--choose", "--metric", "none"], "leave out --metric none, or --choose"),
        (["--choose", "--eps", "0.1"], "--choose tries no defence with a norm bound: leave out --eps, or --choose"),
        (["--choose", "--combine", "all"], "--combine must be one of best, average, got 'all'"),
        (["--combine", "best"], "--combine says what becomes of the candidates of --choose: leave it out, or give"),
        (["--eps", "0.1"], "--eps is the norm bound of defences that are not GSAT, got --defence low-rank: give it as"),
        (["--defence", "pgd", "--budget", "0.1"], "unstructured), got --defence pgd: give it as --eps"),
        (["--defence", "erm", "--eps", "0.1"], "--defence erm moves no sample: leave out --eps, or take another"),
        (["--prepare", "choose"], "--prepare choose needs --choose"),
        (["--defence", "pgd", "--gamma", "3"], "--gamma is for the structures of GSAT"),
        (["--defence", "erm", "--metric", "within"], "unstructured, linear), got --defence erm"),
        (["--metric", "batches", "--test-batch", "lab 0", "--batch", "kind"], None),
    ],
)
def test_bad_options_are_told(samples, options, words, tmp_path):
    said = " ".join(run("train", samples, *COLUMNS, *QUICK, *options, "--out", tmp_path / "run", code=2).output.split())
    assert words is None or words in said
    assert not (tmp_path / "run").exists()


def test_what_needs_whole_batches_has_a_model_for_single_samples_beside_it(samples, all_chosen, tmp_path):
    """The shifts of these samples are large: a centred model wins."""
    out, one = shutil.copytree(all_chosen[0], tmp_path / "run"), tmp_path / "one.csv"
    assert gsat.load(out).prepare == "centre"
    assert gsat.load(out / "model-single").prepare != "centre"
    assert "model-single" in all_chosen[1]["for single samples"]
    pd.read_csv(samples).head(1).to_csv(one, index=False)
    told = run("predict", out, one, "--label", "kind", "--out", tmp_path / "p.csv", code=2).output
    assert "model-single was trained beside it for that" in " ".join(told.split()).replace("- ", "-")
    run("predict", out / "model-single", one, *COLUMNS, "--out", tmp_path / "p.csv")
    assert len(pd.read_csv(tmp_path / "p.csv")) == 1
    told = run("attack", out, code=2).output
    assert "must hold one model to attack, got an average of 14" in " ".join(told.split())
    run("train", samples, *COLUMNS, *QUICK, "--out", out, "--force")
    assert not (out / "model-single").exists()


def test_an_average_that_needs_no_batch_predicts_and_tells_how_sure_it_may_be(samples, unprepared, tmp_path):
    out = unprepared
    assert len(gsat.load(out).estimators_) > 1
    far = pd.read_csv(samples)
    far.loc[:, "g0":"g5"] *= 50
    far.to_csv(tmp_path / "far.csv", index=False)
    told = run("predict", out, tmp_path / "far.csv", *COLUMNS, "--unassigned-below", "0.5", "--out", tmp_path / "p.csv")
    assert "calibrated on held-out training rows, temperature" in told.output
    assert "the new samples" in " ".join(told.output.split())  # they reach 50 times as far as those of training
    metrics = json.loads((out / "metrics.json").read_text())
    assert "models predict together" in " ".join(metrics["warnings"])


def test_a_gap_in_the_batches_is_no_reason_to_centre_all_samples_together(samples, all_chosen, tmp_path):
    out, gap = shutil.copytree(all_chosen[0], tmp_path / "run"), tmp_path / "gap.csv"
    config = json.loads((out / "config.json").read_text())
    config["prepare"] = "none"  # as where the best member is not centred, but another one is
    (out / "config.json").write_text(json.dumps(config))
    pd.read_csv(samples).assign(lab=lambda frame: frame["lab"].where(frame.index > 0)).to_csv(gap, index=False)
    assert "lab" in run("predict", out, gap, "--label", "kind", "--out", tmp_path / "p.csv", code=2).output
    assert not (tmp_path / "p.csv").exists()


def test_defences_are_compared_on_prepared_samples(samples, tmp_path):
    options = ["--defences", "erm,low-rank", "--attacks", "pgd@0.05", "--seeds", "1", "--steps", "2"]
    sizes = ["--n-validation", "40", "--strength", "fast", "--test-batch", "lab 0"]
    accuracy = {}
    for prepare in ("none", "centre"):
        out = tmp_path / prepare
        run("compare", samples, *COLUMNS, *QUICK, *options, *sizes, "--prepare", prepare, "--out", out)
        assert json.loads((out / "config.json").read_text())["plan"]["prepare"] == prepare
        found = pd.read_csv(out / "results.csv").query("part == 'test' and case == 'none' and defence == 'erm'")
        accuracy[prepare] = found["accuracy"].iloc[0]
    assert accuracy["centre"] > accuracy["none"] + 0.1  # a new lab is shifted by three deviations
