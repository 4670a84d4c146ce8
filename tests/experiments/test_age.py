"""Of which code results are, and the list of committed results that are older than the code."""

import json
import subprocess
import warnings
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from gsat.cli import app
from gsat.experiments import age as room
from gsat.experiments.age import age, ages, code_of, dependencies
from gsat.experiments.plan import Experiment, Order, Outcome, Piece
from gsat.experiments.runner import reproduce
from gsat.experiments.setting import SCALES

RESULTS = Path(__file__).parents[2] / "results"
MAKER = "gsat.experiments.low_rank_attack"


def kept(folder, code):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"code": code}))
    return folder


def test_results_depend_on_what_is_computed_and_not_on_what_is_shown():
    found = dependencies(MAKER)
    assert {"experiments/low_rank_attack.py", "experiments/curves.py", "solvers/admm.py", "costs/low_rank.py"} <= found
    assert {"attacks/strong.py", "training/loop.py", "estimators/gsat.py", "models/networks.py"} <= found
    assert not [path for path in found if path.startswith(("cli/", "report/", "theory/"))]
    assert "experiments/pictures.py" not in found
    assert "experiments/biology.py" not in found
    assert not [path for path in found if path.startswith("selectors/")]
    assert "selectors/elimination.py" in dependencies("gsat.experiments.feature_selection")


def test_comments_and_docstrings_do_not_make_results_old(tmp_path):
    texts = (
        "def f(x):\n    return x + 1\n",
        'def f(x):\n    """Adds."""\n    # one\n    return (x\n            + 1)\n',
    )
    other = "def f(x):\n    return x + 2\n"
    prints = []
    for place, text in enumerate((*texts, other)):
        path = tmp_path / f"{place}.py"
        path.write_text(text)
        prints.append(room._fingerprint(path))
    assert prints[0] == prints[1] != prints[2]


def test_results_are_old_where_a_module_changed(tmp_path):
    code = code_of(MAKER)
    new = age(kept(tmp_path / "new", code))
    assert not new.old
    assert str(new).endswith("as the code is")
    changed = {**code, "modules": {**code["modules"], "solvers/admm.py": "0" * 12, "solvers/gone.py": "1" * 12}}
    old = age(kept(tmp_path / "old", changed))
    assert old.old
    assert old.changed == ("solvers/admm.py", "solvers/gone.py")
    assert age(kept(tmp_path / "none", None)).changed is None
    assert age(kept(tmp_path / "other", {**code, "python": "3.1"})).old
    names = [one.name for one in ages(tmp_path)]
    assert names == ["new", "none", "old", "other"]


def test_the_commit_is_that_of_the_checkout():
    git = subprocess.run(["git", "-C", room.PACKAGE, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    expected = git.stdout.strip() if git.returncode == 0 else None
    found = code_of(MAKER)["commit"]
    assert (found or "").removesuffix("+") == (expected or "")


def nothing(place, value):
    return pd.DataFrame({"value": [value]})


def test_a_run_keeps_its_code_and_counts_the_pieces_of_other_code(tmp_path):
    pieces = [Piece(f"{i}", nothing, {"value": i}) for i in range(3)]
    experiment = Experiment(
        "tiny", "Tiny", "nothing", lambda scale, seeds: pieces, lambda found, scale: Outcome({"results": found}, "", {})
    )
    order = Order([experiment], SCALES["quick"], None, tmp_path)
    reproduce(order)
    code = json.loads((tmp_path / "tiny" / "config.json").read_text())["code"]
    assert code["pieces_of_other_code"] == 0
    assert set(code) == {"module", "commit", "python", "modules", "pieces_of_other_code"}
    (tmp_path / "work" / "pieces" / f"{pieces[1].key}.code").write_text("another")
    reproduce(order)
    assert json.loads((tmp_path / "tiny" / "config.json").read_text())["code"]["pieces_of_other_code"] == 1
    assert age(tmp_path / "tiny").changed == ("1 pieces were kept from other code",)


def test_the_command_lists_them(tmp_path):
    code = code_of(MAKER)
    kept(tmp_path / "a", code)
    kept(tmp_path / "b", None)
    found = CliRunner().invoke(app, ["reproduce", "--old", "--out", str(tmp_path)])
    assert found.exit_code == 0, found.output
    lines = found.output.splitlines()
    assert lines[0].startswith("a: of ")
    assert lines[1:] == ["b: made before this was kept", "1 of 2 results may be of other code than what is installed"]
    as_json = json.loads(CliRunner().invoke(app, ["reproduce", "--old", "--json", "--out", str(tmp_path)]).output)
    assert [as_json[name]["old"] for name in ("a", "b")] == [False, True]
    missing = CliRunner().invoke(app, ["reproduce", "--old", "--out", str(tmp_path / "no")])
    assert missing.exit_code == 2
    told = " ".join(missing.output.replace("│", " ").split())
    assert "--old needs a folder of results as --out" in told
    assert "gsat reproduce --old --out results" in told


@pytest.mark.filterwarnings("default:results are older than the code")
def test_committed_results_that_are_older_than_the_code_are_listed():
    """A warning in the summary of pytest, with the list: code changes daily, results are measured now and then."""
    found = ages(RESULTS)
    assert {"low-rank", "shifts", "mnist-matched"} <= {one.name for one in found}
    assert all(one.changed is not None or one.commit is None for one in found)
    if old := [str(one) for one in found if one.old]:
        warnings.warn(f"results are older than the code: {'; '.join(old)}", UserWarning, stacklevel=1)
