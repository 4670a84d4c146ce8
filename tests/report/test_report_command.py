"""What `gsat report` refuses, and what its command writes, keeps and says."""

import json
import re

import pytest
from typer.testing import CliRunner

from gsat.cli import app
from gsat.report import build, is_report
from result_folders import experiment, write_json


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("results.csv", "", r"results\.csv must be a table with a header, got an empty file"),
        ("results.csv", b"a,b\n\xff\xfe", r"results\.csv must be a CSV table in UTF-8"),
        ("results.csv", "a,b\n1,2,3\n1,2,3,4\n", r"results\.csv must be a CSV table"),
        (
            "results.csv",
            "defence,strength\npgd,1\n",
            r"results\.csv: the column 'accuracy' is missing, there are defence",
        ),
        (
            "results.csv",
            "defence,accuracy\npgd,1\n",
            r"results\.csv: .* column strength, eps, label or case, got defence",
        ),
        ("timing.csv", "defence\npgd\n", r"timing\.csv must have the column 'seconds', got defence"),
        ("config.json", "[1]", r"config\.json must be a JSON object, got list"),
        ("config.json", "{", r"config\.json must be JSON in UTF-8"),
        ("config.json", '{"report": 3}', r'"report" in .*config\.json must be an object or a list of them, got 3'),
        ("config.json", '{"report": {"table": "no"}}', r"names the table 'no', but there is no no\.csv"),
        ("log.jsonl", '{"t": 0}\nnonsense\n{"t": 2}\n', r"log\.jsonl, line 2 must be a JSON object .* got 'nonsense'"),
        ("perturbations.json", "[]", r'perturbations\.json must be \{"perturbations": \[\.\.\.\]\}'),
    ],
)
def test_faulty_files_are_named(tmp_path, name, content, message):
    experiment(tmp_path)
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        build(tmp_path)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "movie"}, "kind must be image, bars or spectrum, got 'movie'"),
        (7, "kind must be image, bars or spectrum, got None"),
        ({"kind": "spectrum", "values": []}, "values must be a list of finite numbers"),
        ({"kind": "spectrum", "values": [1, float("nan")]}, "values must be a list of finite numbers"),
        ({"kind": "spectrum", "values": [1, True]}, "values must be a list of finite numbers"),
        ({"kind": "bars", "names": ["a"], "scores": [1, 2]}, "names must have one name for each of the 2 scores"),
        (
            {"kind": "image", "shape": [2, 2], "values": [1, 2, 3]},
            r"values must have 4 numbers for shape \[2, 2\], got 3",
        ),
        ({"kind": "image", "shape": [2, 0], "values": [1]}, r"shape must be \[h, w\]"),
        ({"kind": "image", "shape": [2, 2, 2], "values": [1] * 8}, r"shape must be \[h, w\]"),
        (
            {"kind": "image", "shape": [9999, 1], "values": [1] * 9999},
            r"shape must be .* with h, w <= 512, got \[9999, 1\]",
        ),
    ],
)
def test_faulty_perturbations_are_named(tmp_path, entry, message):
    good = {"kind": "spectrum", "values": [1.0]}
    write_json(tmp_path / "perturbations.json", {"perturbations": [good, entry]})
    with pytest.raises(ValueError, match=rf"perturbations\.json, entry 1: {message}"):
        build(tmp_path)


def run(*args, code=0):
    result = CliRunner().invoke(app, ["report", *map(str, args)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def test_the_command_writes_next_to_the_results(tmp_path):
    experiment(tmp_path / "x")
    assert f"report         {tmp_path / 'x' / 'report.html'}" in run(tmp_path / "x")
    first = (tmp_path / "x" / "report.html").read_text()
    assert is_report(tmp_path / "x" / "report.html")
    found = json.loads(run(tmp_path / "x", "--out", tmp_path / "new" / "page.html", "--json"))
    assert found["report"] == str(tmp_path / "new" / "page.html")
    assert found["megabytes"] == pytest.approx(len(first.encode()) / 1e6, abs=0.01)
    assert (tmp_path / "new" / "page.html").read_text() == first
    run(tmp_path / "x")  # a report may be written again
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]


def test_the_command_keeps_what_is_not_a_report(tmp_path):
    experiment(tmp_path / "x")
    (tmp_path / "notes.html").write_text("mine")
    text = run(tmp_path / "x", "--out", tmp_path / "notes.html", code=2)
    assert re.search(r"--out must be a new file or a report of gsat, got .*notes\.html; it is not overwritten", text)
    assert (tmp_path / "notes.html").read_text() == "mine"
    assert "--out must be a file, got the folder" in run(tmp_path / "x", "--out", tmp_path, code=2)


def test_the_command_says_what_it_needs(tmp_path):
    assert re.search(r"needs a folder of results, got .*nowhere, which is not there", run(tmp_path / "nowhere", code=2))
    assert "with one of results.csv, log.jsonl, perturbations.json, timing.csv" in run(tmp_path, code=2)
    (tmp_path / "file").write_text("x")
    assert "needs a folder of results, got" in run(tmp_path / "file", code=2)


def test_help_has_an_example():
    assert re.search(r"Examples?: gsat report runs/x", " ".join(run("--help").split()))
