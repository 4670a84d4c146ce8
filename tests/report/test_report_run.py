"""The report of a run of `gsat train` and of `gsat diagnose`: what it says in words, tables and figures."""

import json
import re

import pandas as pd
import pytest
from test_report import Page

from gsat.report import build
from gsat.report.metrics import read_metrics
from gsat.report.places import GROUPS
from gsat.report.verdict import sentences, sign_test
from result_folders import HOSTILE, diagnosed, judged_run, write_json


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return judged_run(tmp_path_factory.mktemp("run") / "x")


@pytest.fixture(scope="module")
def page(run) -> Page:
    return Page(build(run))


@pytest.fixture
def other(run, tmp_path):
    """A run whose metrics.json a test may change."""

    def make(change) -> str:
        content = json.loads((run / "metrics.json").read_text())
        change(content)
        write_json(tmp_path / "metrics.json", content)
        return build(tmp_path)

    return make


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html[: html.index('<script id="data"')]).split())


def test_the_first_paragraphs_say_what_was_trained_on_what_how_well_and_beside_what(run, page):
    opening = " ".join(sentences(read_metrics(run), pd.read_csv(run / "predictions.csv")))
    table = pd.read_csv(run / "predictions.csv")
    right, beside = (100 * (table[name] == table["label"]).mean() for name in ("predicted", "logistic"))
    assert opening.startswith(
        "This model tells the 5 classes of cell_line in cells.h5ad apart by 11,533 features of each sample. "
        "It was trained on 873 samples of 3 batches, by robust training against low-rank shifts. "
        "On the 300 samples of batches 10x and Drop-seq, from which no training sample comes, it is right in "
        f"{right:.1f} %"
    )
    assert f"Logistic regression, trained on the same samples, is right in {beside:.1f} %" in opening
    alone = ((table["predicted"] == table["label"]) & (table["logistic"] != table["label"])).sum()
    assert f"this model alone is right on {alone} of them" in opening
    assert "largest class of the training samples is right in 21.0 %" in opening
    shown = words(page.html)
    assert opening in shown
    assert "<h1>GSAT low-rank on cells.h5ad</h1>" in page.html
    assert "/home" not in shown[: shown.index("Settings setting")]
    assert "To be watched Fewer than 5 training samples of class H838 (4)" in shown


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"held_out": {"kind": "random samples", "batches": [], "why": "w"}},
            "300 samples that were kept aside at random",
        ),
        ({"held_out": {"kind": "none", "batches": [], "why": "All train."}, "test": None}, "new ones (All train)."),
        ({"held_out": {"kind": "given samples", "batches": [], "why": "w"}}, "300 samples that were kept aside, it is"),
        ({"held_out": {"kind": "given batch", "batches": ["10x"], "why": "w"}}, "of batch 10x, from which no"),
        ({"logistic": None}, "right in 21.0 %"),
    ],
)
def test_every_way_of_holding_out_has_its_words(other, change, text):
    assert text in words(other(lambda content: content.update(change)))


def test_a_class_without_test_samples_is_named(other):
    def without(content):
        content["test"]["confusion"][2] = [0] * 5

    assert "Nothing is known about H2228: no test sample is of it." in words(other(without))


def test_without_balanced_accuracy_no_word_of_counting_classes_alike(other):
    def alone(content):
        content["test"]["balanced_accuracy"] = content["logistic"]["balanced_accuracy"] = None

    def table(html):
        return len(re.findall("<th[ >]", html[html.index("How often each model is right") :].split("</thead>")[0]))

    assert "ounting every class alike" in words(other(lambda content: None))
    columns = table(other(lambda content: None))
    assert "ounting every class alike" not in words(other(alone))
    assert table(other(alone)) == columns - 1


@pytest.mark.parametrize(("first", "second", "p"), [(0, 0, 1), (5, 0, 2 / 32), (7, 3, 0.34375), (600, 500, 0.0028)])
def test_the_sign_test(first, second, p):
    assert sign_test(first, second) == pytest.approx(p, rel=0.02)
    assert sign_test(second, first) == sign_test(first, second)


@pytest.mark.parametrize(
    ("predicted", "logistic", "said"),
    [
        ("a" * 30, "a" * 30, "right on the same samples"),
        ("a" * 30, "a" * 20 + "b" * 10, "This model is ahead"),
        ("a" * 20 + "b" * 10, "a" * 30, "Logistic regression is ahead"),
        ("a" * 28 + "bb", "bb" + "a" * 28, "cannot be told apart: this model alone is right on 2 of them"),
    ],
)
def test_the_two_models_are_compared_on_the_same_samples(run, predicted, logistic, said):
    table = pd.DataFrame({"label": list("a" * 30), "predicted": list(predicted), "logistic": list(logistic)})
    assert said in sentences(read_metrics(run), table)[-1]


def test_tables_have_the_counts(run, page):
    metrics = json.loads((run / "metrics.json").read_text())

    def rows(part):
        start = page.html.index(f'id="report-{part}"')
        body = page.html[page.html.index("<tbody>", start) : page.html.index("</tbody>", start)]
        return [re.findall(r">([^<>]+)</(?:th|td)>", row) for row in body.split("</tr>")[:-1]]

    classes = metrics["counts"]["classes"]
    expected = [
        [name, *map(str, row), str(sum(row))] for name, row in zip(classes, metrics["test"]["confusion"], strict=True)
    ]
    assert rows("confusion") == expected
    counts = rows("counts")
    assert [row[:2] for row in counts] == [
        ["CEL-seq2 p1", "training"], ["CEL-seq2 p2", "training"], ["CEL-seq2 p3", "training"],
        ["10x", "test"], ["Drop-seq", "test"],
    ]  # fmt: skip
    assert counts[0][2:-1] == [str(n) for n in metrics["counts"]["train"][0]]


def test_figures_have_shares_with_intervals_of_both_models(run, page):
    metrics = json.loads((run / "metrics.json").read_text())
    points = page.figure("Right, class by class")["choices"][0]["points"]
    assert [point["series"] for point in points] == ["low-rank"] * 5 + ["logistic"] * 5
    recall = metrics["test"]["per_class"][1]["recall"]
    shown = [points[1][key] for key in ("x", "low", "high")]
    assert shown == pytest.approx([100 * recall[key] for key in ("value", "low", "high")], abs=0.01)
    assert [point["row"][:3] for point in page.figure("Right, batch by batch")["choices"][0]["points"]] == [
        "10x",
        "Dro",
    ] * 2
    (line,) = page.figure("Probability and truth")["lines"]
    assert [point[3] for point in line["points"]] == [each["n"] for each in metrics["calibration"]]
    assert all(low <= right <= high for _, right, _, _, low, high in line["points"])
    bars = page.figure("The features that count most")["bars"]
    assert len(bars) == 30
    assert [bar["name"] for bar in bars[:2]] == ["GENE0", "GENE1"]
    assert re.fullmatch(r"\d+ %", bars[0]["beside"])


def test_the_map_is_coloured_by_class_batch_and_error(run, page):
    table = pd.read_csv(run / "predictions.csv")
    titles = ["By class", "By batch", "Right or wrong", "Where the adversary pushes"]
    specs = [page.figure(title) for title in titles]
    for spec, column in zip(specs, ("label", "batch"), strict=False):
        shown = [spec["groups"][point[2]]["title"] for point in spec["points"]]
        assert shown == table[column].tolist()
    wrong = [point for point in specs[2]["points"] if specs[2]["groups"][point[2]]["title"] == "wrong"]
    assert len(wrong) == (table["label"] != table["predicted"]).sum()
    assert all(" taken for " in point[4] for point in wrong)
    assert len({(group["slot"], group["symbol"]) for group in specs[0]["groups"]}) == 5
    assert len(specs[3]["arrows"]) == 80
    assert [len(spec["arrows"]) for spec in specs[:3]] == [0, 0, 0]


def test_many_classes_and_batches_are_cut_and_say_so(tmp_path):
    many = judged_run(
        tmp_path / "many",
        classes=tuple(f"type {i:02}" for i in range(40)),
        batches=tuple(f"plate {i:04}" for i in range(200)),
        held_out=("plate 0003", "plate 0005"),
        n=400,
    )
    page = Page(build(many))
    shown = words(page.html)
    assert "The figures have the 30 largest of 40 classes." in shown
    assert "160 smaller batches" in shown
    assert re.search(r"The first 15 of \d+\.", shown)
    groups = page.figure("By class")["groups"]
    assert [group["title"] for group in groups][-1] == "others"
    assert len(groups) == GROUPS + 1
    assert len(page.html) < 1_500_000


def test_an_old_run_and_one_under_way_still_have_a_page(tmp_path):
    write_json(tmp_path / "config.json", {"data": "/d/cells.h5ad", "defence": "low-rank", "rows_checksum": "x"})
    (tmp_path / "log.jsonl").write_text('{"t": 0, "loss": 2.0}\n{"t": 1, "loss": 1.0}\n')
    html = build(tmp_path)
    assert "<h1>GSAT low-rank on cells.h5ad</h1>" in html
    assert "How well the model does on held-out samples is not in this folder" in html
    write_json(tmp_path / "metrics.json", {"verdict": "of another command"})
    assert build(tmp_path)


def test_files_that_belong_together_may_be_missing(run, tmp_path):
    (tmp_path / "metrics.json").write_bytes((run / "metrics.json").read_bytes())
    page = Page(build(tmp_path))
    titles = {spec["title"] for spec in page.figures}
    assert titles == {"Right, class by class", "Right, batch by batch", "Probability and truth"}
    (tmp_path / "map.csv").write_text("id,x,y\n1,0.5,2\n2,1.5,\n")
    page = Page(build(tmp_path))
    assert page.figure("The test samples")["points"] == [[0.5, 2.0, 0, "1", "samples"]]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("held_out", "kind"), "luck", r"metrics\.json, held_out must have kind as one of batches, .*got 'luck'"),
        (("data", "n_train"), -1, r"metrics\.json, data must have n_train as a whole number >= 0, got -1"),
        (("data",), None, r"metrics\.json must have data as an object, got None"),
        (("test", "accuracy", "low"), 3, r"metrics\.json, test, accuracy must have low as a number from 0 to 1, got 3"),
        (("test", "accuracy", "high"), float("nan"), r"accuracy must have high as a number from 0 to 1, got nan"),
        (("test", "confusion"), [[1, 2]], r"test must have confusion as 5 rows of 5 whole numbers >= 0"),
        (("counts", "train"), [[1]], r"counts must have train as 5 rows of 5 whole numbers"),
        (("test", "per_class"), [3], r"test must have per_class as a list of objects, got 3"),
    ],
)
def test_a_faulty_file_is_named_with_the_place_in_it(other, path, value, message):
    def change(content):
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    with pytest.raises(ValueError, match=message):
        other(change)


def test_a_diagnosis_has_a_page_of_its_own_and_a_part_in_that_of_a_run(tmp_path):
    folder = diagnosed(tmp_path / "shift")
    page = Page(build(folder))
    assert "<h1>How the batches of cells.h5ad differ</h1>" in page.html
    assert build(folder / "diagnosis.json") == page.html
    shown = words(page.html)
    assert "The batches differ along a few directions. Second." in shown
    assert "gsat check cells.h5ad --label cell_type" in shown
    assert "The 20 pairs with the most samples, of 193." in shown
    points = page.figure("How much of the difference has which form")["choices"][0]["points"]
    assert [(point["row"], point["x"]) for point in points] == [
        ("one shift for all samples", 30), ("a few features", 10), ("a few directions", 102),
    ]  # fmt: skip
    assert page.data["series"] == []
    assert not page.all("img")
    both = judged_run(diagnosed(tmp_path / "both"))
    shown = words(build(both))
    assert shown.index("This model tells") < shown.index("How the batches differ The batches differ along")


def test_a_diagnosis_of_an_earlier_version_still_opens(tmp_path):
    content = json.loads((diagnosed(tmp_path) / "diagnosis.json").read_text())
    for key in ("summary", "next", "about"):
        del content[key]
    for row in content["table"] + content["pairs"]:
        del row["what"]
    write_json(tmp_path / "diagnosis.json", content)
    shown = words(build(tmp_path))
    assert "The structure of the shift between the batches: low-rank; its size: 0.5 times E‖X‖." in shown


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("structure", 3, r"diagnosis\.json must be what `gsat diagnose --out` writes"),
        ("size", None, r"diagnosis\.json must have size as a number, got None"),
        ("pairs", [1], r"diagnosis\.json must have pairs as a list of objects"),
    ],
)
def test_a_faulty_diagnosis_is_named(tmp_path, key, value, message):
    content = json.loads((diagnosed(tmp_path) / "diagnosis.json").read_text())
    write_json(tmp_path / "diagnosis.json", {**content, key: value})
    with pytest.raises(ValueError, match=message):
        build(tmp_path)


def test_text_from_these_files_is_never_markup(tmp_path):
    page = Page(build(judged_run(diagnosed(tmp_path / "run", HOSTILE), text=HOSTILE)))
    assert "<script>window" not in page.html
    assert not [attributes for _, attributes in page.elements if any(name.startswith("on") for name in attributes)]
    assert not page.all("img")
    assert len(page.all("script")) == 3
    assert sum(HOSTILE in text for text in page.texts) > 30
