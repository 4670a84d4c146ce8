"""The benchmark runs, what it computes from times is right, and the pages show what it found."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """Import a script of the folder, which is no package, by its name."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(SCRIPTS)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """What the whole benchmark prints and writes for tiny problems."""
    out = tmp_path_factory.mktemp("bench") / "bench.json"
    command = [sys.executable, str(SCRIPTS / "bench.py"), "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    return done.stdout, out


def test_the_benchmark_runs(tried):
    text, out = tried
    found = json.loads(out.read_text(encoding="utf-8"))
    assert set(found["run"]) >= {"command", "machine", "threads", "versions", "plan"}
    rows = found["rows"]
    sections = {"iteration", "other libraries", "equal value", "memory", "growth", "exponent", "sweep"}
    assert {row["section"] for row in rows} == sections
    for row in rows:
        assert row["what"] in text
        if row["section"] == "other libraries" and "value" not in row:
            assert "is not installed: make .venv/bench.stamp" in row["note"]
        else:
            assert row["value"] > 0 or row["section"] == "exponent"  # of tiny sizes it may be anything
    for structure in ("universal", "group-sparse", "low-rank", "unstructured"):
        for kind in ("20 gradients, plain path", "20 gradients", "as trained"):
            case = {"section": "iteration", "case": "ELU net, d = 300", "what": f"{structure}, {kind}"}
            assert sum(case.items() <= row.items() for row in rows) == 1


def test_rows_survive_the_file_and_become_markdown(tried, script):
    table = script("table")
    run, rows = table.load(tried[1])
    table.save(tried[1], run, rows)
    assert table.load(tried[1]) == (run, rows)
    text = table.markdown(run, rows)
    heads, rule, first, *_ = text.splitlines()
    structures = "PGD | universal | group-sparse | low-rank | unstructured"
    shares = "of 1% | of 10% | of 100%"
    assert heads == f"| one iteration | {structures} | {shares} |"
    assert rule == "|---|---|---|---|---|---|---|---|---|"
    assert first.startswith("| AlexNet, tiny shape, 20 gradients | 1.00 | ")
    assert run["command"] in text


def test_the_speed_table_is_what_was_measured(script):
    table = script("table")
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.put_into(page, table.markdown(*table.load())) == page


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("paper", "gsat reproduce selection --scale cpu"),
        ("differences", "| MNIST | rank 5, 0.2 | low-rank | +"),
        ("shifts", "| low-rank |"),
        ("shifts-short", "| GSAT low-rank, in the metric |"),
        ("shift-sets", "| stemcells |"),
    ],
)
def test_the_tables_of_our_results_are_what_was_found(script, name, text):
    tables = script("paper_table")
    page = tables.TABLES[name][0].read_text(encoding="utf-8")
    assert text in page
    assert tables.filled(page, name) == page


def test_the_picture_shows_what_was_found(script, tmp_path):
    """Means and wins in the picture are those of the folds, by another way."""
    import pandas as pd

    picture = script("shift_picture")
    taken = pd.read_csv(ROOT / "results" / "shifts" / "taken.csv")
    means = 100 * taken.groupby(["defence", "data"])["balanced_accuracy"].mean()
    found = picture.gains()
    assert len(found) == 12
    for name in picture.BASELINES:
        wanted = means[picture.OURS] - means[name]
        assert found[name].to_dict() == pytest.approx(wanted.to_dict())
        assert f"ahead on {(wanted > 0).sum()} of 12" in picture.spoken(found[name].tolist())
    picture.main(tmp_path / "shifts.png")
    assert (tmp_path / "shifts.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_goes_between_the_marks(script):
    table = script("table")
    page = f"before {table.BEGIN}\nold\n{table.END} after"
    assert table.put_into(page, "new") == f"before {table.BEGIN}\nnew\n{table.END} after"
    with pytest.raises(ValueError, match="must hold <!-- speed --> and <!-- /speed --> once each"):
        table.put_into("no marks", "new")


def test_every_target_has_rows(script):
    """A name that changed would leave a target without a row, and nobody would see that it is missed."""
    table = script("table")
    rows = [
        table.Row("iteration", "AlexNet, MNIST shape", "group-sparse, 20 gradients", "PGD, 20 gradients"),
        table.Row("iteration", "AlexNet, CIFAR-10 shape", "low-rank, 20 gradients", "PGD, 20 gradients"),
        table.Row("equal value", "AlexNet, CIFAR-10 shape", "low-rank, 4 gradients", "PGD, 20 gradients"),
        table.Row("iteration", "ELU net, d = 20,531", "universal, 20 gradients", "PGD, 20 gradients, plain path"),
        table.Row("iteration", "ELU net, d = 20,531", "low-rank, 20 gradients", "PGD, 20 gradients, plain path"),
        table.Row("iteration", "ELU net, d = 20,531", "group-sparse, 20 gradients", "PGD, 20 gradients, plain path"),
        table.Row("iteration", "ELU net, d = 784", "low-rank, 20 gradients", "PGD, 20 gradients, plain path"),
        table.Row("iteration", "ELU net, d = 784", "group-sparse, 20 gradients", "PGD, 20 gradients, plain path"),
        table.Row("other libraries", "AlexNet, MNIST shape", "PGD, 20 gradients", "torchattacks"),
        table.Row("other libraries", "AlexNet, MNIST shape", "PGD, 20 gradients", "ART"),
        table.Row("exponent", "low-rank, 20 gradients", "time in d, 5,000 to 100,000, m = 200"),
        table.Row("memory", "ELU net, d = 20,531", "PGD, 20 gradients, plain path"),
        table.Row("memory", "ELU net, d = 20,531", "low-rank, 20 gradients, plain path"),
        table.Row("memory", "ELU net, d = 20,531", "low-rank, 20 gradients"),
    ]
    found = [table.target(row) for row in rows]
    assert [target for target in table.TARGETS if target not in found] == []
    others = [
        table.Row("iteration", "ELU net, d = 20,531", "low-rank, 20 gradients, plain path", "PGD"),
        table.Row("iteration", "ELU net, d = 20,531", "low-rank, as trained", "PGD"),
    ]
    assert [table.target(row) for row in others] == [None] * 2
    above = table.Row("memory", "ELU net, d = 20,531", "low-rank, 20 gradients", value=2.2, unit="arrays")
    assert "ABOVE" in table.terminal([above])


def test_ratios_are_taken_within_a_round(script):
    timing = script("timing")
    times = timing.Times({"a": [2.0, 30.0, 4.0, 8.0], "b": [1.0, 10.0, 1.0, 2.0]})
    assert times.median("a") == 6.0
    assert times.ratio("a", "b") == timing.Ratio(3.5, 2.75, 4.0)
    alone = timing.Times({"a": [3.0], "b": [2.0]})
    assert alone.ratio("a", "b") == timing.Ratio(1.5, 1.5, 1.5)


def test_jobs_take_turns(script):
    timing, order = script("timing"), []
    jobs = {name: lambda name=name: order.append(name) for name in "abc"}
    times = timing.alternate(jobs, 2)
    assert "".join(order) == "cba" + "abc" + "cba"
    assert {name: len(seconds) for name, seconds in times.seconds.items()} == {"a": 2, "b": 2, "c": 2}


def test_peaks_of_memory_are_those_of_live_arrays(script):
    peak_bytes = script("allocations").peak_bytes
    x = torch.ones(300, 1000)

    def three_of_which_two_at_a_time():
        y = x + 1
        z = y * 2
        del y
        return z.exp().sum()

    def backward():
        point = x.clone().requires_grad_()
        torch.autograd.grad(point.exp().exp().sum(), point)  # the point, two results, and a gradient beside them

    one = x.numel() * x.element_size()
    assert peak_bytes(three_of_which_two_at_a_time) / one == pytest.approx(2, abs=0.01)
    assert peak_bytes(backward) / one == pytest.approx(4, abs=0.01)
    assert peak_bytes(lambda: torch.linalg.svdvals(x)) / one > 0.9  # what a kernel copies for itself counts


def test_exponents(script):
    exponent = script("scaling").exponent
    assert exponent([10, 200, 3000], [7 * s**1.3 for s in (10, 200, 3000)]) == pytest.approx(1.3)
