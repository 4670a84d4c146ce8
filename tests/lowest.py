"""Print the dependencies of pyproject.toml at the lowest versions that it allows: `make test-lowest` installs them."""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def lowest(requirement: str) -> str:
    """The requirement with its lower bound as the only version."""
    found = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement)
    if found is None:
        raise ValueError(f"a dependency must read 'name>=version', got {requirement!r}")
    return f"{found[1]}=={found[2]}.*"


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    print(*map(lowest, project["dependencies"]))  # noqa: T201
