"""The examples in the docstrings of the public names run, and print what stands there."""

import doctest
import importlib
import inspect

import pytest
import torch

import gsat

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ELSEWHERE = {  # what has no example of its own: where it is used in one
    **{f"gsat.defences.{name}": "gsat.gdadmm" for name in gsat.defences.__all__},
    **{f"gsat.attacks.{name}": "gsat.attacks.PGD" for name in ("Attack", "Structured", "Candidate")},
    "gsat.CheckResult": "gsat.check",
    "gsat.Solution": "gsat.maximise",
    "gsat.data.fetch": "gsat.data.load",
    "gsat.transport.Transport": "gsat.transport.primal",
    "gsat.transport.Transform": "gsat.transport.c_transform",
    "gsat.transport.WorstRisk": "gsat.transport.worst_risk",
}
SAID = ("ERM", "FGM", "GSAT", "PGD", "Structured", "UniversalAT", "match_norm")  # in the example of gdadmm


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


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - set(ELSEWHERE)))
@pytest.mark.filterwarnings("ignore:The .mode.chained_assignment. option is deprecated")  # in anndata, with pandas 3
def test_the_example_runs(name, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    found = examples(name)
    assert found.examples, f"{name} has no example"
    assert "\nExamples\n--------\n" in inspect.getdoc(PUBLIC[name])
    assert not any(example.options.get(doctest.SKIP) for example in found.examples)
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(found).failed
    assert failed == 0, capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_what_has_no_example_is_used_in_another():
    assert set(ELSEWHERE) <= set(PUBLIC)
    assert set(ELSEWHERE.values()) <= set(PUBLIC) - set(ELSEWHERE)
    code = "".join(example.source for example in examples("gsat.gdadmm").examples)
    assert [name for name in SAID if f".{name}" not in code] == []
    assert set(gsat.defences.__all__) - set(SAID) == {"Defence"}
