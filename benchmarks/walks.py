"""How far one walks through the code: files and functions on four walks, levels of imports, lines, and start-up.

`python benchmarks/walks.py` measures the gsat that Python imports; with another tree in PYTHONPATH it measures that
one. The walk `reproduce` needs MNIST (`gsat data fetch mnist`). Functions are counted by their definitions: what is
nested in a function, comprehensions and lambdas among it, belongs to that function; bodies of modules and classes are
no functions. A file is counted where a function of it is entered, not where it is only imported.
"""

import ast
import inspect
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROUNDS = 5  # child processes of which the median is taken
CORE = (  # of the new tree, then of the one before it; what is not there counts nothing
    "costs", "solvers", "shortcuts", "_arrays", "adversary.py",
    "costs.py", "grouping.py", "oracle.py", "reduce.py", "moved.py", "active.py", "columns.py", "implicit.py",
    "_numeric.py", "_spectrum.py", "_subspace.py", "_unread.py", "standardise.py",
)  # fmt: skip
Graph = dict[str, set[str]]


def package() -> Path:
    """The folder of the gsat that is measured."""
    spec = find_spec("gsat")
    if spec is None or spec.origin is None:
        sys.exit("gsat must be importable; set PYTHONPATH to the src folder of a tree")
    return Path(spec.origin).resolve().parent


# The walks, each in a process of its own


def train(room: Path) -> None:
    rows = [[f"{(7 * i + 3 * j) % 11 - 5 * (i % 2)}" for j in range(6)] + [("a", "b")[i % 2]] for i in range(60)]
    lines = [[f"x{j}" for j in range(6)] + ["kind"], *rows]
    (room / "table.csv").write_text("\n".join(",".join(line) for line in lines) + "\n", encoding="utf-8")
    _command("train", str(room / "table.csv"), "--label", "kind", "--n-outer", "3", "--out", str(room / "run"))


def fit(room: Path) -> None:
    import numpy as np

    import gsat

    X = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    gsat.GSATClassifier(n_outer=3).fit(X, (X[:, 0] > 0).astype(int))


def attack(room: Path) -> None:
    import torch

    import gsat

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ELU(), torch.nn.Linear(10, 2)).eval()
    x = torch.randn(60, 6)
    gsat.attacks.LowRank(0.5, rank=2, steps=10)(model, x, (x[:, 0] > 0).long())


def reproduce(room: Path) -> None:
    _command("reproduce", "lam-norm", "--quick", "--seeds", "1", "--jobs", "1", "--out", str(room / "results"))


def _command(*args: str) -> None:
    from gsat.cli import app

    app(list(args), standalone_mode=False)


WALKS: dict[str, Callable[[Path], None]] = {"train": train, "fit": fit, "attack": attack, "reproduce": reproduce}


def walked(name: str) -> tuple[int, int]:
    """The number of files and functions of gsat that are entered on the walk; runs in a child process."""
    root, seen = f"{package()}{os.sep}", set[CodeType]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    with tempfile.TemporaryDirectory() as room:
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            WALKS[name](Path(room))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    functions = {
        (code.co_filename, code.co_qualname.partition("<")[0].rstrip("."))
        for code in seen
        if code.co_filename.startswith(root)
        and not code.co_qualname.startswith("<")  # a module, or a comprehension or lambda in its body
        and code.co_flags & inspect.CO_OPTIMIZED  # not the body of a class
    }
    return len({path for path, _ in functions}), len(functions)


# Imports


def imports(root: Path, *, later: bool = False) -> Graph:
    """For each module, the modules of gsat that importing it imports, its parent packages aside.

    later: also those that its functions import when they are called
    """
    modules = {_dotted(path, root): path for path in root.rglob("*.py")}
    graph: Graph = {}
    for name, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = (target for node in _nodes(tree, later) for target in _targets(node, modules))
        graph[name] = {target for target in found if target != name}
    return graph


def _dotted(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _nodes(tree: ast.AST, later: bool) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported, with `later` also those in functions; nothing for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not later:
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _nodes(node, later)


def _targets(node: ast.AST, modules: dict[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)
    elif isinstance(node, ast.ImportFrom) and node.module in modules:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in modules else str(node.module)


def rooms(graph: Graph) -> Graph:
    """The same imports between the packages and modules of the root."""
    found: Graph = {}
    for name, targets in graph.items():
        mine = _room(name)
        found.setdefault(mine, set()).update(room for target in targets if (room := _room(target)) != mine)
    return found


def _room(name: str) -> str:
    return ".".join(name.split(".")[:2])


def longest_chain(graph: Graph) -> int:
    """The number of nodes on the longest path, modules that import each other in a circle counting as one."""
    circle = _circles(graph)
    between: Graph = {}
    for name, targets in graph.items():
        between.setdefault(circle[name], set()).update(circle[each] for each in targets)
    known: dict[str, int] = {}

    def length(node: str) -> int:
        if node not in known:
            known[node] = 1 + max((length(each) for each in between[node] if each != node), default=0)
        return known[node]

    return max(map(length, between))


def _circles(graph: Graph) -> dict[str, str]:
    """For each node, one that stands for all those which it reaches and which reach it."""
    reach = {name: _reached(name, graph) for name in graph}
    return {name: min({name, *(each for each in reach[name] if name in reach[each])}) for name in graph}


def _reached(start: str, graph: Graph) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


# Lines and seconds


def lines(*paths: Path) -> int:
    """Of the files, and of those in the folders."""
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]) if file.exists()]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def cpu_seconds(*args: str) -> float:
    """The median of what the command takes in a new process, after one that does not count."""
    found = []
    for _ in range(ROUNDS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *args], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found[1:])


def main() -> None:
    root = package()
    graph = imports(root)
    print(f"gsat in {root.parent.name}/, {len(graph)} modules")
    for name in WALKS:
        called = [sys.executable, __file__, name]
        done = subprocess.run(called, check=False, capture_output=True, text=True)
        if done.returncode:
            print(f"{f'walk {name}':<36} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
            continue
        files, functions = json.loads(done.stdout.splitlines()[-1])
        print(f"{f'walk {name}':<36} {files} files, {functions} functions")
    rows = {
        "modules in the root": len(list(root.glob("*.py"))) - 1,  # not __init__.py
        "levels of packages": longest_chain(rooms(imports(root, later=True))),
        "longest chain of modules": longest_chain(graph),
        "lines of src": lines(root),
        "lines of the core": lines(*(root / name for name in CORE)),
        "CPU seconds of import gsat": cpu_seconds("-c", "import gsat"),
        "CPU seconds of gsat --help": cpu_seconds("-m", "gsat", "--help"),
    }
    for name, value in rows.items():
        print(f"{name:<36} {value:.2f}" if isinstance(value, float) else f"{name:<36} {value:,}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(walked(sys.argv[1])))
    else:
        main()
