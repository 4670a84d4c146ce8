"""Write the tables of our results into README and pages of docs/ from the folders in results/, between their marks."""

from collections.abc import Callable
from pathlib import Path

from gsat.experiments.digest import differences_table, paper_sections, sets_table, shifts_table, short_shifts_table
from table import ROOT, put_into

RESULTS = ROOT / "results"
CHOOSE, PAPER = ROOT / "docs" / "choose.md", ROOT / "docs" / "results" / "paper.md"
TABLES: dict[str, tuple[Path, Callable[[Path], str]]] = {
    "paper": (PAPER, paper_sections),
    "differences": (CHOOSE, differences_table),
    "shifts": (CHOOSE, shifts_table),
    "shifts-short": (ROOT / "README.md", short_shifts_table),
    "shift-sets": (CHOOSE, sets_table),
}


def filled(page: str, name: str) -> str:
    """The page with the table of that name as it is found now."""
    return put_into(page, TABLES[name][1](RESULTS), (f"<!-- {name} -->", f"<!-- /{name} -->"))


def main() -> None:
    for name, (path, _) in TABLES.items():
        path.write_text(filled(path.read_text(encoding="utf-8"), name), encoding="utf-8")


if __name__ == "__main__":
    main()
