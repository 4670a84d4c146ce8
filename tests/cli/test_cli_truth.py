"""What `gsat train` says of its result: held-out batches, intervals, logistic regression beside it, and warnings."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
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


def said(result):
    return " ".join(result.output.split())


def samples(path, *, kind=None, lab=None, n=120, effect=2.0):
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=n) if kind is None else kind
    lab = rng.choice(4, size=n, p=(0.4, 0.3, 0.2, 0.1)) if lab is None else lab
    X = rng.normal(size=(n, 6)) + 0.3 * rng.normal(size=(4, 6))[lab]
    X[:, 0] += effect * kind
    names = np.array(["cold", "warm"])[kind]
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(6)]).assign(kind=names, lab=[f"lab{b}" for b in lab])
    frame.to_csv(path, index=False)
    return frame


def test_a_batch_is_held_out_and_everything_is_stored(tmp_path):
    frame = samples(tmp_path / "x.csv")
    out = tmp_path / "run"
    text = said(run("train", tmp_path / "x.csv", *COLUMNS, *QUICK, "--out", out))
    test = frame["lab"] == "lab0"
    assert f"held out batch lab0: {test.sum()} of 120 samples, the largest that leaves all classes" in text
    assert "flatter" not in text
    found = json.loads((out / "metrics.json").read_text())
    assert found["held_out"]["kind"] == "batches"
    assert found["held_out"]["batches"] == ["lab0"]
    assert found["data"] == {
        "name": "x.csv", "label": "kind", "batch": "lab", "n_train": 120 - test.sum(), "n_test": test.sum(),
        "n_features": 6,
    }  # fmt: skip
    assert found["model"] == {"defence": "low-rank", "words": "robust training against low-rank shifts", "budget": 0.05}
    counts = pd.crosstab(frame["lab"], frame["kind"])
    assert found["counts"]["classes"] == ["cold", "warm"]
    assert found["counts"]["batches"] == ["lab0", "lab1", "lab2", "lab3"]
    assert found["counts"]["test"] == [counts.loc["lab0"].tolist(), [0, 0], [0, 0], [0, 0]]
    assert found["counts"]["train"][1:] == counts.to_numpy()[1:].tolist()
    features = frame.columns[:6]
    classifier = gsat.load(out)
    predicted = classifier.predict(frame.loc[test, features])
    table = pd.read_csv(out / "predictions.csv")
    assert table.columns.tolist() == ["id", "batch", "label", "predicted", "probability", "logistic"]
    assert table["id"].tolist() == np.flatnonzero(test).tolist()
    assert table["predicted"].tolist() == predicted.tolist()
    chances = classifier.predict_proba(frame.loc[test, features]).max(1)
    np.testing.assert_allclose(table["probability"], chances, atol=1e-6)
    truth = frame.loc[test, "kind"].to_numpy()
    assert found["test"]["accuracy"]["value"] == pytest.approx(np.mean(predicted == truth))
    assert found["majority"] == pytest.approx(np.mean(truth == frame.loc[~test, "kind"].mode()[0]))
    scaler = StandardScaler().fit(frame.loc[~test, features])
    model = LogisticRegression().fit(scaler.transform(frame.loc[~test, features]), frame.loc[~test, "kind"])
    beside = model.predict(scaler.transform(frame.loc[test, features]))
    assert np.mean(table["logistic"] == beside) > 0.98  # float32 here, float64 there
    assert found["logistic"]["accuracy"]["value"] == pytest.approx(np.mean(table["logistic"] == truth))
    assert sum(each["n"] for each in found["calibration"]) == test.sum()
    attacked = json.loads(run("attack", out, "--structure", "pgd", "--eps", "0", "--steps", "1", "--json").stdout)
    assert attacked[0]["n"] == test.sum()  # the same rows again
    assert attacked[0]["accuracy"] == pytest.approx(found["test"]["accuracy"]["value"])


@pytest.mark.parametrize(
    ("options", "kind", "flatters"),
    [
        (["--label", "kind"], "random samples", True),
        ([*COLUMNS, "--test-fraction", "0.2"], "random samples", True),
        ([*COLUMNS, "--test-batch", "lab3"], "given batch", False),
        ([*COLUMNS, "--test-fraction", "0"], "none", False),
    ],
)
def test_how_the_test_side_was_made_is_said(options, kind, flatters, tmp_path):
    frame = samples(tmp_path / "x.csv")
    if "lab" not in options:
        frame.drop(columns="lab").to_csv(tmp_path / "x.csv", index=False)
    out = tmp_path / "run"
    text = said(run("train", tmp_path / "x.csv", *options, *QUICK, "--out", out, "--defence", "erm"))
    assert ("they flatter a classifier where a new batch differs" in text) == flatters
    found = json.loads((out / "metrics.json").read_text())
    assert found["held_out"]["kind"] == kind
    assert (found["test"] is None) == (kind == "none")
    assert found["model"] == {"defence": "erm", "words": "plain training, without an adversary"}
    assert len(pd.read_csv(out / "predictions.csv")) == found["data"]["n_test"]


def test_a_confounded_table_is_told(tmp_path):
    kind = np.repeat([0, 1], 60)
    samples(tmp_path / "x.csv", kind=kind, lab=2 * kind + np.tile([0, 1], 60))
    text = said(run("train", tmp_path / "x.csv", *COLUMNS, *QUICK, "--out", tmp_path / "run"))
    assert "label and batch are confounded: the batch alone gives the label of 100% of the samples" in text
    assert "a single class in batches lab0, lab1, lab2, lab3" in text
    assert re.search(r"test accuracy [\d.]+% \([\d. to]+\), 30 samples of one class", text)
    warned = "samples are of one class, cold: always saying cold would be right on all of them"
    assert f"all 30 test {warned}" in text
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert any(warned in one for one in found["warnings"])
    assert found["test"]["accuracy"] is not None
    assert found["test"]["balanced_accuracy"] is found["logistic"]["balanced_accuracy"] is None
    assert found["training"]["balanced_accuracy"] is not None
    run("report", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    visible = page[page.index("<body") : page.index('<script id="data"')].lower()
    assert f"all 30 test {warned}" in visible
    assert "every class alike" not in visible
    kind = np.repeat([0, 1], 60)
    samples(tmp_path / "x.csv", kind=kind, lab=kind)
    text = said(run("train", tmp_path / "x.csv", *COLUMNS, *QUICK, "--out", tmp_path / "two"))
    assert "no whole batch can be held out, since each has a class that the others lack" in text
    assert "they flatter" in text
    assert "one batch alone has classes cold, warm" in text


def test_nothing_learnt_and_one_class_are_told(tmp_path):
    samples(tmp_path / "x.csv", kind=np.repeat([0, 1], [100, 20]), effect=0.0)
    options = [*COLUMNS, "--n-outer", "3", "--eta0", "1e-9", "--defence", "erm", "--out", tmp_path / "run"]
    text = said(run("train", tmp_path / "x.csv", *options))
    assert "training accuracy is near chance" in text
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())["warnings"]
    assert any("near chance" in one for one in kept)
    samples(tmp_path / "x.csv", kind=np.repeat([0, 1], [112, 8]), effect=0.0)
    text = said(run("train", tmp_path / "x.csv", *COLUMNS, "--n-outer", "60", "--eta0", "0.01", "--defence", "erm",
                    "--model", "elu", "--out", tmp_path / "one", "--group-size", "20"))  # fmt: skip
    assert "near chance" in text or "one class is predicted" in text


def test_a_class_that_is_never_recognised_is_told(tmp_path):
    """Of the class that is rare no sample is told from the one it is like."""
    frame = samples(tmp_path / "x.csv", n=240)
    rare = frame.groupby(["lab", "kind"]).head(1).query("kind == 'warm'").assign(kind="hot")
    pd.concat([frame, rare]).to_csv(tmp_path / "x.csv", index=False)
    text = said(run("train", tmp_path / "x.csv", *COLUMNS, *QUICK, "--n-outer", "60", "--out", tmp_path / "run"))
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert [each["recall"]["value"] for each in found["test"]["per_class"] if each["class"] == "hot"] == [0]
    sentence = "the model recognises no sample of class hot (0 of 1) among the test samples"
    assert sentence in text
    assert sentence in found["warnings"]


def test_an_adversary_that_moved_nothing_is_told(tmp_path):
    samples(tmp_path / "x.csv")
    options = [*COLUMNS, *QUICK, "--lam", "1e9", "--out", tmp_path / "run"]
    assert "the adversary moved nothing in 100% of the groups: this is mostly ERM" in said(
        run("train", tmp_path / "x.csv", *options)
    )


def test_labels_like_ages_name_the_regressor(tmp_path):
    frame = samples(tmp_path / "x.csv")
    frame.assign(age=np.arange(120) % 70 + 18).drop(columns=["lab", "kind"]).to_csv(tmp_path / "x.csv", index=False)
    text = said(run("train", tmp_path / "x.csv", "--label", "age", "--out", tmp_path / "run", code=2))
    assert "--label must name classes, got 70 different numbers from 18 to 87 in 120 samples in 'age'" in text
    assert "gsat.GSATRegressor is trained on numbers" in text
