"""Write README's table of the paper's results and ours from the folders in results/, between its two marks."""

from pathlib import Path

from gsat.experiments.reproducing import paper_table
from table import README, put_into

RESULTS = Path(__file__).parents[1] / "results"
MARKS = ("<!-- paper -->", "<!-- /paper -->")


def main() -> None:
    page = README.read_text(encoding="utf-8")
    README.write_text(put_into(page, paper_table(RESULTS), MARKS), encoding="utf-8")


if __name__ == "__main__":
    main()
