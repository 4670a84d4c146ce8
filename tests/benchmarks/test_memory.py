"""Training takes far less memory than a copy of the samples, whatever they are kept in; Linux only."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc/self/status")


@pytest.mark.parametrize("kind", ["dense", "mapped", "sparse"])
def test_samples_are_never_copied_whole(kind):
    case = json.dumps([kind, 12000, 2500, "low-rank", 10, True])
    command = [sys.executable, str(BENCHMARK), "--case", case]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    assert found["data"] == 120e6
    assert found["rise"] < 0.35 * found["data"]
    assert found["rise_in_predict"] < 0.35 * found["data"]
