"""The page: one HTML file with its style, its scripts and its data inside, which asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from gsat.report import series as names
from gsat.report.figures import Figures
from gsat.report.markup import Markup, join, script_json, tag
from gsat.report.reading import Result, find, read, read_config
from gsat.report.sections import Part, heading, introduction, parts

STYLES = ("theme.css", "layout.css", "figures.css", "tables.css", "print.css")
CHARTS = ("line.js", "scatter.js", "forest.js", "bars.js", "image.js", "map.js")
SCRIPTS = (
    "state.js",
    "draw.js",
    *(f"charts/{name}" for name in CHARTS),
    "reading.js",
    "saving.js",
    "tables.js",
    "page.js",
)
VENDOR = ("vendor/d3.min.js", "vendor/plot.umd.min.js")
MARK = "<!-- A report of gsat. -->"


def build(folder: str | Path) -> str:
    """The report of a run, of an experiment, or of a folder of those.

    Parameters
    ----------
    folder
        The folder with the result files that `gsat.report` lists, or with folders of them.

    Returns
    -------
    str
        The text of an HTML file that needs no other file and no network.
    """
    folder = Path(folder)
    results = [read(path) for path in find(folder)]
    single = len(results) == 1 and results[0].path == folder
    figures = Figures()
    contents: list[tuple[str, Result, list[Part]]] = []
    for index, result in enumerate(results, 1):
        key = "report" if single else f"section-{index}"
        contents.append((key, result, parts(result, figures, key, 2 if single else 3)))
    titles = {name: title for _, result, _ in contents for name, title in result.names.items()}
    if single:
        title, opening = heading(results[0]), introduction(results[0])
        main = join(*(_part(part, 2) for part in contents[0][2]))
    else:
        top = Result(folder, read_config(folder))
        title, opening = str(top.config.get("title") or f"Results in {top.name}"), introduction(top)
        main = join(*(_section(key, result, own) for key, result, own in contents))
    data = {"series": _series(figures.series(), titles), "figures": figures.specs}
    return _page(title, opening, _contents(contents, single), main, data)


def is_report(path: Path) -> bool:
    """Whether a file was written by this module."""
    with path.open("rb") as file:
        return MARK.encode() in file.read(200)


def _section(key: str, result: Result, own: list[Part]) -> Markup:
    return tag(
        "section",
        tag("h2", heading(result)),
        introduction(result),
        *(_part(part, 3) for part in own),
        class_="result",
        id=key,
    )


def _part(part: Part, level: int) -> Markup:
    title = tag(f"h{level}", part.title)
    if part.folded:
        return tag("details", tag("summary", title), part.body, class_="part", id=part.id)
    return tag("section", title, part.body, class_="part", id=part.id)


def _contents(contents: list[tuple[str, Result, list[Part]]], single: bool) -> Markup:
    def entries(own: list[Part]) -> Markup:
        return tag("ul", *(tag("li", tag("a", part.title, href=f"#{part.id}")) for part in own))

    if single:
        return entries(contents[0][2])
    return tag(
        "ol",
        *(
            tag("li", tag("a", heading(result), href=f"#{key}"), entries([part for part in own if not part.folded]))
            for key, result, own in contents
        ),
    )


def _series(keys: list[str], titles: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "key": key,
            "title": names.title(key, titles),
            "slot": style.slot,
            "dash": style.dash,
            "symbol": style.symbol,
            "ours": style.ours,
        }
        for key, style in names.styles(keys).items()
    ]


def _page(title: str, opening: Markup, contents: Markup, main: Markup, data: dict[str, Any]) -> str:
    vendor = [f"/*\n{_assets(['vendor/LICENSES.txt'])}*/", _assets(VENDOR)]
    own = "(() => {\n'use strict';\n" + _assets(SCRIPTS) + "})();\n"
    scripts = ["\n".join(vendor), own]
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    colours = "".join(f"--s{slot}: light-dark({light}, {dark});" for slot, (light, dark) in enumerate(names.PALETTE))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content="gsat report"),
        tag("title", title),
        tag("style", Markup(f":root {{ {colours} }}\n{_assets(STYLES)}")),
    )
    legend = tag(
        "div",
        tag("div", class_="keys", role="group", aria_label="Models: show or hide"),
        tag("button", "Show all", type="button", class_="all", hidden=True),
        class_="legend",
    )
    body = tag(
        "body",
        tag("a", "To the results", class_="skip", href="#main"),
        tag(
            "header",
            tag("div", tag("h1", title), tag("button", "Dark", type="button", class_="theme", aria_pressed="false")),
            opening,
            tag("noscript", tag("p", "The figures need JavaScript; the tables below hold the same numbers.")),
        ),
        tag("nav", tag("details", tag("summary", "Contents"), contents), aria_label="Contents"),
        tag("main", legend, main, id="main", tabindex=-1),
        tag("footer", tag("p", "Written by ", tag("code", "gsat report"), ". Figures: Observable Plot and D3.")),
        tag("div", class_="hidden status", role="status", aria_live="polite"),
        tag("script", script_json(data), id="data", type="application/json"),
        *(tag("script", Markup(text)) for text in scripts),
    )
    return f"<!doctype html>\n{MARK}\n" + tag("html", head, body, lang="en") + "\n"


def _assets(names: Iterable[str]) -> str:
    folder = files("gsat.report").joinpath("assets")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
