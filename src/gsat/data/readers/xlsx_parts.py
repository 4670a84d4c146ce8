"""The rows of an .xlsx workbook's first sheet, read by openpyxl, in a process of its own (see `apart`).

An .xlsx file is a zip archive of XML. What it unpacks to is compared with the memory there is before it is read;
entities, of which a few lines can make gigabytes, need a DOCTYPE, which no spreadsheet writes and none may have here.
Formulas are not computed: what was stored beside them counts.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime, time
from pathlib import Path
from typing import Any
from xml.parsers import expat

from gsat.data.memory import fits, shown
from gsat.data.readers.xlsx_places import SAVE, Order, pieces
from gsat.data.rules import brief, distinct, extra

OLE = bytes.fromhex("d0cf11e0a1b11ae1")  # how .xls files and workbooks with a password begin
BLOCK = 2**16  # cells sent at once
ROWS = 2**20  # of a sheet, as Excel has it
ROW = 120  # bytes in memory of a row beside its numbers
START = re.compile(rb"<(?:[\w.-]+:)?row[\s/>]")
VALUE = re.compile(rb"<(?:[\w.-]+:)?(?:v|is)[\s>]")
FORMULA = re.compile(rb"<(?:[\w.-]+:)?f[\s/>]")
DENSE = 100  # times its size a sheet may unpack to; Excel and others write less than 30
LARGE = 2**30  # bytes unpacked, below which any density is allowed
WHOLE = 2**53  # floats below it count all whole numbers
Parts = Iterator[tuple[str, Any]]


def parts(path: Path, *, prepared: Callable[[], None]) -> Parts:
    """The sheets beside the first that are not empty, then blocks of rows of the first: their numbers and cells."""
    os.environ["OPENPYXL_LXML"] = "False"  # the parser that `_scan` has looked with, whatever else is installed
    openpyxl = extra("openpyxl", "openpyxl", ".xlsx")
    prepared()
    n_rows, formulas = _scan(path)
    how = {"read_only": True, "keep_links": False}
    book = openpyxl.load_workbook(path, data_only=True, **how)
    sheets = book.worksheets
    if not sheets:
        raise ValueError(f"{path} must have a sheet of cells, got none")
    for sheet in sheets:
        sheet.reset_dimensions()  # what a file says of them is often wrong
    yield "others", {"first": sheets[0].title, "others": [each.title for each in sheets[1:] if any(_rows(path, each))]}
    if formulas:
        _check_formulas(path, sheets[0], openpyxl.load_workbook(path, data_only=False, **how))
    block: list[tuple[int, list[str]]] = []
    size = width = 0
    for number, row in _rows(path, sheets[0]):
        cells = [_text(cell.value) for cell in row]
        if not width:
            width = len(cells)
            fits(path, f"at most {n_rows} rows of {width} numbers", n_rows * (4 * width + ROW))
        block.append((number, cells))
        size += len(cells)
        if size >= BLOCK:
            yield "rows", block
            block, size = [], 0
    yield "rows", block


def _scan(path: Path) -> tuple[int, bool]:
    """At most how many rows the longest sheet has, and whether there are formulas.

    What is no workbook is an error, as are sheets with rows or cells out of order.
    """
    n_rows, formulas = 0, False
    with path.open("rb") as stream:
        head = stream.read(len(OLE))
        if head == OLE:
            raise ValueError(
                f"{path} must be an .xlsx workbook without a password, got an encrypted one or an old .xls; "
                f"save it as .xlsx without a password"
            )
        if head[:2] != b"PK":
            raise ValueError(f"{path} must be a whole .xlsx file, got one that does not start as a zip file")
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            distinct(path, "parts", [member.filename for member in members])
            size = sum(member.file_size for member in members)
            fits(path, f"{len(members)} parts, unpacked,", size)
            if size > max(LARGE, DENSE * path.stat().st_size):
                raise ValueError(
                    f"{path} must unpack to at most {DENSE} times its size of {shown(path.stat().st_size)}, got "
                    f"{shown(size)}; save it anew, or as .csv"
                )
            for member in members:
                with archive.open(member) as part:
                    if not _is_xml(path, member.filename, part):
                        continue
                    part.seek(0)
                    rows = values = 0
                    order = Order(path, member.filename)
                    for piece in pieces(path, part):
                        order.follow(piece)
                        rows += len(START.findall(piece))
                        values += len(VALUE.findall(piece))
                        formulas = formulas or FORMULA.search(piece) is not None
                    n_rows = max(n_rows, min(rows, values))  # rows without a value are skipped
    return n_rows, formulas


def _is_xml(path: Path, name: str, part: Any) -> bool:
    """Whether a part is XML; it must then be UTF-8 without a DOCTYPE, which stands before the first element."""
    begun: list[str] = []

    def doctype(*_: Any) -> None:
        raise ValueError(f"{path} must hold no DOCTYPE, got one in {brief(name)}")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = lambda tag, _: begun.append(tag)
    head = part.read(4)
    piece = head
    try:
        while piece and not begun:
            parser.Parse(piece)
            piece = part.read(2**12)
    except expat.ExpatError:
        if not begun:
            return False  # a picture, or nothing that the parser of openpyxl, which is the same, would read
    if begun and b"\0" in head:
        raise ValueError(f"{path} must hold XML in UTF-8, got UTF-16 in {brief(name)}")
    return bool(begun)


def _rows(path: Path, sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    """Number and cells of each row that is not empty, up to the last cell that is not."""
    for number, row in enumerate(sheet.iter_rows(), 1):
        if number > ROWS:
            raise ValueError(f"{path} must have at most {ROWS} rows in a sheet, got more in {brief(sheet.title)}")
        cells = [*row]
        while cells and cells[-1].value in (None, ""):
            del cells[-1]
        if cells:
            yield number, cells


def _check_formulas(path: Path, sheet: Any, with_formulas: Any) -> None:
    """Raise unless a value is stored beside each formula of the sheet, the first one, which may be empty text."""
    other = with_formulas.worksheets[0]
    other.reset_dimensions()
    for number, (values, row) in enumerate(zip(sheet.iter_rows(), other.iter_rows(), strict=True), 1):
        if number > ROWS:
            return  # `_rows` tells
        for stored, cell in zip(values, row, strict=True):
            if cell.data_type == "f" and stored.value is None and stored.data_type == "n":
                raise ValueError(
                    f"{path}, row {number}, cell {cell.coordinate} must have a value, got a formula that was never "
                    f"computed; {SAVE}"
                )


def _text(value: Any) -> str:
    """A cell as a spreadsheet program writes it into a .csv file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return str(int(value)) if abs(value) < WHOLE and value.is_integer() else repr(value)
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    return str(value)
