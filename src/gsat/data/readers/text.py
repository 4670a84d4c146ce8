"""Tables of numbers in .csv, .tsv and .xlsx files."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterator
from contextlib import closing
from itertools import tee
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.asked import now
from gsat.data.memory import fits
from gsat.data.readers.columns import SHEET_ERRORS, annotation, checked, headed
from gsat.data.readers.xlsx import Rows, sheet_rows
from gsat.data.rules import NAME_IT, among, brief, listed, not_utf8
from gsat.data.table import Table

SEPARATORS = {".csv": ",", ".tsv": "\t"}
SHEET = ".xlsx"
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null"})  # how R, pandas and databases write it
LONGEST = 2**26  # characters of a line
SAMPLE, SAMPLES = 2**20, 8  # bytes read at once, and how often, to estimate the rows of a file
ROW, CELL = 40, 80  # bytes in memory of a row beside its numbers, and of a label, batch or id
NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d+)?")  # "01" is a name: it would not print as it came


def read_text(path: Path, *, label: str | None = None, batch: str | None = None, ids: str | None = None) -> Table:
    """A .csv or .tsv file in UTF-8, or the first sheet of an .xlsx: a header, then one sample per line.

    All columns but those named are features.

    A first column without a name, as R and pandas write the row names, holds the ids unless `ids` names
    another. Labels and batches are numbers if all of them are written as numbers (01 is not), else text.
    """
    with closing(table_rows(path)) as rows:
        return _table(path, rows, {"ids": ids, "label": label, "batch": batch})


def _table(path: Path, rows: Iterator[tuple[int, list[str]]], special: dict[str, str | None]) -> Table:
    """The table of these rows, of which the first is the header; `special` names the columns that are no features."""
    place = "row" if path.suffix.lower() == SHEET else "line"
    _, header = next(rows)
    if not header[0] and special["ids"] is None:
        special["ids"] = ""
    at = {
        option: header.index(among(path, option, name, header, "column"))
        for option, name in special.items()
        if name is not None
    }
    unused = {0} if not header[0] else set()  # row names are never features
    others = [j for j in range(len(header)) if j not in {*at.values(), *unused}]
    chosen = set(now().kept(path, [header[j] for j in others]))
    features = [j for j in others if header[j] in chosen]
    if (known := now().known) is not None:  # of a model: what else is in the file need not be numbers
        rows, ahead = tee(rows)
        _, first = next(ahead, (0, header))
        del ahead
        features = [j for j in features if header[j] in known or _is_number(first[j])]
    if place == "line":  # of a sheet, rows are counted before they are read
        _check_size(path, len(features), len(at))
    kept: dict[str, list[str]] = {option: [] for option in at}
    lines: list[int] = []
    numbers = array("f")  # grows in place: the matrix is never there twice
    for line, cells in rows:
        lines.append(line)
        for option, j in at.items():
            if cells[j] in SHEET_ERRORS:
                raise ValueError(
                    f"{path}, {place} {line}, column {brief(header[j])} must have a value, got {cells[j]}, an error of "
                    f"a spreadsheet; correct it, or empty the cell"
                )
            kept[option].append("" if cells[j].strip() in MISSING else cells[j])
        numbers.extend(_numbers(path, f"{place} {line}", cells, header, features))
    X = np.frombuffer(numbers, np.float32) if numbers else np.empty(0, np.float32)

    def row(i: int) -> str:
        return f"{place} {lines[i]}"

    found = {option: annotation(path, f"{option}={special[option]!r}", values, row) for option, values in kept.items()}
    return checked(
        path,
        row,
        X=X.reshape(len(lines), len(features)),
        y=as_numbers(found["label"]) if "label" in at else None,
        batch=as_numbers(found["batch"]) if "batch" in at else None,
        feature_names=tuple(header[j] for j in features),
        sample_ids=tuple(found["ids"].tolist()) if "ids" in at else None,
    )


def table_rows(path: Path, separator: str = "\t") -> Rows:
    """What `text_rows` or `sheet_rows` give, by the ending of the file; other endings are text with the separator."""
    ending = path.suffix.lower()
    return sheet_rows(path) if ending == SHEET else text_rows(path, SEPARATORS.get(ending, separator))


def text_rows(path: Path, separator: str) -> Rows:
    """Line number and cells of the header, whose names are distinct, then of every line with as many cells."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(_lines(path, stream), delimiter=separator, strict=True)
        header: list[str] = []
        try:
            for cells in rows:
                if not header and any("\0" in cell for cell in cells):
                    raise not_utf8(path)
                if not header and cells:
                    header = cells
                    headed(path, f"line {rows.line_num}", header)
                elif cells and len(cells) != len(header):
                    raise ValueError(
                        f"{path}, line {rows.line_num} must have {len(header)} cells as the header has, "
                        f"got {len(cells)}"
                    )
                if cells:
                    yield rows.line_num, cells
        except UnicodeDecodeError as error:
            raise not_utf8(path) from error
        except csv.Error as error:
            raise ValueError(f"{path}, line {rows.line_num} must be a line of a table, got: {error}") from error
    if not header:
        raise ValueError(f"{path} must start with a header of column names, got an empty file")


def _lines(path: Path, stream: IO[str]) -> Iterator[str]:
    """The lines of a file, each of which must end some time: a file without line breaks would be one of gigabytes."""
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise ValueError(
                f"{path}, line {number} must have at most {LONGEST} characters, got more; is it a table of text?"
            )
        yield line


def _check_size(path: Path, n_features: int, n_kept: int) -> None:
    """Raise unless the table fits into memory; its rows are estimated from samples of the file."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        starts = [0] if size <= SAMPLE else [(size - SAMPLE) * i // SAMPLES for i in range(SAMPLES + 1)]
        seen = [stream.read(SAMPLE) for start in starts if stream.seek(start) == start]
    rows = sum(block.count(b"\n") for block in seen) * size // max(sum(map(len, seen)), 1) - 1
    fits(path, f"about {rows} rows of {n_features} numbers", rows * (4 * n_features + ROW + CELL * n_kept))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip() in MISSING
    return True


def as_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Text that is all written as whole numbers as int64, as numbers as float64, else as it is."""
    matches = [NUMBER.fullmatch(value) for value in values.tolist()]
    if not matches or not all(matches):
        return values
    return values.astype(np.float64 if any(match and match.lastindex != 1 for match in matches) else np.int64)


def _numbers(path: Path, place: str, cells: list[str], header: list[str], features: list[int]) -> list[float]:
    """The features of one line of text; what is missing is NaN."""
    wanted = [cells[j] for j in features]
    try:
        if "_" not in "".join(wanted):  # float() reads 1_2 as 12
            return list(map(float, wanted))
    except ValueError:
        pass
    if text := [j for j in features if "_" in cells[j] or not _is_number(cells[j])]:
        first, *others = text
        also = f", and so must {listed([header[j] for j in others])}" if others else ""
        raise ValueError(
            f"{path}, {place}, column {brief(header[first])} must be a number, got {brief(cells[first])}{also}; "
            f"{NAME_IT}"
        )
    return [math.nan if cell.strip() in MISSING else float(cell) for cell in wanted]
