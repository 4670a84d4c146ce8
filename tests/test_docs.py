"""The code in README and in the docs runs as it stands."""

import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import gsat

ROOT = Path(__file__).parents[1]
API = sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs" / "api").glob("*.md") if page.stem != "index")
PAGES = [
    "README.md",
    *API,
    "docs/start.md",
    "docs/guide/extending.md",
    "docs/add_a_cost.md",
    "docs/report.md",
    "docs/certificate.md",
    "docs/diagnose.md",
    "docs/files.md",
    "docs/guide/attacks.md",
    "docs/guide/estimators.md",
    "docs/guide/machines.md",
    "docs/guide/metric.md",
    "docs/selection.md",
    "docs/transport.md",
]


def python_blocks(page: str, language: str = "python") -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_on_the_page_runs(page, capsys):
    blocks = python_blocks(page)
    assert blocks
    names = {"__name__": "page"}
    exec(compile("\n".join(blocks), page, "exec"), names)
    assert capsys.readouterr().out.strip()  # each page prints what it found


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """The working folder of a run that torchrun would have started with one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    about = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": 0, "WORLD_SIZE": 1}
    for name, value in about.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def machine_blocks():
    """The code of the page on several machines that needs more than one process, or a library that is not here."""
    found = python_blocks("docs/guide/machines.md", "py")
    assert len(found) == 6
    return found


def given():
    """What stands before the blocks in somebody's own script."""
    table = gsat.data.make_batches(60, 6)
    X, y = torch.from_numpy(table.X), torch.from_numpy(table.codes)
    model = gsat.models.build("elu", X.shape[1:], len(table.classes), seed=0, hidden=8)
    return {"torch": torch, "gsat": gsat, "model": model, "X": X, "y": y, "eps": 0.1 * gsat.mean_norm(X)}


def test_training_by_several_processes_runs_with_one(alone):
    names = given()
    before = {name: value.clone() for name, value in names["model"].state_dict().items()}
    exec(compile(machine_blocks()[0], "machines", "exec"), names)
    assert len(names["history"]) == 1000
    assert (alone / "runs" / "z").is_dir()
    assert any(not torch.equal(value, before[name]) for name, value in names["model"].state_dict().items())


def test_attacking_by_several_processes_runs_with_one(alone):
    names = given()
    exec(compile(machine_blocks()[1], "machines", "exec"), names)
    assert names["table"]["attack"].tolist() == ["none", "universal", "universal-all", "low-rank"]
    assert names["table"]["accuracy"].between(0, 1).all()


def test_the_step_for_lightning_runs_without_it(alone):
    torch.distributed.init_process_group("gloo")
    names = given()
    exec(compile(machine_blocks()[2], "machines", "exec"), names)
    adversary = gsat.Adversary(gsat.LowRank(), lam=0.3, group="shared")
    module = SimpleNamespace(adversary=adversary, net=names["model"])
    loss = names["training_step"](module, (names["X"], names["y"]), 0)
    clean = torch.nn.functional.cross_entropy(names["model"](names["X"]), names["y"])
    assert loss > clean  # at the perturbed samples
    assert loss.requires_grad


def test_what_needs_other_libraries_and_machines_compiles():
    accelerate, *dask = machine_blocks()[3:]
    assert "accelerator.backward" in accelerate
    assert all("dask.distributed" in block for block in dask)
    for block in (accelerate, *dask):
        compile(block, "machines", "exec")


def test_the_cost_of_the_page_is_used_by_every_solver():
    names = {"__name__": "page"}
    exec(compile(python_blocks("docs/add_a_cost.md")[0], "add_a_cost", "exec"), names)
    torch.manual_seed(0)
    slope = torch.randn(7, 9, dtype=torch.float64)
    x = torch.zeros(7, 9, dtype=torch.float64)
    cost = names["Smooth"](3.0)
    found = {
        solver: gsat.maximise(lambda z: (slope * z).sum(1), x, cost, lam=0.6, solver=solver, n_inner=80).delta
        for solver in ("proximal", "admm", "linearised")
    }
    # ⟨G, U⟩ − lam·c(U) has the gradient G − lam·(U + 3·DᵀD·U), which is zero at the maximum
    differences = torch.eye(9, dtype=torch.float64).diff(dim=0)
    exact = torch.linalg.solve(0.6 * (torch.eye(9, dtype=torch.float64) + 3 * differences.T @ differences), slope.T).T
    for solver, delta in found.items():
        assert float((delta - exact).norm() / exact.norm()) < 1e-4, solver


def named_files():
    """The files that README and the docs name as `tests/...`, `benchmarks/...` or `src/...`."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for name in re.findall(r"\b(?:tests|benchmarks|src)/[\w/]+\.py\b", page.read_text(encoding="utf-8")):
            yield page.name, name


def test_files_that_pages_name_exist():
    found = set(named_files())
    assert found
    assert sorted((page, name) for page, name in found if not (ROOT / name).exists()) == []


def test_links_of_the_readme_exist():
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
