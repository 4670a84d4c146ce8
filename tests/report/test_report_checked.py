"""The page of a check: the verdict first, every method beside every batch, nothing taken as markup."""

import json
import re

import pytest

from gsat.report import build

METHODS = ("majority class", "logistic regression", "GSAT low-rank", "GSAT low-rank, prepared")


def content(**changes):
    rows = [
        {
            "method": name, "mean": 50.0 + place, "difference": None if place < 2 else place - 1.5, "low": -1.0,
            "high": 2.5, "beats": place == 3, "whole_batch": 2 if "prepared" in name else 0, "candidates": 3,
        }
        for place, name in enumerate(METHODS)
    ]  # fmt: skip
    return {
        "kind": "check", "verdict": "Logistic regression is as good: use it.", "outlook": "About <51> %.",
        "command": "gsat train x.csv --label 'a b'", "notes": ["<script>alert(1)</script>"], "by_batch": True,
        "table": rows,
        "batches": [{"method": name, "lab 1": 40.0 + i, "lab 2": 60.0 + i} for i, name in enumerate(METHODS)],
        "choices": [
            {
                "tested": "lab 1", "method": METHODS[2], "strength": 0.06, "metric": "none", "prepare": "none",
                "inner": 0.5, "balanced_accuracy": 0.42, "n_test": 30,
            }
        ],
        "counts": [{"batch": "lab 1", "ill": 10, "well": 20}],
        **changes,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "results.csv").write_text("defence,attack,strength,accuracy\nx,none,0,0.5\n")
    (tmp_path / "config.json").write_text(json.dumps({"title": "Check of x.csv", "seed": 3}))
    (tmp_path / "metrics.json").write_text(json.dumps(content()))
    return tmp_path


def test_the_page_of_a_check(folder):
    page = build(folder)
    assert page.index("<h1>Check of x.csv") < page.index("Logistic regression is as good: use it.")
    assert "About &lt;51&gt; %." in page
    assert "gsat train x.csv --label 'a b'" in re.sub(r"</?span[^>]*>", "", page)
    assert "<script>alert" not in page
    assert "+1.5 [-1.0, +2.5] *" in page
    assert "2 of 2" in page
    for title in ("Accuracy on each batch that was left out", "Against logistic regression", "What was chosen"):
        assert title in page
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page)[1])
    (figure,) = data["figures"].values()
    assert figure["kind"] == "forest"
    assert [(p["row"], p["series"]) for p in figure["choices"][0]["points"]] == [
        ("all", "as they are"), ("all", "prepared"),
    ]  # fmt: skip


@pytest.mark.parametrize(("by_batch", "title"), [(True, "batch 5"), (False, "fold 5")])
def test_a_batch_that_is_a_number_is_called_a_batch(folder, by_batch, title):
    units = [{"method": name, "5": 40.0 + place, "Rome": 60.0} for place, name in enumerate(METHODS)]
    (folder / "metrics.json").write_text(json.dumps(content(batches=units, by_batch=by_batch)))
    heads = re.findall(r"<button[^>]*>([^<]*)</button>", build(folder).partition("</thead>")[0])
    assert heads[-4:] == ["difference", title, "Rome", "whole batch"]


def test_random_folds_are_called_so(folder):
    (folder / "metrics.json").write_text(json.dumps(content(by_batch=False)))
    assert "Accuracy on each random fold that was left out" in build(folder)


def test_metrics_of_another_command_are_left_alone(folder):
    (folder / "metrics.json").write_text(json.dumps({"accuracy": 0.5}))
    assert "Against logistic regression" not in build(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table": []}, "must have table as a list of objects"),
        ({"counts": [{"class": 1}]}, "must have batch in the rows of counts"),
        ({"batches": [1]}, "must have batches as a list of objects"),
    ],
)
def test_a_broken_file_is_named(folder, changes, message):
    (folder / "metrics.json").write_text(json.dumps(content(**changes)))
    with pytest.raises(ValueError, match=rf"metrics\.json {message}"):
        build(folder)
