"""Training takes far less memory than a copy of the samples, whatever they are kept in; Linux only."""

import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from forks import FORKS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc/self/status")


def measured(kind: str, pipe: Connection) -> None:
    sys.path.insert(0, str(BENCHMARKS))
    from memory import measure

    pipe.send(measure(kind, 12000, 2500, "low-rank", 10, True))


@pytest.mark.parametrize("kind", ["dense", "mapped", "sparse"])
def test_samples_are_never_copied_whole(kind):
    ear, mouth = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=measured, args=(kind, mouth))
    process.start()
    mouth.close()
    found = ear.recv()
    process.join()
    assert found["data"] == 120e6
    assert 0 < found["rise"] < 0.35 * found["data"]
    assert found["rise_in_predict"] < 0.35 * found["data"]
