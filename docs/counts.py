"""Print how long README is, and fail where it is longer than people read in two minutes."""

import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
MOST = {"lines": 150, "words": 1100, "characters in the widest table row": 110}


def counts(text: str) -> dict[str, int]:
    """By the names of `MOST`."""
    lines = text.splitlines()
    rows = [len(line) for line in lines if line.startswith("|")]
    return dict(zip(MOST, (len(lines), len(text.split()), max(rows, default=0)), strict=True))


def main(path: Path = README) -> int:
    """The exit code."""
    found = counts(path.read_text(encoding="utf-8"))
    told = [f"{found[name]} {name} (at most {most})" for name, most in MOST.items()]
    print(f"{path.name}: {', '.join(told)}")
    return int(any(found[name] > most for name, most in MOST.items()))


if __name__ == "__main__":
    sys.exit(main())
