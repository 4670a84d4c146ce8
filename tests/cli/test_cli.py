"""The commands as a user runs them: output, files, exit codes, and what is refused."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import gsat
from gsat import registry
from gsat.cli import app
from gsat.cli.devices import put
from gsat.cli.folders import RUN_FILES
from gsat.experiments import demonstration

QUICK = ["--n-outer", "12", "--n-inner", "4", "--group-size", "60"]


def run(*args: object, code: int = 0):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    if code == 2:
        assert "Traceback" not in result.output
    return result


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "x"
    run("train", "digits", "--defence", "low-rank", "--out", out, *QUICK)
    return out


@pytest.mark.parametrize("command", ["demo", "train", "predict", "attack", "compare", "select"])
def test_help_has_an_example(command):
    text = run(command, "--help").output
    assert re.search(rf"Examples?: gsat {command}", " ".join(text.split()))


def test_train_leaves_a_run(trained):
    files = {"config.json", "log.jsonl", "checkpoint", "model", "map.csv", "metrics.json", "predictions.csv"}
    files |= {"trained_on.json"}
    assert {path.name for path in trained.iterdir()} == files
    assert len((trained / "log.jsonl").read_text().splitlines()) == 12
    config = json.loads((trained / "config.json").read_text())
    assert (config["defence"], config["n_outer"], config["size"]) == ("low-rank", 12, 0.05)
    classifier = gsat.load(trained / "model")
    assert classifier.classes_.tolist() == list(range(10))
    assert classifier.feature_names_in_[1] == "pixel_0_1"
    assert (classifier.standardize, classifier.n_iter_) == (False, 12)
    assert not classifier.module_.training
    table = gsat.data.load("digits")
    X, y = torch.from_numpy(table.train.X), torch.from_numpy(table.train.codes)
    module = gsat.models.build("elu", (64,), 10, seed=0)  # the same seed in Python gives the same bits
    defence = registry.named("low-rank", eps=0, alpha=0.2, n_inner=4, group_size=60)
    generator = torch.Generator().manual_seed(0)
    gsat.gdadmm(module, X, y, defence, n_outer=12, group_size=60, eta0=1e-3, generator=generator)
    for name, value in module.state_dict().items():
        assert torch.equal(value, classifier.module_.state_dict()[name])


def test_train_prints_json(tmp_path):
    found = json.loads(run("train", "digits", "--defence", "erm", "--out", tmp_path / "y", *QUICK, "--json").stdout)
    assert found["steps"] == 12
    assert 0 < found["test_accuracy"] <= 1


def test_train_stops_early_calibrates_and_resumes(tmp_path):
    options = [
        "train",
        "digits",
        "--defence",
        "universal-one",
        "--out",
        tmp_path / "e",
        "--n-outer",
        "50",
        "--n-inner",
        "2",
    ]
    options += ["--early-stopping", "--calibrate", "--validation-fraction", "0.2", "--json"]
    first = json.loads(run(*options).stdout)
    classifier = gsat.load(tmp_path / "e")
    assert classifier.temperature_ == first["temperature"] != 1
    assert (classifier.early_stopping, classifier.structure) == (True, "universal-one")
    lines = (tmp_path / "e" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["t"] for line in lines if json.loads(line)["validation_loss"] is not None] == [24, 49]
    assert json.loads(run(*options, "--resume").stdout) == first
    text = run(*options[:-4], "--json", "--resume", code=2).output
    assert "calibrate" in text


def test_attack_writes_its_table(trained, tmp_path):
    found = json.loads(
        run(
            "attack", trained, "--structure", "low-rank", "--ranks", "1,3", "--eps", "0.1", "--steps", "8", "--json"
        ).output
    )
    assert [(row["attack"], row["strength"]) for row in found] == [("none", 0), ("low-rank", 1), ("low-rank", 3)]
    assert found[0]["accuracy"] >= found[1]["accuracy"] >= found[2]["accuracy"]
    table = pd.read_csv(trained / "results.csv")
    assert table["accuracy"].tolist() == pytest.approx([row["accuracy"] for row in found])
    again = ["attack", trained, "--structure", "pgd", "--steps", "2", "--n", "30"]
    run(*again, "--out", tmp_path / "new" / "pgd.csv")
    assert "--out must be a new file, got" in run(*again, "--out", tmp_path / "new" / "pgd.csv", code=2).output
    assert pd.read_csv(tmp_path / "new" / "pgd.csv")["attack"].tolist() == ["none", "pgd"]
    assert pd.read_csv(trained / "results.csv").equals(table)
    run(*again)
    both = pd.read_csv(trained / "results.csv")
    assert both["attack"].tolist() == ["none", "none", "low-rank", "low-rank", "pgd"]
    assert both["n"].nunique() == 2
    table.drop(columns=["search", "masked"]).to_csv(trained / "results.csv", index=False)  # of an earlier version
    run(*again)
    assert pd.read_csv(trained / "results.csv")["accuracy"].tolist() == both["accuracy"].tolist()
    run(*again, "--seed", "3")  # measured anew: it takes the place of what was there
    assert pd.read_csv(trained / "results.csv")["attack"].tolist() == both["attack"].tolist()
    run("report", trained)
    page = (trained / "report.html").read_text()
    assert "Low-rank attack · " in page
    assert "PGD attack · 30 test samples" in page
    run(*again, "--force")
    assert pd.read_csv(trained / "results.csv")["attack"].tolist() == ["none", "pgd"]
    (trained / "results.csv").write_text("a,b\n1,2\n")
    assert "must be a table of gsat attack to be added to, but has no attack" in run(*again, code=2).output


def test_compare_gives_every_case(tmp_path):
    args = ["--defences", "erm,pgd,low-rank", "--attacks", "low-rank:2@0.1,pgd@0.1", "--seeds", "2", "--steps", "6"]
    text = run("compare", "digits", *args, *QUICK, "--n-test", "150", "--out", tmp_path / "c").output
    assert "low-rank − pgd" in text
    results = pd.read_csv(tmp_path / "c" / "results.csv")
    assert set(results["case"]) == {"none", "low-rank:2@0.1", "pgd@0.1"}
    assert len(results) == 3 * 2 * 3 * 2  # defences, seeds, cases, validation and test
    chosen = pd.read_csv(tmp_path / "c" / "chosen.csv")
    assert len(chosen) == 3 * 2 * 3
    used = results[results["defence"] == "low-rank"].groupby("seed")["mean_norm_used"].first()
    pgd = results[results["defence"] == "pgd"].groupby("seed")[["size", "unit"]].first()
    assert (pgd["size"] * pgd["unit"]).tolist() == pytest.approx(used.tolist(), rel=1e-9)


def test_tuned_sizes_are_chosen_on_validation_rows(tmp_path):
    args = ["--defences", "pgd,group-sparse", "--attacks", "pgd@0.1", "--seeds", "1", "--steps", "5", "--rule", "tuned"]
    run("compare", "digits", *args, *QUICK, "--grid", "0.02,0.2", "--n-test", "100", "--out", tmp_path / "c")
    results, chosen = (pd.read_csv(tmp_path / "c" / f"{name}.csv") for name in ("results", "chosen"))
    assert sorted(set(results["size"])) == [0.02, 0.2]
    for row in chosen.itertuples():
        own = results[(results.defence == row.defence) & (results.case == row.case) & (results.part == "validation")]
        assert own.loc[own["accuracy"].idxmax(), "size"] == row.size


def test_demo_writes_table_picture_and_report(tmp_path, monkeypatch):
    asked = []

    def quick(model, X, y, attacks, *, strength):  # the search itself has tests of its own
        asked.append(strength)
        return gsat.evaluate(model, X, y, {name: replace(one, steps=3) for name, one in attacks.items()})

    monkeypatch.setattr(demonstration, "evaluate", quick)
    text = run("demo", "--out", tmp_path / "d", "--n-outer", "8").output
    assert asked == ["standard"] * 6
    for name in ("erm", "fgm", "pgd", "universal", "group-sparse", "low-rank"):
        assert re.search(rf"^{name} +\d", text, re.MULTILINE), name
    assert (tmp_path / "d" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert f"report: {tmp_path / 'd' / 'report.html'}" in text
    assert '<figure id="figure-1" class="chart line">' in (tmp_path / "d" / "report.html").read_text(encoding="utf-8")
    assert {path.name for path in (tmp_path / "d").iterdir()} <= RUN_FILES  # so that --force may overwrite it
    results = pd.read_csv(tmp_path / "d" / "results.csv")
    assert set(results["attack"]) == {"universal", "group-sparse", "low-rank", "pgd"}
    assert len(results) == 6 * 4 * 5


def test_the_module_is_the_command():
    found = subprocess.run([sys.executable, "-m", "gsat", "--help"], capture_output=True, text=True, check=True)
    assert "reproduce" in found.stdout


def test_a_run_is_not_overwritten(trained):
    before = (trained / "log.jsonl").read_text()
    text = run("train", "digits", "--out", trained, *QUICK, code=2).output
    assert re.search(r"--out must be a new or empty folder, got .*--force .*--resume", text)
    assert (trained / "log.jsonl").read_text() == before


def test_a_call_that_failed_early_may_be_repeated(tmp_path):
    run("train", "digits", "--out", tmp_path / "r", "--lam", "-1", *QUICK, code=2)
    run("train", "digits", "--out", tmp_path / "r", *QUICK)


def test_a_comparison_goes_on_without_training_again(tmp_path):
    args = ["compare", "digits", "--defences", "low-rank", "--attacks", "pgd@0.1", "--seeds", "1", "--steps", "5"]
    first = run(*args, *QUICK, "--n-test", "100", "--out", tmp_path / "c").output
    folder = next((tmp_path / "c" / "models").iterdir())
    before = folder.stat().st_mtime_ns
    assert run(*args, *QUICK, "--n-test", "100", "--out", tmp_path / "c", "--resume").output == first
    assert folder.stat().st_mtime_ns == before
    text = run(*args, *QUICK, "--n-test", "90", "--out", tmp_path / "c", "--resume", code=2).output
    assert "n_test was 100, is 90" in text


def test_a_model_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def good(shape, n): return nn.Linear(shape[0], n)\n"
        "def narrow(shape, n): return nn.Linear(shape[0], n - 1)\n"
        "def wrong(shape, n): return nn.Linear(shape[0] + 1, n)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run("train", "digits", "--model", "mine:good", "--out", tmp_path / "a", *QUICK)
    classifier = gsat.load(tmp_path / "a", trust_module=True)  # the run's folder does as well
    assert isinstance(classifier.module_, torch.nn.Linear)
    run("attack", tmp_path / "a", "--structure", "universal", "--steps", "3", "--n", "50", "--trust-module")
    for name, message in (
        ("narrow", r"to 10 outputs, got an output of shape \(2, 9\)"),
        ("wrong", "but fails on them"),
    ):
        text = run("train", "digits", "--model", f"mine:{name}", "--out", tmp_path / name, *QUICK, code=2).output
        assert re.search(message, text)


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    assert "--out must be a folder" in run("train", "digits", "--out", tmp_path / "file", *QUICK, code=2).output
    run("train", "digits", "--out", tmp_path / "file" / "sub", *QUICK, code=2)


def test_force_overwrites_runs_only(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "config.json").write_text('{"data": "digits", "defence": "erm"}')
    assert "is not overwritten" in run("train", "digits", "--out", tmp_path, "--force", *QUICK, code=2).output
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("wrong", [["--ema", "2"], ["--schedule", "steep"], ["--model", "nowhere:net"]])
def test_a_replaced_run_comes_back_when_the_new_one_never_begins(tmp_path, wrong):
    def content():
        return {path.relative_to(out): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}

    out = tmp_path / "run"
    run("train", "digits", "--out", out, *QUICK)
    before = content()
    run("train", "digits", "--out", out, "--force", *QUICK, *wrong, code=2)
    assert content() == before
    run("train", "digits", "--out", out, "--force", *QUICK, "--seed", "1")
    after = content()
    assert set(after) == set(before)
    assert after != before


def test_resume_needs_the_same_options(trained, tmp_path):
    text = run("train", "digits", "--out", trained, "--resume", *QUICK, "--alpha", "0.3", code=2).output
    assert "alpha was None, is 0.3" in text
    text = run("train", "digits", "--out", tmp_path / "none", "--resume", *QUICK, code=2).output
    assert "--resume needs a run in --out" in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "digitz"], "digitz"),
        (["train", "digits", "--defence", "magic"], "--defence must be one of erm, .*got 'magic'"),
        (["train", "digits", "--lam", "much"], '--lam must be a number, "auto" or "paper", got \'much\''),
        (["train", "digits", "--lam", "-1"], "lam must be > 0, got -1.0"),
        (["train", "digits", "--alpha", "2"], "alpha must be >= 0 and <= 1, got 2.0"),
        (["train", "digits", "--model", "vgg"], "model must be one of elu, alexnet"),
        (["train", "digits", "--solver", "newton"], "solver must be one of proximal, admm, admm-paper, linearised"),
        (["train", "digits", "--budget", "0"], "budget must be > 0, got 0.0"),
        (["train", "nowhere.csv", "--device", "tpu"], "--device must be cpu, cuda, cuda:NUMBER or auto, got 'tpu'"),
        (["train", "nowhere.csv", "--device", "cuda"], "--device must be cpu where torch .* finds no CUDA device"),
        (["train", "nowhere.csv", "--precision", "tf32"], "--precision tf32 is of CUDA's tensor cores: give --device"),
        (["train", "nowhere.csv", "--precision", "tf32", "--device", "auto"], "--device auto found the CPU alone"),
        (["train", "digits", "--precision", "bf16"], "--precision must be one of float32, tf32, got 'bf16'"),
        (["train", "digits", "--defence", "linear", "--device", "auto"], "--device is for networks: leave it out"),
        (["train", "digits", "--choose", "--precision", "float32"], "--precision is for one training"),
        (["attack", "nowhere", "--device", "mps"], "--device must be .* got 'mps'; GPUs of Apple have no float64"),
        (["predict", "nowhere", "new.csv", "--device", "cuda:0"], "--device must be cpu where torch"),
        (["attack", "nowhere"], "nowhere"),
        (["compare", "digits", "--attacks", "low-rank:x"], 'an attack must read "name"'),
        (["compare", "digits", "--attacks", "hammer"], "attack must be one of universal, .*got 'hammer'"),
        (["compare", "digits", "--defences", "magic"], "--defences must be of erm, .*got 'magic'"),
        (["compare", "digits", "--rule", "best"], "--rule must be matched or tuned, got 'best'"),
    ],
)
def test_bad_input_is_named(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert re.search(message, run(*args, code=2).output.replace("\n", " "))
    assert not list(tmp_path.glob("runs/*/model"))


def test_a_gpu_is_taken_where_there_is_one(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "auto"
    run("train", "digits", "--defence", "low-rank", "--out", out, *QUICK, "--device", "auto")
    assert json.loads((out / "config.json").read_text())["device"] == "auto"
    weights = [gsat.load(each).module_.state_dict() for each in (trained, out)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    text = run("train", "digits", "--defence", "low-rank", "--out", out, *QUICK, "--resume", code=2).output
    assert "device was 'auto', is None" in text
    small = ["--n", "40", "--steps", "2", "--strength", "fast", "--json"]
    rows = [run("attack", out, *small, "--device", word, "--force").stdout for word in ("cpu", "auto")]
    assert rows[0] == rows[1]


def test_a_classifier_and_an_average_move_to_a_device():
    table = gsat.data.make_batches(60, 5)
    members = [gsat.ERMClassifier(n_outer=2, random_state=seed).fit(table.X, table.y) for seed in range(2)]
    put(SimpleNamespace(estimators_=members), torch.device("meta"))
    assert {weight.device.type for one in members for weight in one.module_.parameters()} == {"meta"}
    one = gsat.ERMClassifier(n_outer=2, random_state=0).fit(table.X, table.y)
    put(one, None)
    assert {weight.device.type for weight in one.module_.parameters()} == {"cpu"}
    put(one, torch.device("meta"))
    assert {weight.device.type for weight in one.module_.parameters()} == {"meta"}


def test_a_damaged_model_is_refused(trained, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    weights = copy / "model" / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-3] ^= 1
    weights.write_bytes(bytes(data))
    assert "does not match its checksum" in run("attack", copy, code=2).output
    (copy / "model" / "model.json").write_text('{"format": 99}')
    assert "must have format 2, got 99" in run("attack", copy, code=2).output
