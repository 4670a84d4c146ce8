"""Of which code results are: what they were made by is kept with them, and compared with the code that is there now."""

from __future__ import annotations

import ast
import hashlib
import json
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gsat.experiments.plan import read_config

PACKAGE = Path(__file__).parents[1]
ROOMS = (  # whose code may change a number; the others read, check, show and write
    "_arrays", "_defaults", "losses", "costs", "models", "solvers", "shortcuts", "adversary", "attacks", "defences",
    "registry", "training", "evaluation", "estimators", "selectors", "experiments", "data/sets", "data/synthetic",
)  # fmt: skip
SHOWING = tuple(
    f"experiments/{name}" for name in ("age", "digest", "digest_tables", "paper", "pictures", "plan", "runner")
)
NONE_KEPT = "made before this was kept"


@dataclass(frozen=True)
class Age:
    """What is known of the results in a folder.

    commit:  of the code that made them, with "+" where files were changed beside it; None where that is not known
    changed: modules that are not as they were, or are gone; None where nothing was kept
    """

    name: str
    commit: str | None
    changed: tuple[str, ...] | None

    @property
    def old(self) -> bool:
        """Whether they may be of other code than what is there."""
        return self.changed is None or len(self.changed) > 0

    def __str__(self) -> str:
        if self.changed is None:
            return f"{self.name}: {NONE_KEPT}"
        of = "of a commit that is not known" if self.commit is None else f"of {self.commit[:12]}"
        if not self.changed:
            return f"{self.name}: {of}, as the code is"
        return f"{self.name}: {of}, changed since: {', '.join(self.changed)}"


def code_of(module: str) -> dict[str, Any]:
    """What config.json keeps of the code that makes results: the commit, and a fingerprint of each module that counts.

    module: the one that makes them, "gsat.experiments.biology"
    """
    prints = {path: _fingerprint(PACKAGE / path) for path in sorted(dependencies(module))}
    return {"module": module, "commit": _commit(), "python": _python(), "modules": prints}


@lru_cache(maxsize=64)
def digest(module: str) -> str:
    """One fingerprint of all the code that a module's results are made by; that of the first call in a process."""
    return hashlib.sha256(json.dumps(code_of(module)["modules"]).encode()).hexdigest()[:20]


def dependencies(module: str) -> set[str]:
    """The files of gsat, as "solvers/admm.py", that the module and its imports import, if they may change a number."""
    waiting, found = [_path(module)], set()
    while waiting:
        path = waiting.pop()
        if path is None or path in found or not _counts(path):
            continue
        found.add(path)
        waiting += [_path(name) for name in _imports(PACKAGE / path)]
    return found


def age(folder: Path) -> Age:
    """Of the results in one folder."""
    code = read_config(folder).get("code")
    kept = code.get("modules") if isinstance(code, dict) else None
    if not isinstance(code, dict) or not isinstance(kept, dict) or code.get("python") != _python():
        return Age(folder.name, _text(code, "commit"), None)
    now = code_of(str(code.get("module")))["modules"]
    changed = sorted(path for path in {*kept, *now} if kept.get(path) != now.get(path))
    if others := code.get("pieces_of_other_code"):
        changed.append(f"{others} pieces were kept from other code")
    return Age(folder.name, _text(code, "commit"), tuple(changed))


def ages(out: Path) -> list[Age]:
    """Of the results in all folders inside `out`, by name."""
    return [age(path) for path in sorted(out.iterdir()) if (path / "config.json").is_file()]


def _text(code: Any, name: str) -> str | None:
    found = code.get(name) if isinstance(code, dict) else None
    return found if isinstance(found, str) else None


def _python() -> str:
    """The version by which syntax trees are written down: they differ between versions."""
    return ".".join(platform.python_version_tuple()[:2])


def _counts(path: str) -> bool:
    stem = path.removesuffix(".py")
    return stem not in SHOWING and any(stem == room or stem.startswith(f"{room}/") for room in ROOMS)


def _path(module: str) -> str | None:
    """The file of a module, or of that in which a name is: gsat.solvers.ADMM is in solvers/__init__.py."""
    parts = module.split(".")
    if parts[0] != "gsat":
        return None
    for length in range(len(parts), 1, -1):
        stem = "/".join(parts[1:length])
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            if (PACKAGE / path).is_file():
                return path
    return None


def _imports(path: Path) -> tuple[str, ...]:
    return _read(path, path.stat().st_mtime_ns)[0]


def _fingerprint(path: Path) -> str:
    return _read(path, path.stat().st_mtime_ns)[1]


@lru_cache(maxsize=512)
def _read(path: Path, changed: int) -> tuple[tuple[str, ...], str]:
    """What a file imports, and a fingerprint of its code alone: comments, docstrings and layout do not count."""
    tree, names = ast.parse(path.read_text(encoding="utf-8")), list[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            node.body = body[1:]  # type: ignore[attr-defined]
    return tuple(names), hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:12]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _commit() -> str | None:
    """The commit that is checked out where gsat is, with "+" if files of it were changed; None outside a checkout."""
    found = _git("rev-parse", "HEAD")
    if found is None or _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return found + ("+" if _git("status", "--porcelain", "--untracked-files=no", ".") else "")


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(PACKAGE), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def listed(found: list[Age]) -> Mapping[str, Any]:
    """As JSON."""
    return {one.name: {"commit": one.commit, "old": one.old, "changed": one.changed} for one in found}
