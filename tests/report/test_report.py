"""The report as a function of files: what is shown, and what is escaped."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gsat.report
from gsat.report import build
from gsat.report.curves import panels
from gsat.report.plots import differences
from gsat.report.reading import read
from gsat.report.series import styles
from result_folders import HOSTILE, comparison, experiment, hostile, write_json

ASSETS = Path(gsat.report.__file__).parent / "assets"


class Page(HTMLParser):
    """The elements of a page with their attributes, the text, and the data of the figures."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html, self.elements, self.texts, self.scripts, self._inside = html, [], [], [], None
        self.feed(html)
        self.data = json.loads(self.scripts[0])
        self.figures = list(self.data["figures"].values())

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        self._inside = name

    def handle_data(self, data):
        (self.scripts if self._inside == "script" else self.texts).append(data)

    def handle_endtag(self, name):
        self._inside = None

    def all(self, name):
        return [attributes for element, attributes in self.elements if element == name]

    def figure(self, title):
        (found,) = [spec for spec in self.figures if spec["title"] == title]
        return found


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Page:
    return Page(build(experiment(tmp_path_factory.mktemp("report") / "experiment")))


def points(spec, defence):
    (line,) = [line for line in spec["lines"] if line["series"] == defence]
    return line["points"]


def test_every_part_has_an_entry_in_the_contents(page):
    ids = {a["id"] for name, a in page.elements if name in ("section", "details") and "id" in a}
    parts = ("summary", "curves", "trade-off", "differences", "perturbations", "training", "timing")
    assert ids == {f"report-{part}" for part in (*parts, "tables", "settings")}
    assert {link["href"] for link in page.all("a")} == {"#main", *(f"#{key}" for key in ids)}
    assert {"An experiment", "The paper: 91\u00a0%", "Here: 92\u00a0%", "First.", "Second.", "gsat something"} <= set(
        page.texts
    )


def test_every_figure_has_an_element(page):
    ids = [figure["id"] for figure in page.all("figure")]
    assert ids == list(page.data["figures"])
    assert len(ids) == 2 + 1 + 1 + 5 + 2 + 1  # curves, trade-off, differences, perturbations, training, timing


def test_curves_start_without_attack_and_carry_mean_spread_and_seeds(page):
    spec = page.figure("Low-rank attack")
    assert points(spec, "erm") == [
        [0, pytest.approx(96.0), pytest.approx(1.0), 3],
        [1, pytest.approx(76.0), pytest.approx(1.0), 3],
        [2, pytest.approx(56.0), pytest.approx(1.0), 3],
        [4, pytest.approx(16.0), pytest.approx(1.0), 3],
    ]
    assert spec["x_label"] == "rank (directions)"
    assert [x for x, *_ in points(page.figure("PGD attack"), "pgd")] == [0, 0.5, 1]


def test_curves_side_by_side_share_their_axis(page):
    curves = [spec for spec in page.figures if spec.get("domain")]
    assert [spec["domain"] for spec in curves] == [[0, 100]] * 2


def test_the_trade_off_has_each_attack_and_their_mean(page):
    spec = page.figure("Clean against robust accuracy")
    assert [choice["label"] for choice in spec["choices"]] == [
        "mean of 2 attacks", "Low-rank attack, rank (directions): 4", "PGD attack, eps: 1",
    ]  # fmt: skip
    (erm,) = [point for point in spec["choices"][0]["points"] if point["series"] == "erm"]
    assert (erm["x"], erm["y"]) == (pytest.approx(96), pytest.approx((16 + 76) / 2))
    assert len(erm["seeds"]) == 3


def test_the_summary_has_the_strongest_attacks_and_the_best_in_bold(page):
    table = page.html[page.html.index('id="report-summary"') : page.html.index('id="report-curves"')]
    rows = re.findall(r'data-key="([^"]+)".*?</tr>', table)
    assert rows == ["erm", "pgd", "low-rank"]
    (low_rank,) = re.findall(r'data-key="low-rank".*?</tr>', table)
    assert re.findall(r"<strong>([^<]+)</strong>", low_rank) == ["96.0 ± 1.0", "76.0 ± 1.0", "91.0 ± 1.0"]
    (erm,) = re.findall(r'data-key="erm".*?</tr>', table)
    assert re.findall(r"<strong>([^<]+)</strong>", erm) == ["96.0 ± 1.0"]  # all are the same without attack
    assert [float(v) for v in re.findall(r'data-value="([\d.]+)"', erm)] == pytest.approx([96, 16, 76])
    assert re.search(r"mean ± standard deviation over 3 seeds", table)


def test_differences_put_pgd_first_and_say_the_cases_in_words(page):
    spec = page.figure("Paired differences")
    assert [choice["label"] for choice in spec["choices"]] == ["PGD", "ERM"]
    assert spec["choices"][0]["points"] == [
        {"series": "low-rank", "row": "low-rank, rank 4, eps 0.1", "x": 20.0, "reach": 6.0},
        {"series": "low-rank", "row": "without attack", "x": -0.5, "reach": None},
    ]


def test_differences_of_earlier_versions_have_twice_their_standard_error():
    frame = pd.DataFrame({"ours": ["low-rank"], "baseline": ["pgd"], "difference": [3.0], "standard_error": [2.0]})
    spec = differences(frame, {})
    assert spec["choices"][0]["points"][0]["reach"] == 4
    assert spec["x_label"].endswith("± 2 standard errors")
    spec = differences(frame.assign(low=-1.0, high=7.0), {})
    assert spec["choices"][0]["points"][0]["reach"] == 4
    assert spec["x_label"].endswith("95 % interval")


def test_images_of_one_title_share_their_scale(page):
    erm, pgd = (spec for spec in page.figures if spec.get("context") == "Shift")
    assert (erm["limit"], pgd["limit"]) == (1.0, 1.0)
    assert (erm["height"], erm["width"], erm["channels"], erm["signed"]) == (3, 4, 1, True)
    assert max(pgd["values"]) == 0.5


def test_channels_come_last(page):
    (spec,) = [s for s in page.figures if s.get("context") == "Colours"]
    grid = np.linspace(-1, 1, 12).round(3).reshape(3, 2, 2)
    assert (spec["height"], spec["width"], spec["channels"]) == (2, 2, 3)
    assert spec["values"] == pytest.approx(grid.transpose(1, 2, 0).ravel().tolist())


def test_bars_and_singular_values_are_in_order(page):
    (genes,) = [s for s in page.figures if s.get("context") == "Genes"]
    assert [(bar["name"], bar["value"]) for bar in genes["bars"]] == [("EGFR", -1.5), ("TP53", 0.2)]
    (spectrum,) = [s for s in page.figures if s.get("context") == "Directions"]
    assert [(k, value) for k, value, *_ in points(spectrum, "pgd")] == [(1, 3.0), (2, 2.0), (3, 1.0)]


def test_training_curves_are_means_of_bins(page):
    spec = page.figure("Loss on the perturbed samples")
    assert spec["x_label"] == "step (means of 3)"
    found = points(spec, "pgd")
    assert len(found) == 84
    assert found[1][:2] == [3, pytest.approx(np.mean([2 / (1 + t) for t in (3, 4, 5)]), rel=1e-4)]
    assert spec["log"]
    assert not any("λ" in spec["title"] for spec in page.figures)  # all missing: no figure


def test_timing_has_ratios_to_pgd(page):
    bars = page.figure("One step")["bars"]
    assert [(bar["series"], bar["value"], bar["ratio"]) for bar in bars] == [
        ("pgd", 0.02, 1.0),
        ("low-rank", 0.03, 1.5),
    ]


def test_a_comparison_puts_what_differs_on_the_axis(tmp_path):
    found = {panel.name: panel for panel in panels(read(comparison(tmp_path)))}
    assert {name: sorted(set(panel.rows["x"])) for name, panel in found.items()} == {
        "Universal attack": [0, 0.05, 0.2],
        "Low-rank attack · eps = 0.2·E‖X‖": [0, 1, 3],
        "Group-sparse attack · 50 columns": [0, 0.05, 0.2],
        "Universal attack, one for all samples": [0, 0.2],
    }
    means = found["Universal attack"].means().set_index(["series", "x"])["mean"]
    assert means["erm", 0.2] == pytest.approx(40)  # test rows only
    assert found["Universal attack"].trade_off()["x"].tolist() == [85] * 4  # of the very model that was attacked


def test_settings_get_panels_of_their_own(tmp_path):
    rows = [
        {"data": data, "rule": rule, "defence": "pgd", "attack": attack, "strength": k, "seed": 0, "accuracy": accuracy}
        for data, base in (("mnist", 0.9), ("cifar10", 0.6))
        for rule in ("matched", "tuned")
        for attack, k, accuracy in (("none", 0, base), ("group-sparse", 50, base - 0.3))
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "results.csv", index=False)
    found = {panel.name: panel.means()["mean"].tolist() for panel in panels(read(tmp_path))}
    assert {name: np.round(values).tolist() for name, values in found.items()} == {
        "Group-sparse attack · mnist · matched": [90, 60],
        "Group-sparse attack · mnist · tuned": [90, 60],
        "Group-sparse attack · cifar10 · matched": [60, 30],
        "Group-sparse attack · cifar10 · tuned": [60, 30],
    }


def test_sizes_of_one_attack_are_not_mixed(tmp_path):
    rows = [("none", 0, 0, 0.9), *(("low-rank", k, eps, 0.9 - eps * k) for eps in (0.1, 0.2) for k in (1, 2))]
    table = pd.DataFrame(rows, columns=["attack", "strength", "eps", "accuracy"])
    table.to_csv(tmp_path / "results.csv", index=False)
    write_json(tmp_path / "config.json", {"data": "digits", "defence": "low-rank"})
    found = {panel.name: panel.rows["y"].round(6).tolist() for panel in panels(read(tmp_path))}
    assert {name: sorted(values) for name, values in found.items()} == {
        "Low-rank attack · eps = 0.1": [70, 80, 90],
        "Low-rank attack · eps = 0.2": [50, 70, 90],
    }


def test_settings_that_would_be_mixed_are_told_apart(tmp_path):
    rows = [("pgd", alpha, k, 0.9 - alpha * k) for alpha in (0.1, 0.3) for k in (0, 1, 2)]
    table = pd.DataFrame(rows, columns=["defence", "alpha", "strength", "accuracy"])
    table.assign(attack="low-rank").to_csv(tmp_path / "results.csv", index=False)
    assert [panel.detail for panel in panels(read(tmp_path))] == ["alpha 0.1", "alpha 0.3"]


def test_hints_choose_the_axes(tmp_path):
    table = pd.DataFrame({"lam": [0.1, 1.0, 10.0], "alpha": 0.5, "accuracy": [0.5, 0.7, 0.6], "loss": [3.0, 2.0, 1.0]})
    table.to_csv(tmp_path / "sweep.csv", index=False)
    (tmp_path / "log.jsonl").write_text('{"t": 0, "loss": 1.0}\n')
    hint = {"table": "sweep", "x": "lam", "x_label": "λ", "x_scale": "log", "series": "alpha", "title": "Sweep"}
    write_json(tmp_path / "config.json", {"report": [hint, {**hint, "y": "loss"}], "names": {"0.5": "α = ½"}})
    page = Page(build(tmp_path))
    accuracy, loss = page.figures
    assert (accuracy["x_label"], accuracy["log_x"], accuracy["y_label"]) == ("λ", True, "accuracy, %")
    assert [point[:2] for point in points(accuracy, "0.5")] == [[0.1, 50], [1, 70], [10, 60]]
    assert [point[1] for point in points(loss, "0.5")] == [3, 2, 1]
    assert [entry["title"] for entry in page.data["series"]] == ["α = ½"]


def test_the_same_defence_looks_the_same_everywhere():
    one, other = styles(["erm", "lasso", "low-rank"]), styles(["gsat-lr", "low-rank", "erm", "universal"])
    assert one["erm"] == other["erm"]
    assert one["low-rank"] == other["low-rank"] == other["gsat-lr"]


def test_unknown_defences_are_told_apart():
    keys = ["erm", "fgm", "pgd", "universal", "group-sparse", "low-rank", *(f"method {i}" for i in range(12))]
    found = styles(keys)
    assert list(found) == keys
    assert len({(style.slot, style.dash, style.symbol) for style in found.values()}) == len(keys)
    assert len({style.slot for style in styles(keys[:8]).values()}) == 8  # as long as there are colours, each its own


def test_several_results_become_one_page(tmp_path):
    experiment(tmp_path / "set" / "b-second")
    comparison(tmp_path / "set" / "a-first")
    (tmp_path / "set" / "empty").mkdir()
    write_json(tmp_path / "set" / "config.json", {"title": "The full set", "notes": "All of it."})
    page = Page(build(tmp_path / "set"))
    assert [a["id"] for a in page.all("section") if a["class"] == "result"] == ["section-1", "section-2"]
    headings = re.findall(r"<h2>([^<]+)</h2>", page.html)
    assert headings == ["Defences on mnist, tuned sizes", "An experiment"]
    ids = {attributes.get("id") for _, attributes in page.elements}
    links = [link["href"][1:] for link in page.all("a")]
    assert set(links) <= ids
    assert {"section-1", "section-2", "section-2-training"} <= set(links)
    assert {"The full set", "All of it."} <= set(page.texts)
    assert [entry["key"] for entry in page.data["series"]] == ["erm", "low-rank", "pgd"]
    write_json(tmp_path / "set" / "config.json", {"sections": ["gone", "b-second"]})
    page = Page(build(tmp_path / "set"))
    assert re.findall(r"<h2>([^<]+)</h2>", page.html) == headings[::-1]


@pytest.mark.parametrize(
    ("more", "title"),
    [
        ({}, "GSAT low-rank on digits"),
        ({"combine": "best", "choice": [{}]}, "GSAT low-rank on digits"),
        ({"combine": "average", "choice": [{}, {}, {}]}, "The average of 3 models on digits"),
        ({"combine": "average", "choice": "abc"}, "GSAT low-rank on digits"),
    ],
)
def test_a_run_is_called_by_what_it_trained(tmp_path, more, title):
    write_json(tmp_path / "config.json", {"data": "digits", "defence": "low-rank", **more})
    (tmp_path / "log.jsonl").write_text('{"t": 0, "loss": 1.0}\n')
    assert f"<title>{title}</title>" in build(tmp_path)


def test_a_run_shows_all_its_attacks(tmp_path):
    write_json(tmp_path / "config.json", {"data": "digits", "defence": "low-rank"})
    row = {"attack": "pgd", "strength": 0.5, "eps": 0.5, "accuracy": 0.4, "n": 100}
    clean = {"attack": "none", "strength": 0.0, "eps": 0.0, "accuracy": 0.9, "n": 100}
    earlier = [clean, row]
    lines = [json.dumps({"key": "k", "row": row}) for row in earlier]
    (tmp_path / "evaluations.jsonl").write_text("\n".join(lines) + '\n{"key": "cut o')
    pd.DataFrame([clean, {**row, "attack": "low-rank", "strength": 2, "accuracy": 0.6}]).to_csv(
        tmp_path / "results.csv", index=False
    )
    found = {panel.title: panel.rows.set_index("x")["y"].to_dict() for panel in panels(read(tmp_path))}
    assert found == {"PGD attack": {0.5: 40, 0: 90}, "Low-rank attack": {2: 60, 0: 90}}
    harder = {**row, "search": "standard", "accuracy": 0.3}
    lines += [json.dumps({"key": "k", "row": each}) for each in (harder, {**row, "search": "fast"})]
    few = [{**clean, "n": 7, "accuracy": 1.0}, {**row, "n": 7}]
    lines += [json.dumps({"key": "k", "row": each}) for each in few]
    (tmp_path / "evaluations.jsonl").write_text("\n".join(lines))
    found = {panel.name: panel.rows.set_index("x")["y"].to_dict() for panel in panels(read(tmp_path))}
    assert found == {
        "PGD attack · 100 test samples": {0.5: 30, 0: 90},
        "PGD attack · 7 test samples": {0.5: 40, 0: 100},
        "Low-rank attack · 100 test samples": {2: 60, 0: 90},
    }
    (tmp_path / "evaluations.jsonl").write_text("\n".join(lines[:2]))
    (tmp_path / "model").mkdir()
    write_json(tmp_path / "model" / "model.json", {"fitted": {"mean_norm_": 5.0}})
    pgd = panels(read(tmp_path))[0]
    assert (pgd.x_label, sorted(pgd.rows["x"])) == ("size of the attack (1: mean norm of a sample)", [0, 0.1])
    assert "<h1>GSAT low-rank on digits</h1>" in build(tmp_path)


def test_an_attack_that_stands_in_both_files_is_shown_once(tmp_path):
    """Not as that of two seeds, whatever the last digits of its size."""
    write_json(tmp_path / "config.json", {"data": "digits", "defence": "low-rank"})
    row = {"attack": "universal", "strength": 1.5423271823343299, "eps": 1.5423271823343299, "accuracy": 0.5, "n": 30}
    (tmp_path / "evaluations.jsonl").write_text(json.dumps({"key": "k", "row": row}))
    pd.DataFrame([row, {**row, "attack": "none", "strength": 0.0, "eps": 0.0}]).to_csv(
        tmp_path / "results.csv", index=False
    )
    (panel,) = panels(read(tmp_path))
    assert panel.means()["count"].tolist() == [1, 1]
    assert "seeds" not in build(tmp_path).partition('<script id="data"')[0]


def test_one_rank_with_several_sizes_is_a_curve_over_the_sizes(tmp_path):
    write_json(tmp_path / "config.json", {"data": "digits", "defence": "low-rank"})
    row = {"attack": "low-rank", "strength": 5.0, "n": 30}
    sizes = ((0.5, 0.7), (1.5, 0.3), (2.0, 0.2))
    rows = [{**row, "eps": eps, "accuracy": accuracy} for eps, accuracy in sizes]
    pd.DataFrame([{**row, "attack": "none", "strength": 0, "eps": 0, "accuracy": 0.9}, *rows]).to_csv(
        tmp_path / "results.csv", index=False
    )
    (panel,) = panels(read(tmp_path))
    assert panel.name == "Low-rank attack · rank 5"
    assert panel.x_label == "eps"
    assert panel.rows.set_index("x")["y"].to_dict() == {0.5: 70, 1.5: 30, 2: 20, 0: 90}


def test_a_run_under_way_shows_its_training(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"t": 0, "loss": 2.0}\n{"t": 1, "loss": 1.0}\n{"t": 2, "lo')
    assert points(Page(build(tmp_path)).figure("Loss on the perturbed samples"), "model") == [
        [0, 2, None, 1],
        [1, 1, None, 1],
    ]


def test_long_tables_are_cut_and_say_so(tmp_path):
    pd.DataFrame({"strength": np.arange(1500) / 1500, "accuracy": 0.5}).to_csv(tmp_path / "results.csv", index=False)
    page = Page(build(tmp_path))
    assert "The first 1000 of 1500 rows; the file has them all." in page.texts
    assert page.html.count("<tr>") < 1010


def test_pictures_are_inside_and_large_ones_are_not(tmp_path):
    experiment(tmp_path)
    (tmp_path / "figure.png").write_bytes(b"\x89PNG")
    (tmp_path / "large.png").write_bytes(bytes(3_000_001))
    page = Page(build(tmp_path))
    assert [image["src"] for image in page.all("img")] == ["data:image/png;base64,iVBORw=="]
    assert "Too large for this page: large.png." in page.texts


def test_text_from_files_is_never_markup(tmp_path):
    page = Page(build(hostile(tmp_path / "hostile")))
    assert "<script>window" not in page.html
    assert not [attributes for _, attributes in page.elements if any(name.startswith("on") for name in attributes)]
    assert [image["src"][:26] for image in page.all("img")] == ["data:image/svg+xml;base64,"]
    assert len(page.all("script")) == 3
    assert page.data["series"][0]["key"] == HOSTILE  # kept as it is, as data
    assert page.texts.count(HOSTILE) > 10


def test_the_page_asks_the_network_for_nothing(page):
    assert not [a for name, a in page.elements if name in ("link", "iframe", "object", "embed", "base", "form")]
    assert not [a for _, a in page.elements if a.get("src", "data:").partition(":")[0] != "data"]
    assert not [a["href"] for _, a in page.elements if "href" in a and not a["href"].startswith("#")]
    (policy,) = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in page.scripts[1:]]
    assert re.findall(r"'sha256-([^']+)'", policy) == hashes  # no other script runs
    assert "script-src 'unsafe" not in policy


def test_the_page_is_a_function_of_the_files(tmp_path):
    experiment(tmp_path / "a")
    before = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert build(tmp_path / "a") == build(str(tmp_path / "a"))
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == before


def test_the_libraries_are_unchanged_and_carry_their_licences(page):
    notice = (ASSETS / "vendor" / "LICENSES.txt").read_text()
    for name in ("d3.min.js", "plot.umd.min.js"):
        assert hashlib.sha256((ASSETS / "vendor" / name).read_bytes()).hexdigest() in notice
    assert notice in page.html
    for path in ASSETS.rglob("*.js"):
        assert not re.search(r"</script|<!--", path.read_text(encoding="utf-8"), re.IGNORECASE), path
