"""The table for a GPU, as far as it goes without one."""

import importlib.util
import sys
from pathlib import Path

import pytest

import gsat
from gsat.data import Table

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the script with options: its exit code, and what it said."""
    spec = importlib.util.spec_from_file_location("gpu", BENCHMARK)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    def called(*options: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [str(BENCHMARK), *options])
        try:
            script.main()
        except SystemExit as end:
            return end.code, capsys.readouterr().err
        return 0, capsys.readouterr().out

    return called


def test_it_runs_on_a_processor(data_dir: Path, run, monkeypatch) -> None:
    whole = gsat.data.load("mnist")
    few = whole.subset(range(0, len(whole), 100))
    assert set(few.split) == {"train", "test"}
    asked = []

    def load(name: str) -> Table:
        asked.append(name)
        return few

    monkeypatch.setattr(gsat.data, "load", load)
    code, said = run("--device", "cpu", "--quick")
    assert (code, asked) == (0, ["mnist"])
    rows = {line[:18].strip(): line[18:].split() for line in said.splitlines() if line.count(".") >= 7}
    assert set(rows) == {"GSAT universal", "GSAT group-sparse", "GSAT low-rank", "ERM", "FGSM", "FGM", "PGD"}
    for name, cells in rows.items():
        assert all(0 <= float(cell) <= 100 for cell in cells[:5]), name
        assert float(cells[5]) > 0
    assert rows["PGD"][6] == "1.00"
    assert rows["GSAT low-rank"][7] == "1.24"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "cpu", "--bf16"], "--tf32 and --bf16 are for CUDA, got --device cpu"),
        (["--device", "cpu", "--tf32"], "--tf32 and --bf16 are for CUDA, got --device cpu"),
        (["--device", "tpu"], "--device must be cpu, cuda or cuda:NUMBER, got tpu"),
    ],
)
def test_what_a_processor_has_not_is_refused(options: list[str], message: str, run) -> None:
    code, said = run(*options)
    assert code == 2
    assert message in said
