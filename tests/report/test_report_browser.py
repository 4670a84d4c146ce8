"""The report in a browser: it draws, it answers to mouse and keyboard, and it asks the network for nothing."""

import csv
import io
import json
import os
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect, sync_playwright
from test_report_checked import content

import gsat
from gsat.report import build
from result_folders import HOSTILE, comparison, diagnosed, experiment, hostile, judged_run, write_json

ROOT = Path(__file__).parents[2]
NAMES = ("experiment", "comparison", "hostile", "set", "results", "run", "shift", "hostile-run")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 600_000  # milliseconds: a page that takes so long hangs


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        reason = "Chromium is missing; to get it: apt-get install chromium"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


class Opened:
    """A page, and what it said and asked for since it was opened."""

    def __init__(self, browser, path: Path, **options) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]")

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()

    def drawn(self) -> dict[str, int]:
        """The number of marks in each figure, by its id."""
        marks = ".plot [data-series] :is(path, rect, line, circle), .plot image"
        script = "(all, marks) => Object.fromEntries(all.map(one => [one.id, one.querySelectorAll(marks).length]))"
        return self.page.eval_on_selector_all("figure.chart", script, marks)


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for make in (experiment, comparison, hostile):
        make(folder / make.__name__)
    judged_run(diagnosed(folder / "run"))
    diagnosed(folder / "shift")
    judged_run(diagnosed(folder / "hostile-run", HOSTILE), text=HOSTILE)
    shutil.copytree(folder / "experiment", folder / "set" / "one")
    shutil.copytree(folder / "comparison", folder / "set" / "two")
    sources = {path.name: path for path in folder.iterdir()} | {"results": ROOT / "results"}
    found = {}
    for name, source in sources.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(build(source), encoding="utf-8")
    return found


@pytest.fixture
def opened(browser, pages, request):
    marker = request.node.get_closest_marker("parametrize")
    name = request.getfixturevalue("name") if marker and "name" in str(marker.args[0]) else "experiment"
    page = Opened(browser, pages[name])
    yield page
    page.context.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_opens_without_errors_and_draws_every_figure(opened, pages, name):
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith(("data:", "blob:"))] == [pages[name].as_uri()]
    marks = opened.drawn()
    assert marks
    assert [figure for figure, number in marks.items() if number == 0] == []


def test_the_demo_ends_with_a_page_that_opens(browser, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from gsat.cli import app
    from gsat.experiments import demonstration

    monkeypatch.setattr(demonstration, "DEFENCES", ("pgd", "low-rank"))

    def quick(model, X, y, attacks, *, strength):  # the page is asked after, not the numbers
        return gsat.evaluate(model, X, y, {name: replace(one, steps=3) for name, one in attacks.items()})

    monkeypatch.setattr(demonstration, "evaluate", quick)
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "d"), "--n-outer", "4"])
    assert result.exit_code == 0, result.output
    page = Opened(browser, tmp_path / "d" / "report.html")
    assert page.said == []
    kinds = ("line", "scatter", "image", "bars")
    assert {kind: page.count(f"figure.{kind} .plot > svg") for kind in kinds} == {
        "line": 4 + 1 + 4,  # attacks, spectrum, training
        "scatter": 1,
        "image": 1 + 2 * 2,
        "bars": 1,
    }
    assert min(page.drawn().values()) > 0
    page.context.close()


@pytest.mark.parametrize(("name", "pictures"), [("hostile", 1), ("hostile-run", 0)])
def test_text_from_files_does_nothing(browser, pages, name, pictures):
    page = Opened(browser, pages[name])
    for button in page.page.locator(".keys button").all():
        button.hover()
    for plot in page.page.locator(".plot").all():
        plot.focus()
        page.page.keyboard.press("ArrowRight")
    for details in page.page.locator("main details summary").all():
        details.click()
    assert page.page.evaluate("window.hacked") is None
    assert page.said == []
    assert page.count("main img") == pictures  # by its data
    page.context.close()


def test_a_press_on_a_defence_hides_its_curves(opened):
    curves = "figure.line [data-series='erm'] path"
    everything = opened.count(curves)
    assert everything > 0
    others = opened.count("figure.line [data-series='pgd'] path")
    button = opened.page.locator(".keys button", has_text="ERM")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert opened.count(curves) == 0
    assert opened.count(".scatter [data-series='erm']") == 0
    assert opened.count("figure.line [data-series='pgd'] path") == others
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert opened.count(curves) == everything


def test_the_keyboard_reaches_the_defences(opened):
    page = opened.page
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.series") == "pgd":
            break
    else:
        pytest.fail("Tab never comes to the defence")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Space")
    assert opened.count("figure.line [data-series='pgd']") == 0
    page.keyboard.press("Shift+Enter")
    assert opened.count("figure.line [data-series='erm']") == 0
    assert opened.count("figure.line [data-series='pgd']") > 0
    page.locator(".legend .all").click()
    assert opened.count("figure.line [data-series='erm']") > 0


def test_values_are_read_by_pointer_and_by_arrow_keys(opened):
    page, figure = opened.page, opened.page.locator("figure", has_text="Low-rank attack").first
    plot = figure.locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 60)
    tip = figure.locator(".tip")
    assert tip.locator("b").inner_text() == "rank (directions): 4"
    assert tip.locator("div").all_inner_texts()[0].split("\n") == ["GSAT low-rank", "76.0 ± 1.0"]
    page.mouse.move(0, 0)
    assert tip.count() == 0
    plot.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert tip.locator("b").inner_text() == "rank (directions): 1"
    assert (
        page.locator(".status").inner_text()
        == "rank (directions): 1. GSAT low-rank 91.0 ± 1.0, PGD 86.0 ± 1.0, ERM 76.0 ± 1.0"
    )
    page.keyboard.press("Escape")
    assert tip.count() == 0


def test_tables_sort_both_ways_with_gaps_last(opened):
    opened.page.locator("#report-tables summary").click()
    table = opened.page.locator("table", has_text="differences.csv")
    header = table.locator("th", has_text="standard_error")

    def column():
        return table.locator("tbody tr td:nth-child(5)").all_inner_texts()

    assert column() == ["1", "2", "–"]
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert column() == ["2", "1", "–"]
    header.locator("button").press("Enter")
    assert (header.get_attribute("aria-sort"), column()) == ("ascending", ["1", "2", "–"])
    table.locator("th", has_text="baseline").locator("button").click()
    assert table.locator("tbody tr td:nth-child(2)").all_inner_texts() == ["erm", "pgd", "pgd"]
    assert header.get_attribute("aria-sort") == "none"


def test_a_choice_changes_the_figure(opened):
    figure = opened.page.locator("figure.scatter")
    before = figure.locator(".plot > svg").inner_html()
    figure.locator("select").select_option(label="PGD attack, eps: 1")
    assert figure.locator(".plot > svg").inner_html() != before


def saved(page, figure, kind: str) -> str:
    with page.expect_download() as download:
        figure.locator(f"[data-save={kind}]").click()
    return download.value.path().read_text(encoding="utf-8")


def test_figures_are_saved_as_svg_that_stands_alone(opened):
    opened.page.locator(".keys button", has_text="ERM").click()
    for kind in ("line", "scatter", "forest", "bars"):
        text = saved(opened.page, opened.page.locator(f"figure.{kind}").first, "svg")
        root = ElementTree.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in text
        assert "light-dark" not in text
        texts = " ".join("".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text"))
        assert "GSAT low-rank" in texts or kind == "bars"
        assert "ERM" not in texts or kind == "bars"


def test_figures_are_saved_as_csv(opened):
    figure = opened.page.locator("figure", has_text="Low-rank attack").first
    rows = list(csv.reader(io.StringIO(saved(opened.page, figure, "csv"))))
    assert rows[0] == ["defence", "rank (directions)", "accuracy, %", "standard deviation", "seeds"]
    assert rows[1] == ["erm", "0", "96", "1", "3"]
    assert len(rows) == 1 + 3 * 4


def test_no_formula_is_saved(browser, pages):
    page = Opened(browser, pages["hostile"])
    text = saved(page.page, page.page.locator("figure.line").first, "csv")
    names = {row[0] for row in csv.reader(io.StringIO(text))}
    assert "'=cmd()" in names
    page.context.close()


def test_dark_mode_follows_the_system_and_the_switch(browser, pages):
    page = Opened(browser, pages["experiment"], color_scheme="dark")

    def look():
        return page.page.evaluate("""() => [
            getComputedStyle(document.body).backgroundColor,
            getComputedStyle(document.querySelector("figure.line [data-series='low-rank'][stroke]")).stroke,
            document.querySelector("figure.image image").getAttribute("href"),
        ]""")

    dark = look()
    switch = page.page.locator("button.theme")
    assert switch.get_attribute("aria-pressed") == "true"
    switch.click()
    light = look()
    assert all(a != b for a, b in zip(dark, light, strict=True))
    assert light[0] == "rgb(250, 250, 248)"
    page.page.reload()
    page.page.wait_for_selector("html[data-ready]")
    assert look() == light  # kept
    page.context.close()


@pytest.mark.parametrize("name", NAMES)
def test_narrow_screens_do_not_scroll_sideways(browser, pages, name):
    page = Opened(browser, pages[name], viewport={"width": 768, "height": 800}, is_mobile=True)
    page.page.eval_on_selector_all("details summary", "all => all.forEach(one => one.click())")
    assert page.count("details:not([open])") == 0
    for width in (768, 390, 320):  # as a window that becomes narrower: what is too wide for one stays to be seen
        page.page.set_viewport_size({"width": width, "height": 800})
        page.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


BROKEN = """() => {
  const found = [0, []];
  const walker = document.createTreeWalker(document.querySelector("header"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    for (const match of node.data.matchAll(/--[a-z][a-z-]*/g)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      found[0] += 1;
      if (new Set([...range.getClientRects()].map(({ top }) => top)).size > 1) found[1].push(match[0]);
    }
  return found;
}"""


def test_options_are_not_broken_where_lines_are(browser, tmp_path):
    run = judged_run(tmp_path / "run")
    found = json.loads((run / "metrics.json").read_text())
    text = "take a larger --n-outer or --eta0, or --class-weight balanced (--test-batch, --test-fraction); "
    found["warnings"] = [text * 5, f"x {text * 5}"]
    found["held_out"]["why"] = text * 5
    write_json(run / "metrics.json", found)
    (tmp_path / "x.html").write_text(build(run), encoding="utf-8")
    page = Opened(browser, tmp_path / "x.html")
    for width in range(320, 900, 20):
        page.page.set_viewport_size({"width": width, "height": 800})
        assert page.page.evaluate(BROKEN) == [75, []]
    page.context.close()


def test_the_table_of_a_check_is_seen_whole(browser, tmp_path):
    names = [f"method {place}" for place in range(23)]
    rows = {"difference": None, "low": None, "high": None, "beats": False, "whole_batch": 0, "candidates": 3}
    table = [{"method": name, "mean": 50.0 + place, **rows} for place, name in enumerate(names)]
    units = [{"method": name, "lab 1": 50.0 + place} for place, name in enumerate(names)]
    write_json(tmp_path / "metrics.json", content(table=table, batches=units))
    write_json(tmp_path / "config.json", {"title": "Check of x.csv"})
    (tmp_path / "x.html").write_text(build(tmp_path), encoding="utf-8")
    page = Opened(browser, tmp_path / "x.html")
    box = page.page.locator(".scroll").first
    assert box.locator("tbody tr").count() == 23
    assert box.locator("tbody tr").last.locator("strong").count() == 2  # the best mean, and the best of the batch
    assert box.evaluate("box => box.scrollHeight - box.clientHeight") == 0
    page.context.close()


def test_a_new_width_draws_the_figures_anew(opened):
    plot = opened.page.locator("figure.line .plot > svg").first
    before = plot.get_attribute("width")
    opened.page.set_viewport_size({"width": 420, "height": 800})
    expect(plot).not_to_have_attribute("width", before, timeout=PATIENCE)  # unlike a script, which the page may forbid
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 420


def test_on_paper_the_legend_is_with_the_figures(browser, pages):
    page = Opened(browser, pages["set"], color_scheme="dark")
    page.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.page.emulate_media(media="print")
    assert page.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    keys = page.page.locator("#section-1-curves .printed-keys")
    assert keys.is_visible()
    assert keys.locator(".key").all_inner_texts() == ["ERM", "PGD", "GSAT low-rank"]
    assert page.page.locator("#section-1-settings table").is_visible()
    assert not page.page.locator("#section-1-tables").is_visible()
    assert not page.page.locator("nav").is_visible()
    page.page.emulate_media(media="screen")
    page.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.count(".printed-keys") == 0
    page.context.close()


def test_everything_that_can_be_used_has_a_name(opened):
    unnamed = """nodes => nodes.filter(node => !(node.getAttribute("aria-label") || node.textContent.trim()
        || node.labels?.length || node.title)).map(node => node.outerHTML.slice(0, 80))"""
    assert (
        opened.page.eval_on_selector_all(
            "button, select, a, summary, [tabindex='0'], [role]:not([role=status])", unnamed
        )
        == []
    )
    levels = opened.page.eval_on_selector_all("h1, h2, h3, h4", "nodes => nodes.map(node => Number(node.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert opened.page.evaluate("document.documentElement.lang") == "en"


@pytest.fixture
def run_page(browser, pages):
    page = Opened(browser, pages["run"])
    yield page
    page.context.close()


def test_samples_on_the_map_are_read_and_saved(run_page):
    figure = run_page.page.locator("figure.map", has_text="Right or wrong")
    figure.locator(".plot").focus()
    run_page.page.keyboard.press("ArrowRight")
    said = run_page.page.locator(".status").inner_text()
    assert re.fullmatch(r"cell \d+\. (right|\w+ taken for \w+) ?", said)
    rows = list(csv.reader(io.StringIO(saved(run_page.page, figure, "csv"))))
    assert rows[0] == ["id", "Right or wrong", "first principal component", "second principal component"]
    assert len(rows) == 301
    root = ElementTree.fromstring(saved(run_page.page, figure, "svg"))
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Right or wrong", "right", "wrong"} <= set(texts)
    assert run_page.count("figure.map:has-text('Where the adversary pushes') g[aria-label=arrow] path") == 80


def test_shares_and_probabilities_are_read_with_their_intervals(run_page):
    status = run_page.page.locator(".status")
    interval = r"\d+\.\d \(\d+\.\d to \d+\.\d\)"
    for title, pattern in (
        ("Right, class by class", rf"HCC827 \(\d+\)\. GSAT low-rank {interval}"),
        ("Probability and truth", rf"probability that .*: \d+(\.\d+)?\. GSAT low-rank {interval}, \d+ samples"),
        ("The features that count most", r"GENE0\. part of the lead.* \d+(\.\d+)?, in how many of the halves \d+ %"),
        ("How much of the difference", r"one shift for all samples\. share 30\.0 \(20\.0 to 40\.0\)"),
    ):
        run_page.page.locator("figure", has_text=title).locator(".plot").focus()
        run_page.page.keyboard.press("ArrowRight")
        assert re.fullmatch(pattern, status.inner_text()), (title, status.inner_text())


def test_a_press_on_logistic_regression_leaves_the_model_alone(run_page):
    own, other = (f"figure.forest [data-series='{name}']" for name in ("low-rank", "logistic"))
    before = run_page.count(own)
    assert run_page.count(other) > 0
    run_page.page.locator(".keys button", has_text="Logistic regression").click()
    assert (run_page.count(own), run_page.count(other)) == (before, 0)


@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_of_a_figure_lies_on_another_or_is_cut_off(browser, pages, width):
    page = Opened(browser, pages["run"], viewport={"width": width, "height": 900})
    faults = page.page.evaluate("""() => {
        const found = [];
        for (const figure of document.querySelectorAll("figure.chart")) {
            const frame = figure.getBoundingClientRect();
            const boxes = [...figure.querySelectorAll(".plot > svg text")]
                .filter((node) => node.textContent.trim())
                .map((node) => ({ text: node.textContent, box: node.getBoundingClientRect() }));
            for (const { text, box } of boxes)
                if (box.left < frame.left - 1 || box.right > frame.right + 1) found.push(`${figure.id} cut: ${text}`);
            boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
                const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
                const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
                if (across > 1 && down > 4) found.push(`${figure.id}: ${a.text} | ${b.text}`);
            }));
        }
        return found;
    }""")
    page.context.close()
    assert faults == []
