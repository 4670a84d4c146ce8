"""Files of other people beside the data, in a model folder and in a spreadsheet: none of them runs."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gsat
from gsat.cli import app
from gsat.cli.files import spreadsheet_safe
from gsat.estimators.folder import seal

MAIN = "import sys; sys.argv[0] = 'gsat'; sys.path[:1] = []; from gsat.cli import main; main()"  # as the program does
COLUMNS = ("--ids", "name", "--label", "kind")


def program(*args, cwd, start=("-c", MAIN)):
    """The command in a new process, begun in the folder `cwd`."""
    return subprocess.run(
        [sys.executable, *start, *map(str, args)], cwd=cwd, capture_output=True, text=True, timeout=600
    )


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def room(tmp_path):
    """A folder with a table, a saved model, and files that leave a trace if they are imported."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    y = np.where(X[:, 0] > 0, "=cmd|' /C calc'!A0", "@ok")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    gsat.ERMClassifier(n_outer=3, hidden=4, random_state=0).fit(frame, y).save(tmp_path / "model")
    frame.assign(kind=y, name=[f"+{i}z" for i in range(24)]).to_csv(tmp_path / "table.csv", index=False)
    for name in ("pydantic", "testing", "pandas", "sklearn", "torch", "rich", "anndata"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    return tmp_path


@pytest.mark.parametrize("start", [("-c", MAIN), ("-m", "gsat")])
def test_a_file_in_the_working_folder_does_not_run(start, room):
    done = program("predict", "model", "table.csv", "--ids", "name", "--batch", "kind", cwd=room, start=start)
    assert done.returncode == 0, done.stderr
    assert not (room / "ran").exists()
    assert (room / "predictions.csv").exists()


def test_a_model_of_the_working_folder_is_found_after_all_others(room, monkeypatch):
    monkeypatch.chdir(room)
    (room / "mine.py").write_text("from torch import nn\ndef net(shape, n): return nn.Linear(shape[0], n)\n")
    quick = ("--n-outer", "3", "--n-inner", "2", "--out", "run")
    done = program("train", "table.csv", "--label", "kind", "--ids", "name", "--model", "mine:net", *quick, cwd=room)
    assert done.returncode == 0, done.stderr
    for command in (("predict", "run", "table.csv", *COLUMNS), ("attack", "run", "--steps", "2", "--structure", "pgd")):
        said = " ".join(run(*command, code=2).output.split())
        assert "names the module 'mine:net', which is not of gsat and would be imported" in said
        assert "--trust-module" in said
        done = program(*command, "--trust-module", cwd=room)
        assert done.returncode == 0, done.stderr
    assert not (room / "ran").exists()


def test_a_model_folder_runs_no_command(room):
    head = json.loads((room / "model" / "model.json").read_text())
    head["params"] |= {"module": "subprocess:call", "module_options": {"args": f"touch {room / 'ran'}", "shell": True}}
    (room / "model" / "model.json").write_text(json.dumps(seal(head)))
    done = program("predict", "model", "table.csv", *COLUMNS, cwd=room)
    assert done.returncode == 2
    assert "names the module 'subprocess:call'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (room / "ran").exists()


def test_what_spreadsheets_would_run_is_escaped(room, monkeypatch):
    monkeypatch.chdir(room)
    options = (*COLUMNS, "--force")
    run("predict", "model", "table.csv", *options)
    safe = pd.read_csv("predictions.csv")
    assert set(safe["label"]) == {"'=cmd|' /C calc'!A0", "'@ok"}
    assert safe["id"][0] == "'+0z"
    assert list(safe.columns) == ["id", "label", "prediction", "p_=cmd|' /C calc'!A0", "p_@ok"]
    run("predict", "model", "table.csv", *options, "--raw-text")
    raw = pd.read_csv("predictions.csv")
    assert set(raw["label"]) == {"=cmd|' /C calc'!A0", "@ok"}
    assert raw["id"][0] == "+0z"
    assert (raw["p_@ok"] == safe["p_@ok"]).all()


def test_select_and_attack_have_the_option_too(room, monkeypatch):
    monkeypatch.chdir(room)
    frame = pd.read_csv("table.csv").rename(columns={"a": "=a()"})
    frame.to_csv("formula.csv", index=False)
    command = (
        "select",
        "formula.csv",
        "--label",
        "kind",
        "--ids",
        "name",
        "-k",
        "3",
        "--n-outer",
        "3",
        "--n-resamples",
    )
    run(*command, "0", "--out", "safe.csv")
    run(*command, "0", "--out", "raw.csv", "--raw-text")
    assert "'=a()" in pd.read_csv("safe.csv")["name"].tolist()
    assert "=a()" in pd.read_csv("raw.csv")["name"].tolist()
    assert "--raw-text" in run("attack", "--help").output


def test_only_text_that_begins_a_formula_is_changed():
    given = ["=1+1", "+a", "-a", "@a", "\ta", "\ra", "\n=a", "a=b", "", "-1.5", "+3e-5", "'=a", None, 3, "－1"]
    frame = pd.DataFrame({"=x": given, "n": np.arange(-3.0, 12.0)})
    found = spreadsheet_safe(frame)
    changed = ["'=1+1", "'+a", "'-a", "'@a", "'\ta", "'\ra", "'\n=a", *given[7:]]
    assert found["'=x"].tolist() == changed
    assert found["n"].tolist() == frame["n"].tolist()
    assert frame["=x"].tolist() == given


@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_do_not_steer_the_terminal(room, monkeypatch):
    monkeypatch.chdir(room)
    evil = "\x1b]0;mine\x07\x1b[2J"
    frame = pd.DataFrame({evil: [0.1, 0.4, -0.3, -0.2] * 5, "b": [1.0, 2.0] * 10, "kind": [evil, "b\u202ec"] * 10})
    frame.to_csv("evil.csv", index=False)
    short = ["--label", "kind", "--n-outer", "2", "--group-size", "5"]
    said = [
        run("train", "evil.csv", "--defence", "erm", "--out", "evil", *short),
        run("predict", "evil", "evil.csv", "--label", "kind", "--out", "evil-p.csv"),
        run("select", "evil.csv", "-k", "2", "--n-resamples", "0", "--out", "evil-s.csv", *short),
        run("data", "info", "evil.csv", "--label", "kind"),
        run("data", "info", "evil.csv", "--label", evil, "--batch", evil, code=2),
    ]
    texts = [each.output for each in said]
    assert r"\x1b]0;mine\x07" in "".join(texts)
    assert not any(sign in text for text in texts for sign in ("\x1b", "\x07", "\u202e"))
