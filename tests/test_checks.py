"""Rules of input that need no tensors, and that torch is not needed for them."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from gsat import _checks

NAMES = ("low-rank", "pgd")


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), torch.tensor(0.5), torch.tensor(0.5, dtype=torch.float64)])
def test_a_number_may_be_a_scalar_of_numpy_or_torch(value):
    found = _checks.number("rho", value, above=0)
    assert type(found) is float
    assert found == 0.5


@pytest.mark.parametrize("value", ["0.5", True, None, torch.tensor([0.5]), torch.tensor(True)])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match=r"^rho must be a number, got"):
        _checks.number("rho", value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("pgd", ("pgd", None, None)),
        ("low-rank:5", ("low-rank", 5, None)),
        ("pgd@0.2", ("pgd", None, 0.2)),
        ("low-rank:5@1e-3", ("low-rank", 5, 1e-3)),
    ],
)
def test_the_parts_of_an_attack(text, parts):
    assert _checks.attack_text(text, NAMES) == parts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("low-rank:x", "an attack must read .* got 'low-rank:x'"),
        ("low-rank:1.5", "an attack must read .* got 'low-rank:1.5'"),
        ("pgd@much", "an attack must read .* got 'pgd@much'"),
        ("hammer:3", "attack must be one of low-rank, pgd, got 'hammer'"),
        ("", "attack must be one of low-rank, pgd, got ''"),
    ],
)
def test_what_is_no_attack_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        _checks.attack_text(text, NAMES)


def test_one_of_names_what_is_allowed():
    assert _checks.one_of("rule", "pgd", NAMES) == "pgd"
    with pytest.raises(ValueError, match=re.escape("rule must be one of low-rank, pgd, got 'PGD'")):
        _checks.one_of("rule", "PGD", NAMES)


@pytest.fixture
def gpus(monkeypatch):
    """Lets torch say that there are two CUDA devices, the second of them current; outside torchrun."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


@pytest.mark.parametrize("value", ["tpu", "CUDA", "cuda:", "cuda:-1", "cuda:1.5", "cuda:12345", "", 3, True, b"cpu"])
def test_what_is_no_device_is_refused(value):
    with pytest.raises(ValueError, match=r"^device must be cpu, cuda, cuda:NUMBER or auto, got "):
        _checks.device("device", value)


@pytest.mark.parametrize("value", ["mps", torch.device("mps")])
def test_a_gpu_without_float64_is_refused(value):
    with pytest.raises(ValueError, match=r"^--device must be .* got .*mps.*; GPUs of Apple have no float64"):
        _checks.device_word("--device", value)


@pytest.mark.parametrize(
    ("value", "number"),
    [("cuda", 1), ("auto", 1), ("cuda:0", 0), (torch.device("cuda", 0), 0), (torch.device("cuda"), 1)],
)
def test_a_device_that_is_there(value, number, gpus):
    assert _checks.device("device", value) == torch.device("cuda", number)
    assert _checks.device("device", None) == _checks.device("device", torch.device("cpu")) == torch.device("cpu")


def test_each_process_of_torchrun_has_the_gpu_of_its_number(gpus, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert _checks.device("device", "cuda") == _checks.device("device", "auto") == torch.device("cuda", 0)
    assert _checks.device("device", "cuda:1") == torch.device("cuda", 1)
    monkeypatch.setenv("LOCAL_RANK", "2")
    message = "device must be one of 2 CUDA devices, cuda:0 to cuda:1, got 'cuda' for the process with LOCAL_RANK 2"
    with pytest.raises(ValueError, match=re.escape(message)):
        _checks.device("device", "cuda")


def test_a_gpu_that_is_not_there(gpus, monkeypatch):
    with pytest.raises(ValueError, match=r"device must be one of 2 CUDA devices, cuda:0 to cuda:1, got 'cuda:2'$"):
        _checks.device("device", "cuda:2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert _checks.device("device", "auto") == torch.device("cpu")
    with pytest.raises(ValueError, match=r"device must be cpu where torch \(.*\) finds no CUDA device, got 'cuda:1'"):
        _checks.device("device", "cuda:1")


def test_numbers_and_names_are_checked_without_torch():
    code = """
import sys
from gsat import _checks
_checks.number("rho", 2, above=1)
_checks.count("k", 3, least=1)
_checks.attack_text("pgd@0.1", ["pgd"])
_checks.device_word("device", "cuda:1")
sys.exit("torch" in sys.modules or "numpy" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
