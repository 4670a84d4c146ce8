"""What a gradient reads from the device does not grow with the group, and the counter counts."""

import importlib.util
from pathlib import Path

import pytest
import torch

from gsat import defences

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "readings.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("readings", BENCHMARK)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_what_waits_for_the_device_is_counted(script):
    v = torch.tensor([1.0, 0.0, 2.0])
    with script.counted() as counter:
        assert float(v.sum()) == 3
        assert bool((v >= 0).all())
        assert v.tolist() == [1, 0, 2]
        assert len(v[v > 0]) == 2
        assert len(v.nonzero()) == 2
        v * 2 + v.sum()  # nothing is read
    assert counter.found == {"_local_scalar_dense": 2, "tolist": 1, "index": 1, "nonzero": 1}
    assert counter.total == 5
    assert v.tolist() == [1, 0, 2]
    assert counter.total == 5  # no more after the block


@pytest.mark.parametrize("structure", ["universal", "unstructured"])
def test_a_gradient_reads_as_much_of_a_large_group(structure, script):
    # on the plain path sums over millions of numbers are taken in parts: all of them are read at once
    found = [script.of_a_gradient(structure, "alexnet", m, 0) for m in (20, 300)]
    assert found[0] == pytest.approx(found[1], abs=0.5)
    assert 2 < found[1] < 4


def test_plain_training_reads_its_loss_and_the_mean_norm(script):
    assert script.of_a_step(defences.ERM(), "elu", 20, 30) == 2
