"""The first sheet of an .xlsx workbook, row by row as text, as a .csv file of it would have it."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from gsat.data.readers.apart import answers
from gsat.data.readers.columns import headed
from gsat.data.rules import brief, listed, needs

Rows = Generator[tuple[int, list[str]], None, None]  # number and cells


def sheet_rows(path: Path) -> Rows:
    """Row number and cells of the header, whose names are distinct, then of every row that is not empty.

    Rows that end before the header does are filled with empty cells.
    """
    needs("openpyxl", "openpyxl", ".xlsx")
    header: list[str] = []
    with closing(answers(path, "Excel", {})) as found:
        for name, value in found:
            if name == "others" and value["others"]:
                warnings.warn(
                    f"{path} has more than one sheet: the first, {brief(value['first'])}, is read, and not "
                    f"{listed(value['others'])}",
                    stacklevel=2,
                )
            for number, cells in value if name == "rows" else ():
                if not header:
                    header = cells
                    headed(path, f"row {number}", header)
                elif len(cells) > len(header):
                    raise ValueError(
                        f"{path}, row {number} must have at most {len(header)} cells as the header has, "
                        f"got {len(cells)}"
                    )
                yield number, cells + [""] * (len(header) - len(cells))
    if not header:
        raise ValueError(f"{path} must start with a header of column names, got an empty first sheet")
