"""The site has a place with an example for every public name, runs its code, and its check finds what is wrong."""

import ast
import importlib.util
import inspect
import re
import tomllib
from pathlib import Path

import pytest

import gsat

ROOT = Path(__file__).parents[1]
API = ROOT / "docs" / "api"
ROOMS = {"gsat": [name for name in gsat.__all__ if name not in gsat._ROOMS and name != "__version__"]}
ROOMS |= {f"gsat.{room}": list(getattr(gsat, room).__all__) for room in gsat._ROOMS}
NAMES = [(room, name) for room, names in ROOMS.items() for name in names]


def loaded(path):
    """A script of the docs, which are no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def references():
    """For each public name the pages that have its reference."""
    found = {}
    for page in sorted(API.glob("*.md")):
        room = "gsat"
        for line in page.read_text(encoding="utf-8").splitlines():
            if at := re.match(r"\.\. currentmodule:: (\S+)", line):
                room = at[1]
            elif at := re.match(r"\.\. auto(?:class|function):: (\S+)", line):
                found.setdefault((room, at[1]), []).append(page)
    return found


def used(page):
    """The names and attributes in the code of a page."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    nodes = list(ast.walk(ast.parse("\n".join(blocks))))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def test_every_public_name_has_one_place_and_nothing_else_has():
    found = references()
    assert {name for name in NAMES if name not in found} == set()
    assert {name for name in found if name not in NAMES} == set()
    assert {name: pages for name, pages in found.items() if len(pages) > 1} == {}


@pytest.mark.parametrize(
    "page", sorted({page for pages in references().values() for page in pages}), ids=lambda p: p.stem
)
def test_the_example_of_the_page_uses_every_name_on_it(page):
    wanted = {name for (_, name), pages in references().items() if page in pages}
    assert wanted - used(page) == set()
    assert "$" in page.read_text(encoding="utf-8")  # the equation


@pytest.mark.parametrize("name", NAMES, ids=".".join)
def test_every_public_name_says_what_it_takes(name):
    thing = getattr(importlib.import_module(name[0]), name[1])
    says = inspect.getdoc(thing)
    assert says
    takes = [one for one in inspect.signature(thing).parameters.values() if one.name not in ("args", "kwargs")]
    if takes:  # results are not made by users: they have attributes
        assert "\nParameters\n---" in says or "\nAttributes\n---" in says, name
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation not in (None, "None"):
        assert "\nReturns\n---" in says or "\nYields\n---" in says, name


def test_the_tutorials_are_listed_and_end_with_what_to_try_next():
    folder = ROOT / "docs" / "tutorials"
    index = (folder / "index.md").read_text(encoding="utf-8")
    pages = sorted(page for page in folder.glob("*.md") if page.stem != "index")
    assert len(pages) >= 7
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.startswith("---\nfile_format: mystnb\n"), page.name
        assert f"({page.name})" in index
        assert f"\n{page.stem}\n" in index
        assert re.findall(r"^## (.*)$", text, re.MULTILINE)[-1] == "What to try next", page.name


def test_the_check_of_the_site_finds_what_is_wrong(tmp_path):
    check = loaded(ROOT / "docs" / "check_site.py")
    good = '<a href="b.html#here">b</a> <a href="https://elsewhere.org">out</a> <img src="p.png">'
    (tmp_path / "a.html").write_text(good, encoding="utf-8")
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1> <a href="#here">up</a>', encoding="utf-8")
    (tmp_path / "p.png").write_bytes(b"")
    (tmp_path / "s.css").write_text("body { background: url(p.png) }", encoding="utf-8")
    assert check.faults(tmp_path) == []
    assert check.main(tmp_path) == 0
    bad = '<a href="b.html#gone">b</a> <a href="c.html">c</a> <img src="q.png"> <script src="https://cdn.org/x.js"></script>'
    (tmp_path / "a.html").write_text(bad, encoding="utf-8")
    (tmp_path / "s.css").write_text("@font-face { src: url('https://fonts.org/f.woff') }", encoding="utf-8")
    assert sorted(check.faults(tmp_path)) == [
        "a.html fetches https://cdn.org/x.js from a network",
        "a.html links to b.html#gone: no such place on that page",
        "a.html links to c.html, which is not there",
        "a.html needs q.png, which is not there",
        "s.css fetches from a network",
    ]
    assert check.main(tmp_path) == 1
    assert check.main(tmp_path / "nothing") == 1


def test_docstrings_lose_no_formula():
    escaped = loaded(ROOT / "docs" / "_ext" / "plain_docstrings.py").escaped
    assert escaped("lam_ of `lam_`, |δ| of (m, *features), **others") == (
        "lam\\_ of `lam_`, \\|δ\\| of (m, \\*features), \\*\\*others"
    )
    assert escaped("x_i + δ_i, ``**kept``") == "x_i + δ_i, ``**kept``"


def test_readme_is_short(tmp_path, capsys):
    script = loaded(ROOT / "docs" / "counts.py")
    assert script.main() == 0
    long = tmp_path / "README.md"
    long.write_text("one two\n| three |\n" + "word " * 1098, encoding="utf-8")
    assert list(script.counts(long.read_text(encoding="utf-8")).values()) == [3, 1103, 9]
    assert script.main(long) == 1
    assert "3 lines (at most 150), 1103 words (at most 1100)" in capsys.readouterr().out


def test_lines_are_at_most_110_characters():
    pages = [*ROOT.glob("*.md"), *(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)]
    assert len(pages) > 50
    long = [
        f"{page.relative_to(ROOT)}:{number}: {len(line)}"
        for page in pages
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 110
    ]
    assert long == []


def test_the_code_of_tutorials_fits_beside_both_sidebars():
    """docs/_static/gsat.css sets the size of letters for lines of 88 characters."""
    pages = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    cells = {page: re.findall(r"^```\{code-cell\}\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S) for page in pages}
    assert sum(map(len, cells.values())) > 30
    code = {page: [re.sub(r"^---\n.*?^---\n", "", cell, flags=re.M | re.S) for cell in cells[page]] for page in pages}
    lines = [f"{page.name}: {line}" for page in pages for cell in code[page] for line in cell.splitlines()]
    assert [line for line in lines if len(line.partition(": ")[2]) > 88] == []


def test_versions_agree():
    """The citation has the version of the package, and hooks before a commit those of constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == gsat.__version__
    assert f"\nversion: {gsat.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    pinned = set((ROOT / "constraints.txt").read_text(encoding="utf-8").split())
    hooks = re.findall(r"ruff==[\d.]+", (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert hooks
    assert set(hooks) <= pinned


def test_the_lowest_versions_are_those_of_the_project():
    lowest = loaded(ROOT / "tests" / "lowest.py").lowest
    assert lowest("scikit-learn>=1.6", []) == "scikit-learn==1.6.*"
    assert lowest("torch>=2.4", ["numpy==2.0", "torch==2.13.0"]) == "torch==2.13.0"
    with pytest.raises(ValueError, match="must read 'name>=version', got 'numpy'"):
        lowest("numpy", [])
