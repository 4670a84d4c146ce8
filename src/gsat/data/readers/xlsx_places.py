"""Where the rows and cells of a sheet say they stand: openpyxl drops those that are out of order, without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from gsat.data.rules import brief

PIECE = 2**20  # bytes unpacked at once
LONGEST = 2**24  # bytes of a tag
TAG = re.compile(rb"""<(?:[\w.-]+:)?(row|c)(\s[^<>"']*(?:(?:"[^"<]*"|'[^'<]*')[^<>"']*)*)?>""")
PLACE = re.compile(rb"""\sr\s*=\s*["']([^"']*)["']""")
NUMBER = re.compile(rb"\d{1,19}")
CELL = re.compile(rb"([A-Za-z]{1,3})(\d{1,19})")
SAVE = "open the file in a spreadsheet program and save it"


def pieces(path: Path, part: Any) -> Iterator[bytes]:
    """The bytes of a part, cut nowhere inside a tag."""
    rest = b""
    while piece := part.read(PIECE):
        text = rest + piece
        cut = text.rfind(b"<")
        if cut < 0 or b">" in text[cut:]:
            cut = len(text)
        rest = text[cut:]
        if len(rest) > LONGEST:
            raise ValueError(f"{path} must hold tags of at most {LONGEST} bytes, got a longer one in {part.name!r}")
        yield text[:cut]
    yield rest


class Order:
    """Follows the rows and cells of a part of a workbook, and raises where one does not come after the one before.

    Places that are not written are those after the one before. Parts that are no sheets have cells without rows, such
    as the order in which to compute; these stand anywhere.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.row = self.column = 0

    def follow(self, piece: bytes) -> None:
        """Look at the tags of one more piece."""
        for kind, attributes in TAG.findall(piece):
            written = PLACE.search(attributes)
            if kind == b"row":
                self._next_row(None if written is None else written[1])
            elif self.row:
                self._next_cell(None if written is None else written[1])

    def _next_row(self, place: bytes | None) -> None:
        if place is not None and not NUMBER.fullmatch(place):
            self._refuse(f"row {_shown(place)} must have a whole number")
        row = self.row + 1 if place is None else int(place)
        if row <= self.row or row < 1:
            before = f"after row {self.row}, which stands before it" if self.row else "at 1 or later"
            self._refuse(f"row {row} must come {before}")
        self.row, self.column = row, 0

    def _next_cell(self, place: bytes | None) -> None:
        if place is None:
            self.column += 1
            return
        cell = CELL.fullmatch(place)
        if cell is None or int(cell[2]) != self.row:
            self._refuse(f"row {self.row}, cell {_shown(place)} must name its column and this row")
        column = _number(cell[1])
        if column <= self.column:
            self._refuse(f"row {self.row}, cell {_shown(place)} must stand right of the cell before it")
        self.column = column

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(f"{self.path}, sheet {brief(self.name)}, {what}; {SAVE}")


def _shown(place: bytes) -> str:
    return brief(place.decode(errors="replace")).strip("'")


@lru_cache(maxsize=2**15)
def _number(letters: bytes) -> int:
    """1 for A, 27 for AA."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number
