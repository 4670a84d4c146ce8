"""The rooms of the house: who may import whom, torch alone up to the defences, and what each room says of itself."""

import ast
import sys
from pathlib import Path

import pytest

import gsat

ROOT = Path(gsat.__file__).parent
LEVELS = (  # packages and root modules; each imports only from levels above it in this list
    {"_checks", "_defaults", "_files", "_ranks", "_show"},
    {"_arrays", "data"},
    {"losses", "costs", "metric", "models"},
    {"solvers", "diagnosis"},
    {"shortcuts"},
    {"adversary", "attacks"},
    {"defences"},
    {"registry", "rivals", "training", "evaluation", "theory", "transport"},
    {"estimators"},
    {"selectors"},
    {"experiments", "report"},
    {"cli", "pl", "tl"},
    {"__init__", "__main__"},
)
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
ONLY = {  # these may import less than their level allows
    "data": {"_checks", "_files", "_show"},
    "diagnosis": {"_checks", "_files", "_show", "_arrays", "data", "costs"},
    "report": {"_files"},
}
WITH_MORE = {  # the rest: torch alone
    "_files/locks.py": {"filelock"},
    "_arrays/chunks.py": {"numpy"},
    "_arrays/standardise.py": {"numpy", "scipy"},
}
NEVER = {"data": {"torch"}, "cli": {"torch"}}  # not even inside a function: wrong data is told before torch is loaded
EXPERIMENTING = {"compare", "demo", "reproduce", "check"}  # the commands that may import experiments
LONGEST = 300  # lines of a module
CORE, MOST = ("costs", "solvers", "shortcuts", "_arrays", "adversary"), 2600  # lines of all of these
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


def owner(path):
    """The module or package of gsat that a file belongs to: `solvers` for solvers/admm.py."""
    return path.split("/")[0].removesuffix(".py")


def imports(nodes):
    """The dotted names that import statements among the nodes bring in."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def at_top(tree):
    """The nodes that run when the module is imported: those outside functions."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_top(node)


def faults(path, source):
    """What a file imports and must not."""
    tree, me = ast.parse(source), owner(path)
    if me not in LEVEL:
        return [f"{path} is in no room"]
    found = []
    for name in imports(ast.walk(tree)):
        top, _, rest = name.partition(".")
        if top == "":
            found.append(f"{path} imports {name}: write the full name")
        elif top == "gsat":
            other = rest.split(".")[0]
            if me in ("cli", "experiments") and rest == "__version__":
                continue
            other = other if other in LEVEL else "__init__"
            if (other != me and (LEVEL[other] >= LEVEL[me] or other not in ONLY.get(me, {other}))) or (
                me == "cli" and other == "experiments" and Path(path).stem not in EXPERIMENTING
            ):
                found.append(f"{path} imports {name}")
        elif top in NEVER.get(me, ()):
            found.append(f"{path} imports {top}")
    if LEVEL[me] <= LEVEL["defences"] and me not in ("data", "diagnosis"):
        tops = {name.split(".")[0] for name in imports(at_top(tree))}
        allowed = sys.stdlib_module_names | {"gsat", "torch", ""} | WITH_MORE.get(path, set())
        found += [f"{path} imports {top}" for top in sorted(tops - allowed)]
    return found


@pytest.mark.parametrize("path", MODULES)
def test_modules_import_from_below(path):
    assert faults(path, (ROOT / path).read_text(encoding="utf-8")) == []


def test_the_modules_are_there():
    assert {"costs/base.py", "solvers/oracle.py", "solvers/inner.py", "adversary.py", "__init__.py"} <= set(MODULES)


def test_pages_stay_short_and_the_core_small():
    lines = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert [f"{path}: {n} lines" for path, n in lines.items() if n > LONGEST] == []
    assert sum(n for path, n in lines.items() if owner(path) in CORE) <= MOST


@pytest.mark.parametrize(
    "package", sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("__init__.py"))
)
def test_every_package_says_what_it_is_for(package):
    says = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")))
    assert says
    assert says.splitlines()[0].endswith((".", ":"))


def test_every_public_name_is_there():
    assert all(getattr(gsat, name) is not None for name in gsat.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gsat.nothing


def test_type_checkers_see_the_public_names():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    found = {name.rpartition(".")[::2][::-1] for name in imports(ast.walk(block))}
    assert found == {*gsat._HOME.items(), *((room, "gsat") for room in gsat._ROOMS)}


@pytest.mark.parametrize(
    ("path", "source", "fault"),
    [
        ("costs/base.py", "import torch\nfrom gsat import _checks\nfrom gsat._arrays.svd import singular_values", None),
        ("costs/base.py", "from gsat.models import ELUNet", "costs/base.py imports gsat.models.ELUNet"),
        ("costs/base.py", "def f():\n    from gsat.solvers import ADMM", "costs/base.py imports gsat.solvers.ADMM"),
        ("costs/base.py", "from gsat import LowRank", "costs/base.py imports gsat.LowRank"),
        ("costs/base.py", "from . import scaled", "costs/base.py imports ..scaled: write the full name"),
        ("costs/base.py", "if True:\n    import numpy.linalg as la", "costs/base.py imports numpy"),
        ("costs/base.py", "def f():\n    import numpy", None),
        ("_arrays/standardise.py", "import numpy", None),
        ("solvers/admm.py", "from gsat.solvers.base import start\nfrom gsat.costs import GroupCost", None),
        ("solvers/admm.py", "import gsat.adversary", "solvers/admm.py imports gsat.adversary"),
        ("adversary.py", "from gsat.attacks import PGD", "adversary.py imports gsat.attacks.PGD"),
        ("attacks/pgd.py", "from gsat.adversary import Adversary", "attacks/pgd.py imports gsat.adversary.Adversary"),
        ("data/table.py", "import numpy\nfrom gsat import _checks\nfrom gsat.data.sets.bundled import digits", None),
        ("data/table.py", "def f():\n    from torch import Tensor", "data/table.py imports torch"),
        ("data/table.py", "from gsat import costs", "data/table.py imports gsat.costs"),
        ("training/loop.py", "import tqdm\nfrom gsat.defences import GSAT", None),
        ("cli/app.py", "from gsat import __version__, data", None),
        ("experiments/runner.py", "from gsat import __version__", None),
        ("cli/train.py", "from gsat.experiments import plan", "cli/train.py imports gsat.experiments.plan"),
        ("cli/demo.py", "from gsat.experiments import plan", None),
        ("report/page.py", "from gsat.costs import LowRank", "report/page.py imports gsat.costs.LowRank"),
        ("helpers.py", "", "helpers.py is in no room"),
    ],
)
def test_the_rule_itself(path, source, fault):
    assert faults(path, source) == ([] if fault is None else [fault])
