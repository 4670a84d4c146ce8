"""Print the dependencies of pyproject.toml at the lowest versions that it allows: `make test-lowest` installs them.

Requirements that are given (`python tests/lowest.py torch==2.13.0`) take the place of the lowest of that name.
"""

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def name_of(requirement: str) -> str:
    """What comes before the version."""
    return re.split(r"[=<>~!]", requirement)[0]


def lowest(requirement: str, instead: list[str]) -> str:
    """The requirement with its lower bound as the only version, or what is given instead."""
    for other in instead:
        if name_of(other) == name_of(requirement):
            return other
    found = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement)
    if found is None:
        raise ValueError(f"a dependency must read 'name>=version', got {requirement!r}")
    return f"{found[1]}=={found[2]}.*"


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    print(*(lowest(requirement, sys.argv[1:]) for requirement in project["dependencies"]))  # noqa: T201
