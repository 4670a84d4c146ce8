"""The table for a GPU, as far as it goes without one."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BENCHMARK), *options], capture_output=True, text=True)


def test_it_runs_on_a_processor(data_dir: Path) -> None:
    found = run("--device", "cpu", "--quick")
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    rows = {line[:18].strip(): line[18:].split() for line in lines if line.count(".") >= 7}
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
def test_what_a_processor_has_not_is_refused(options: list[str], message: str) -> None:
    found = run(*options)
    assert found.returncode == 2
    assert message in found.stderr
