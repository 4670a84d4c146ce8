"""Who may import whom: a module imports from the layers below its own, and torch alone up to the defences."""

import ast
import sys
from pathlib import Path

import pytest

import gsat

ROOT = Path(gsat.__file__).parent
LAYERS = (  # a module may be missing, but none may be outside
    ("_checks",),
    ("_numeric",),
    ("_subspace",),
    ("_spectrum",),
    ("_unread",),
    ("columns", "costs", "curvature", "models"),
    ("implicit",),
    ("grouping",),
    ("oracle",),
    ("reduce",),
    ("active", "layout"),
    ("moved",),
    ("solvers",),
    ("adversary", "duality"),
    ("balls", "sanity"),
    ("flat",),
    ("attacks",),
    ("defences",),
    ("_intervals", "data", "checkpoint", "control", "process", "sampling", "transport"),
    ("history", "persist", "transforms"),
    ("certificate", "run", "theory"),
    ("train",),
    ("evaluation", "standardise"),
    ("diagnosis", "elimination"),
    ("fitting",),
    ("saving",),
    ("classifying",),
    ("baselines",),
    ("estimators",),
    ("selectors",),
    ("alignment",),
    ("tl",),
    ("__init__",),
    ("experiments", "report"),
    ("cli",),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
ONLY = {"data": {"_checks"}, "report": set()}  # these may import less than their layer allows
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
        return [f"{path} is in no layer"]
    found = []
    for name in imports(ast.walk(tree)):
        top, _, rest = name.partition(".")
        if top == "":
            found.append(f"{path} imports {name}: write the full name")
        elif top == "gsat":
            other = rest.split(".")[0]
            other = other if other in LEVEL else "__init__"
            if other != me and (LEVEL[other] >= LEVEL[me] or other not in ONLY.get(me, {other})):
                found.append(f"{path} imports {name}")
    if LEVEL[me] <= LEVEL["defences"]:
        tops = {name.split(".")[0] for name in imports(at_top(tree))}
        found += [f"{path} imports {top}" for top in sorted(tops - sys.stdlib_module_names - {"gsat", "torch", ""})]
    return found


@pytest.mark.parametrize("path", MODULES)
def test_modules_import_from_below(path):
    assert faults(path, (ROOT / path).read_text(encoding="utf-8")) == []


def test_the_modules_are_there():
    assert {"costs.py", "oracle.py", "solvers/inner.py", "adversary.py", "__init__.py"} <= set(MODULES)


@pytest.mark.parametrize(
    ("path", "source", "fault"),
    [
        ("costs.py", "import torch\nfrom gsat import _checks\nfrom gsat._spectrum import singular_values", None),
        ("costs.py", "from gsat.models import ELUNet", "costs.py imports gsat.models.ELUNet"),
        ("costs.py", "def f():\n    from gsat.solvers import ADMM", "costs.py imports gsat.solvers.ADMM"),
        ("costs.py", "from gsat import LowRank", "costs.py imports gsat.LowRank"),
        ("costs.py", "from . import oracle", "costs.py imports ..oracle: write the full name"),
        ("costs.py", "if True:\n    import numpy.linalg as la", "costs.py imports numpy"),
        ("costs.py", "def f():\n    import numpy", None),
        ("solvers/admm.py", "from gsat.solvers.protocol import start\nfrom gsat.oracle import Oracle", None),
        ("solvers/admm.py", "import gsat.adversary", "solvers/admm.py imports gsat.adversary"),
        ("data/table.py", "import numpy\nfrom gsat import _checks\nfrom gsat.data.bundled import digits", None),
        ("data/table.py", "from gsat import costs", "data/table.py imports gsat.costs"),
        ("train.py", "import tqdm\nfrom gsat.defences import GSAT", None),
        ("cli.py", "import gsat\nfrom gsat import __version__, data", None),
        ("report/page.py", "from gsat.costs import LowRank", "report/page.py imports gsat.costs.LowRank"),
        ("helpers.py", "", "helpers.py is in no layer"),
    ],
)
def test_the_rule_itself(path, source, fault):
    assert faults(path, source) == ([] if fault is None else [fault])
