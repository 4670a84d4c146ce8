"""What `make campaign` prints: the sums of all that the parts have counted, and failure where anything failed."""

import subprocess
import sys
from pathlib import Path

import pytest
import tally

pytestmark = pytest.mark.campaign

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "campaign.py"


@pytest.mark.parametrize(("failed", "code"), [(0, 0), (2, 1)])
def test_totals(tmp_path, monkeypatch, failed, code):
    report = tmp_path / "campaign.jsonl"
    monkeypatch.setenv("GSAT_CAMPAIGN_REPORT", str(report))
    tally.count("files: csv", 7, 7, 0)
    tally.count("kills: train", 5, 5 - failed, failed)
    tally.count("files: npz", 2, 2, 0)
    tally.count("files: csv", 30, 30, 0)
    done = subprocess.run([sys.executable, SCRIPT, report], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == code
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows == [
        ["part", "tried", "clean", "failed"],
        ["files", "39", "39", "0"],
        ["csv", "37", "37", "0"],
        ["npz", "2", "2", "0"],
        ["kills", "5", str(5 - failed), str(failed)],
        ["train", "5", str(5 - failed), str(failed)],
        ["all", "44", str(44 - failed), str(failed)],
    ]
