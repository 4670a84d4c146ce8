"""The code in README and in the docs runs as it stands."""

import re
from pathlib import Path

import pytest

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


def python_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_on_the_page_runs(page, capsys):
    blocks = python_blocks(page)
    assert blocks
    names = {"__name__": "page"}
    exec(compile("\n".join(blocks), page, "exec"), names)
    assert capsys.readouterr().out.strip()  # each page prints what it found


def test_the_cost_of_the_page_is_used_by_every_solver():
    names = {"__name__": "page"}
    exec(compile(python_blocks("docs/add_a_cost.md")[0], "add_a_cost", "exec"), names)
    import torch

    import gsat

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
