"""The examples in the docstrings of the public names run, and print what stands there."""

import doctest
import importlib
import inspect

import pytest
import torch

import gsat

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public():
    """Every public name with a docstring of its own: those of gsat, of its rooms, and of results without a room."""
    for name in gsat._HOME:
        yield f"gsat.{name}", getattr(gsat, name)
    for room in gsat._ROOMS:
        for name in getattr(gsat, room).__all__:
            yield f"gsat.{room}.{name}", getattr(getattr(gsat, room), name)
    for name in ("gsat.training.History", "gsat.estimators.matching.Alignment"):
        module, _, last = name.rpartition(".")
        yield name, getattr(importlib.import_module(module), last)


PUBLIC = dict(public())


def examples(name):
    return doctest.DocTestParser().get_doctest(inspect.getdoc(PUBLIC[name]), {"__name__": "__main__"}, name, None, 0)


def test_every_public_name_has_an_example():
    without = [name for name, thing in PUBLIC.items() if "\nExamples\n--------\n" not in (inspect.getdoc(thing) or "")]
    assert without == []


@pytest.mark.parametrize("name", sorted(PUBLIC))
@pytest.mark.filterwarnings("ignore:The .mode.chained_assignment. option is deprecated")  # in anndata, with pandas 3
def test_the_example_runs(name, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    found = examples(name)
    assert found.examples, f"{name} has no example"
    assert not any(example.options.get(doctest.SKIP) for example in found.examples)
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(found).failed
    assert failed == 0, capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
