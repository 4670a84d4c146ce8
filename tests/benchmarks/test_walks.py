"""The measure of walks: chains of imports and functions that are entered, on packages made by hand."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from gsat._checks import number
from gsat.cli.app import numbers

# By its path: a folder of scripts on sys.path would hide packages of the same names, `distributed` for one.
walks = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "walks.py")))


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": set()}, 1),
        ({"a": {"b"}, "b": {"c"}, "c": set(), "d": {"a", "c"}}, 4),
        ({"a": {"b"}, "b": {"a", "c"}, "c": set()}, 2),  # a and b import each other
    ],
)
def test_the_longest_chain_counts_a_circle_once(graph, expected):
    assert walks.longest_chain(graph) == expected


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "gsat"
    content = {
        "__init__.py": "",
        "low.py": "import os\n",
        "types.py": "",
        "room/__init__.py": "from gsat import low\nfrom gsat.room.inner import thing\n",
        "room/inner.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from gsat import types\nthing = 1\n",
        "top.py": "import gsat.low\n\ndef f():\n    from gsat.room import thing\n    return thing\n",
    }
    for name, text in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_imports_of_modules_and_of_their_functions(tree):
    found = walks.imports(tree)
    assert found["gsat.room"] == {"gsat.low", "gsat.room.inner"}
    assert found["gsat.room.inner"] == set()
    assert found["gsat.top"] == {"gsat.low"}
    assert walks.imports(tree, later=True)["gsat.top"] == {"gsat.low", "gsat.room"}
    assert walks.rooms(found)["gsat.room"] == {"gsat.low"}


def test_lines_of_files_and_folders(tree):
    assert walks.lines(tree / "low.py", tree / "room", tree / "absent.py") == 7


def test_a_walk_counts_functions_once_and_with_what_is_nested_in_them(monkeypatch):
    def walk(room):
        assert room.is_dir()
        for _ in range(2):
            numbers("--x", "1,2", int)  # has a comprehension
        number("rho", 0.5, above=0)  # calls one other function of its file

    monkeypatch.setitem(walks.WALKS, "one", walk)
    assert walks.walked("one") == (2, 3)
