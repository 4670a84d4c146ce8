"""What is published: wheel and sdist hold what they should, and run where nothing else of the project is."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest

import gsat

ROOT = Path(__file__).parents[1]
NAME, STEM = "gsat-learn", f"gsat_learn-{gsat.__version__}"
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
WHICH = """
import gsat, importlib.metadata
about = importlib.metadata.distribution("gsat-learn")
print(gsat.__file__, about.version, about.locate_file(""))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist of the tree."""
    out = tmp_path_factory.mktemp("dist")
    called(sys.executable, "-m", "hatchling", "build", "-d", out, cwd=ROOT)
    wheel, sdist = out / f"{STEM}-py3-none-any.whl", out / f"{STEM}.tar.gz"
    assert sorted(out.iterdir()) == sorted([wheel, sdist])
    return wheel, sdist


def called(*command, cwd):
    """The output of a command that must succeed, in an environment that knows no other gsat."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def members(path):
    """The files of a wheel or of an sdist, with their bytes; those of the sdist without its folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(path) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        return {member.name.removeprefix(f"{STEM}/"): archive.extractfile(member).read() for member in files}


def sources():
    """The files of the package, with their bytes."""
    files = (path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / "src").as_posix(): path.read_bytes() for path in files}


def test_the_wheel_is_the_package_and_nothing_else(built):
    found = members(built[0])
    package = {name: content for name, content in found.items() if name.startswith("gsat/")}
    assert package == sources()
    assert {"gsat/py.typed", "gsat/report/assets/page.js", "gsat/report/assets/vendor/d3.min.js"} <= set(package)
    about = {name for name in found if name not in package}
    assert {name.partition("/")[0] for name in about} == {f"{STEM}.dist-info"}
    assert not [name for name in found if "test" in name.partition("/")[0]]
    assert b"\nName: gsat-learn\n" in found[f"{STEM}.dist-info/METADATA"]
    assert found[f"{STEM}.dist-info/entry_points.txt"].split() == b"[console_scripts] gsat = gsat.cli:main".split()


def test_the_source_distribution_has_the_package_and_its_tests(built):
    found = members(built[1])
    assert {name: content for name, content in found.items() if name.startswith("src/")} == {
        f"src/{name}": content for name, content in sources().items()
    }
    assert {"pyproject.toml", "tests/test_packaging.py", "constraints.txt"} <= set(found)
    assert {"README.md", "LICENSE", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff"} <= set(found)


def test_version_and_name_are_the_same_everywhere():
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (about["name"], about["version"]) == (NAME, gsat.__version__)
    assert about["scripts"] == {"gsat": "gsat.cli:main"}


def environment(folder, distribution):
    """The folder of commands of a new virtual environment with this distribution, and all else of the running one.

    What it needs is seen through a .pth file, in which the editable gsat of the running environment has no part: the
    .pth files of a folder that is itself named by one are not read.
    """
    called(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / SCRIPTS / "python"
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site / "running.pth").write_text("\n".join(others))
    install = ("install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed")
    called(sys.executable, "-m", "pip", "--python", python, *install, distribution, cwd=folder)
    where, version, about = called(python, "-c", WHICH, cwd=folder).split()
    assert Path(where) == site / "gsat" / "__init__.py"
    assert (version, Path(about)) == (gsat.__version__, site)
    return folder / SCRIPTS


def cells(path, seed):
    """Counts of three types in two lanes, as a user would write them."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, 90)
    counts = rng.poisson(0.5 + 6.0 * (np.arange(12) % 3 == kind[:, None])).astype(np.float32)
    obs = pd.DataFrame({"type": np.array(["B", "NK", "T"])[kind], "lane": np.array(["one", "two"])[np.arange(90) % 2]})
    obs.index = [f"cell{i}" for i in range(90)]
    anndata.AnnData(counts, obs=obs, var=pd.DataFrame(index=[f"gene{j}" for j in range(12)])).write_h5ad(path)
    return obs["type"]


@pytest.mark.parametrize("place", [0, 1], ids=["wheel", "sdist"])
def test_what_is_published_runs_the_recipes_with_the_dependencies_of_the_running_environment(place, built, tmp_path):
    """In a new environment, where this gsat is the only one; torch and all else come from the running one.

    That their versions can be had, and that pip finds them, is not seen here.
    """
    run = environment(tmp_path / "venv", built[place]) / "gsat"
    assert called(run, "--version", cwd=tmp_path).split() == ["gsat", gsat.__version__]
    assert "digits" in called(run, "data", "list", cwd=tmp_path)
    said = called(run, "demo", "--quick", "--out", "demo", cwd=tmp_path)
    assert "low-rank" in said
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000  # with its scripts inside
    cells(tmp_path / "cells.h5ad", 0)
    truth = cells(tmp_path / "new.h5ad", 1)
    keys = ("--label", "type", "--batch", "lane")
    called(run, "train", "cells.h5ad", *keys, "--n-outer", "60", "--eta0", "0.01", "--out", "run", cwd=tmp_path)
    called(run, "predict", "run", "new.h5ad", "--out", "predictions.csv", cwd=tmp_path)
    found = pd.read_csv(tmp_path / "predictions.csv")
    assert (found["prediction"].to_numpy() == truth.to_numpy()).mean() > 0.8
    called(run, "report", "run", cwd=tmp_path)
    assert (tmp_path / "run" / "report.html").exists()
