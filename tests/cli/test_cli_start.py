"""What a command imports: nothing heavy for help and wrong options, no torch before the data is known to be right."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import gsat
from gsat import _defaults, registry
from gsat.cli import options
from gsat.cli.app import as_typed, user_errors
from gsat.estimators.from_table import Plan
from gsat.estimators.matching import Fill

HEAVY = ("torch", "numpy", "pandas", "sklearn", "scipy", "matplotlib", "anndata")
CALL = """
import json, sys
from gsat.cli import main
sys.argv = ["gsat", *json.loads(sys.argv[1])]
try:
    main()
except SystemExit as end:
    code = end.code
print(json.dumps({"code": code, "loaded": [name for name in json.loads(sys.stdin.read()) if name in sys.modules]}))
"""


def called(args, *, watched=HEAVY, cwd=None):
    """Output, exit code and which of the watched modules were imported, of the command in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", CALL, json.dumps([str(arg) for arg in args])],
        input=json.dumps(watched),
        capture_output=True,
        text=True,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    return " ".join([*said, done.stderr]), json.loads(last)


def test_the_version_is_printed():
    said, end = called(["--version"])
    assert said.split() == ["gsat", gsat.__version__]
    assert end == {"code": 0, "loaded": []}


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--help"], 0, "Train classifiers robust"),
        (["train", "--help"], 0, "Examples: gsat train"),
        (["predict", "--help"], 0, "Examples: gsat predict"),
        (["data", "--help"], 0, "list"),
        (["train", "digits", "--nope"], 2, "No such option"),
        (["trane"], 2, "No such command"),
        (["train", "digits", "--n-outer", "many"], 2, "--n-outer"),
        (["train", "digits", "--defence", "magic"], 2, "--defence must be one of erm, "),
        (["train", "digits", "--lam", "much"], 2, "--lam must be a number"),
        (["train", "digits", "--device", "tpu"], 2, "--device must be cpu, cuda, cuda:NUMBER or auto, got 'tpu'"),
        (["attack", "run", "--device", "cuda:x"], 2, "--device must be cpu, cuda, cuda:NUMBER or auto, got 'cuda:x'"),
        (["train", "digits", "--precision", "tf32"], 2, "--precision tf32 is of CUDA's tensor cores"),
        (["train", "digitz"], 2, "name must be one of digits, mnist"),
        (["compare", "digits", "--defences", "magic"], 2, "--defences must be of erm, "),
        (["compare", "digits", "--attacks", "hammer"], 2, "attack must be one of universal, "),
        (["compare", "digits", "--attacks", "low-rank:x"], 2, "an attack must read"),
        (["compare", "digits", "--seeds", "0"], 2, "--seeds must be >= 1, got 0"),
        (["data", "list"], 0, "mnist"),
        (["data", "fetch", "nothing"], 2, "name must be one of mnist, "),
        (["reproduce", "nothing"], 2, "NAME must be one of universal, "),
        (["reproduce", "low-rank", "--scale", "huge"], 2, "--scale must be one of cpu, overnight, paper, got 'huge'"),
        (["demo", "--out", __file__], 2, "--out must be a folder, got the file"),
        (["select", "x.csv", "--out", "x.txt"], 2, "--out must end in .csv or .tsv"),
    ],
)
def test_help_and_wrong_options_load_nothing_heavy(args, code, message):
    said, end = called(args)
    assert message in " ".join(said.split())
    assert end == {"code": code, "loaded": []}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A table, one without a column of it, and the folder of a run on it that has everything but real weights."""
    folder = tmp_path_factory.mktemp("room")
    frame = pd.DataFrame(np.arange(24.0).reshape(8, 3), columns=["a", "b", "c"]).assign(kind=["x", "y"] * 4)
    frame.to_csv(folder / "table.csv", index=False)
    (folder / "run" / "model").mkdir(parents=True)
    (folder / "run" / "model" / "model.json").write_text("{}")
    config = {"data": str(folder / "table.csv"), "label": "kind", "rows_checksum": "0", "per_batch": False}
    (folder / "run" / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "table.csv", "--label", "typo"], "must have the column that label='typo' names"),
        (["train", "table.csv", "--label", "kind", "--batch", "typo"], "must have the column that batch='typo' names"),
        (["train", "table.csv"], "--label must name the column"),
        (["train", "absent.csv", "--label", "kind"], "absent.csv is missing"),
        (["train", "table.csv", "--label", "kind", "--test-batch", "z"], "--test-batch needs --batch"),
        (["train", "table.csv", "--label", "kind", "--one-hot"], "one_hot must not be given"),
        (["compare", "table.csv", "--label", "typo"], "must have the column that label='typo' names"),
        (["select", "table.csv", "--label", "typo"], "must have the column that label='typo' names"),
        (["select", "nothing", "--label", "kind"], "name must be one of digits, "),
        (["diagnose", "table.csv", "--batch", "typo"], "must have the column that batch='typo' names"),
        (["diagnose", "table.csv", "--label", "kind"], "--batch must name the column"),
        (["predict", "run", "absent.csv"], "absent.csv is missing"),
        (["predict", "run", "table.csv", "--label", "typo"], "must have the column that label='typo' names"),
        (["attack", "run", "--data", "absent.csv"], "absent.csv is missing"),
        (["attack", "run", "--structure", "hammer"], "attack must be one of universal, "),
        (["attack", "run"], "but its content changed since"),
        (["data", "info", "table.csv", "--label", "typo"], "must have the column that label='typo' names"),
    ],
)
def test_wrong_data_is_told_before_torch_is_loaded(args, message, room):
    said, end = called(args, watched=("torch", "sklearn", "matplotlib"), cwd=room)
    assert message in " ".join(said.split())
    assert end == {"code": 2, "loaded": []}
    assert sorted(path.name for path in room.iterdir()) == ["run", "table.csv"]


def test_reading_data_needs_no_torch(room):
    said, end = called(["data", "info", "table.csv", "--label", "kind"], watched=("torch",), cwd=room)
    assert "x 4, y 4" in said
    assert end == {"code": 0, "loaded": []}


def test_the_options_have_the_names_that_the_library_knows():
    for ask, names in (
        (lambda name: registry.named(name, eps=1.0), _defaults.DEFENCES),
        (lambda name: registry.parse_attack(name, 1.0), _defaults.ATTACKS),
        (registry.structure_cost, _defaults.STRUCTURES),
    ):
        assert all(ask(name) is not None for name in names)
        with pytest.raises(ValueError, match=f"must be one of {', '.join(names)}, got 'nothing'"):
            ask("nothing")
    assert options.MissingFeatures.__origin__ == Fill


def test_the_options_have_the_defaults_of_the_library():
    plan, clf = Plan("erm"), gsat.GSATClassifier()
    for name in ("n_outer", "group_size", "eta0", "schedule", "solver", "lam"):
        assert getattr(_defaults, name.upper()) == getattr(plan, name) == getattr(clf, name)
    assert Plan(clf.structure).inner == clf.n_inner == _defaults.N_INNER_GSAT
    assert Plan("pgd").inner == gsat.PGDClassifier().n_inner == _defaults.N_INNER
    assert clf.structure == _defaults.STRUCTURE
    assert plan.size == clf.budget == _defaults.BUDGET
    assert gsat.PGDClassifier().eps == _defaults.EPS
    assert gsat.attacks.PGD(1.0).steps == _defaults.STEPS


@pytest.mark.filterwarnings("default")
def test_warnings_for_programmers_are_not_shown_to_users(capsys):
    @user_errors
    def command():
        warnings.warn("pandas will change", FutureWarning, stacklevel=1)
        warnings.warn("one batch holds one class", UserWarning, stacklevel=1)

    command()
    assert capsys.readouterr().err == "gsat: warning: one batch holds one class\n"


def test_remedies_name_options_as_they_are_typed():
    said = "the loss fell over 10 groups of n_outer; take a larger n_outer, another eta0, or a smaller budget"
    typed = "the loss fell over 10 groups of n_outer; take a larger --n-outer, another --eta0, or a smaller --budget"
    assert as_typed(said) == typed
    assert as_typed("a budget of 0.1 is large") == "a budget of 0.1 is large"
