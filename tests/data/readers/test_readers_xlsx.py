"""Workbooks: what a .csv file of the first sheet would give, and one error with the path for all that is wrong."""

import datetime
import re
import struct
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pytest
from test_readers import DONORS, TYPES, N, write_plink
from test_readers_bad import GOOD, refuses

from gsat import data
from gsat.data.readers import xlsx, xlsx_parts, xlsx_places

HEADER = ["a", "b", "y"]
SHEET = "xl/worksheets/sheet1.xml"


def book(path, *rows, more=(), **cells):
    made = openpyxl.Workbook()
    made.active.title = "cells"
    for row in rows:
        made.active.append(row)
    for place, value in cells.items():
        made.active[place] = value
    for title, content in more:
        made.create_sheet(title).append(content)
    made.save(path)
    return path


@pytest.fixture
def here(monkeypatch):
    """The workbook is read in this process, which is faster."""
    monkeypatch.setenv("OPENPYXL_LXML", "False")
    monkeypatch.setattr(xlsx, "answers", lambda path, kind, options: xlsx_parts.parts(path, prepared=lambda: None))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.xlsx"


def rewritten(path, **parts):
    """The workbook with parts replaced by what the function makes of them."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in content.items():
            archive.writestr(name, parts.get(name.rpartition("/")[2].partition(".")[0], lambda raw: raw)(raw))
    return path


def test_a_sheet_is_read_as_its_csv(tmp_path, path):
    frame = pd.DataFrame(GOOD, [f"c{i}" for i in range(N)], [f"g{j}" for j in range(5)])
    frame = frame.assign(type=TYPES, donor=DONORS)
    frame.to_excel(path)
    frame.to_csv(tmp_path / "x.csv")
    found, wanted = (data.load(each, label="type", batch="donor", drop="g1") for each in (path, tmp_path / "x.csv"))
    np.testing.assert_array_equal(found.X, wanted.X)
    assert found.y.tolist() == wanted.y.tolist()
    assert found.batch.tolist() == wanted.batch.tolist() == list(DONORS)
    assert found.batch.dtype == np.int64
    assert (found.sample_ids, found.feature_names) == (wanted.sample_ids, wanted.feature_names)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([3.0, 4, -2.0], [3, 4, -2]),
        ([0.5, 1, 1e20], [0.5, 1.0, 1e20]),
        ([True, False, True], ["TRUE", "FALSE", "TRUE"]),
        (
            [datetime.date(2024, 1, 31), datetime.datetime(2024, 1, 31, 8, 30), "x"],
            ["2024-01-31", "2024-01-31 08:30:00", "x"],
        ),
        (["01", "2", "3"], ["01", "2", "3"]),
    ],
)
def test_cells_as_text(here, path, values, labels):
    book(path, ["a", "y"], *([1, value] for value in values))
    assert data.load(path, label="y").y.tolist() == labels


def test_empty_rows_and_short_rows(path):
    book(path, [None], HEADER, ["u", 1, None], [None, None], ["u", 2], A9="v", B9=3, C9=" ")
    table = data.load(path, label="a", unlabelled="error", drop="y")
    np.testing.assert_array_equal(table.X, [[1], [2], [3]])
    refuses(
        path,
        r" must have a value of label='y' for every sample, got none for 3 of 3, the first at row 3;",
        label="y",
        drop="a",
    )


def test_the_first_of_several_sheets_is_read_and_that_is_said(path):
    book(path, HEADER, [1, 2, "u"], more=[("empty", []), ("notes", ["of 2024"])])
    said = rf"^{re.escape(str(path))} has more than one sheet: the first, 'cells', is read, and not 'notes'$"
    with pytest.warns(UserWarning, match=said):
        assert len(data.load(path, label="y")) == 1


def test_a_model_leaves_out_what_is_no_number(path):
    book(path, HEADER, [1, 2, "u"], [3, 4, "v"])
    assert data.load(path, known=["a"]).feature_names == ("a", "b")


def test_phenotypes_of_genotypes(tmp_path, path):
    bed = write_plink(tmp_path / "people.bed")
    ids = data.load(bed).sample_ids
    book(path, ["IID", "kind"], *([each, i % 2] for i, each in enumerate(ids)))
    assert data.load(bed, pheno=path, label="kind").y.tolist() == [i % 2 for i in range(len(ids))]


@pytest.mark.parametrize(
    ("rows", "options", "reason"),
    [
        ([], {}, r" must start with a header of column names, got an empty first sheet$"),
        ([HEADER], {"label": "y"}, r" must hold at least one sample and one feature"),
        ([HEADER, [1, "x", "u"]], {"label": "y"}, r", row 2, column 'b' must be a number, got 'x'; "),
        ([HEADER, [1, "1_2", "u"]], {"label": "y"}, r", row 2, column 'b' must be a number, got '1_2'; "),
        (
            [HEADER, [1, None, "u"]],
            {"label": "y"},
            r" must hold finite .* missing or infinite, the first at row 2, fea",
        ),
        ([HEADER, [1, 2, "u"], [1, 2, "NA"]], {"label": "y"}, r" must have a value of label='y' .* first at row 3;"),
        ([HEADER, [1, 2, "u", 5]], {"label": "y"}, r", row 2 must have at most 3 cells as the header has, got 4$"),
        ([["a", None, "y"], [1, 2, "u"]], {"label": "y"}, r", row 1, column 2 has no name$"),
        ([["a", "a", "y"], [1, 2, "u"]], {"label": "y"}, r" must have distinct column names, got 'a' at"),
        (
            [["a", "#REF!", "y"], [1, 2, "u"]],
            {"label": "y"},
            r", row 1, column 2 must have a name, got #REF!, an error",
        ),
        (
            [HEADER, [1, 2, "u"]],
            {"label": "kind"},
            r" must have the column that label='kind' names, it has 'a', 'b', 'y'",
        ),
        ([HEADER, [1, "#DIV/0!", "u"]], {"label": "y"}, r", row 2, column 'b' must be a number, got '#DIV/0!'; "),
        ([HEADER, [1, 2, "#N/A"]], {"label": "y"}, r", row 2, column 'y' must have a value, got #N/A, an error of a"),
        (
            [HEADER, [1, "=A2*2", "u"]],
            {"label": "y"},
            r", row 2, cell B2 must have a value, got a formula that was never computed; open the file in a spread",
        ),
        ([HEADER, [1, 2, "u"]], {"layer": "x"}, None),
    ],
)
def test_bad_sheets(here, path, rows, options, reason):
    book(path, *rows)
    if reason is None:
        with pytest.raises(
            ValueError, match=r"^layer must not be given for .*: a \.xlsx file takes label, batch, ids$"
        ):
            data.load(path, **options)
    else:
        refuses(path, reason, **options)


def test_a_stored_value_counts_and_no_formula_is_computed(path):
    book(path, HEADER, [1, "=A2*2", "u"], [3, 4, '=IF(A2>1,"w","")'])

    def computed(raw):
        raw = re.sub(rb"(<f>A2\*2</f>)<v ?/>|(<f>A2\*2</f>)<v></v>", rb"<f>A2*2</f><v>7</v>", raw)
        return re.sub(rb'<c r="C3"([^>]*)>', rb'<c r="C3" t="str">', raw)

    rewritten(path, sheet1=computed)
    table = data.load(path, label="y", unlabelled="drop")  # the second formula gave empty text
    np.testing.assert_array_equal(table.X, [[1, 7]])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda raw: b"", r" must be a whole \.xlsx file, got one that does not start as a zip file$"),
        (lambda raw: b"a,b,y\n1,2,u\n", r" must be a whole \.xlsx file, got one that does not start as a zip file$"),
        (lambda raw: raw[: len(raw) // 2], r" must be a whole Excel file, got: File is not a zip file$"),
        (
            lambda raw: bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600),
            r" must be an \.xlsx workbook without a password, got an encrypted one or an old \.xls; save it as",
        ),
        (lambda raw: raw.replace(b"workbook.xml", b"workbuch.xml"), r" must be a whole Excel file, got: "),
    ],
)
def test_broken_files(path, damage, reason):
    path.write_bytes(damage(book(path, HEADER, [1, 2, "u"]).read_bytes()))
    refuses(path, reason, label="y")


def test_flipped_bytes_of_the_sheet_are_found(path):
    raw = bytearray(book(path, HEADER, *([i, i, "u"] for i in range(50))).read_bytes())
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo(SHEET).header_offset
    raw[at + 200] ^= 8
    path.write_bytes(raw)
    refuses(path, r" must be a whole Excel file, got: ", label="y")


@pytest.mark.parametrize(
    ("part", "encoding"), [("sheet1", "utf-8"), ("workbook", "utf-16"), ("styles", "utf-8"), ("sheet1", "utf-16")]
)
def test_entities_are_refused(path, part, encoding):
    def lol(raw):
        text = raw.decode()
        start = text.index("?>") + 2 if text.startswith("<?xml") else 0
        doctype = '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(f'<!ENTITY a{i} "{"&a;" * 9}">' for i in range(9)) + "]>"
        return (doctype + text[start:]).encode(encoding)

    rewritten(book(path, HEADER, [1, 2, "u"]), **{part: lol})
    refuses(path, rf" must hold no DOCTYPE, got one in '.*{part}.xml'$", label="y")


def test_other_encodings_are_refused(path):
    rewritten(book(path, HEADER, [1, 2, "u"]), sheet1=lambda raw: raw.decode().encode("utf-16"))
    refuses(path, r" must hold XML in UTF-8, got UTF-16 in '.*sheet1.xml'$", label="y")


@pytest.mark.parametrize(
    ("size", "options", "reason"),
    [
        (
            4 * 10**9,
            {"max_memory": "100GB"},
            r" must (unpack to at most 100 times its size of .* kB, got 4 GB; save it|fit)",
        ),
        (4 * 10**9, {"max_memory": "1GB"}, r" must fit into memory, got \d+ parts, unpacked, of 4 GB where "),
        (40, {}, r" must be a whole Excel file, got: "),
    ],
)
def test_what_a_zip_archive_announces(path, size, options, reason):
    raw = bytearray(book(path, HEADER, [1, 2, "u"]).read_bytes())
    entry = raw.index(b"PK\1\2", raw.rindex(SHEET.encode()) - 46)
    raw[entry + 24 : entry + 28] = struct.pack("<I", size)
    path.write_bytes(raw)
    refuses(path, reason, label="y", **options)


def test_one_row_far_below_and_one_cell_far_right(path):
    book(path, HEADER, [1, 2, "u"])
    rewritten(path, sheet1=lambda raw: re.sub(rb'r="([A-C]?)2"', rb'r="\g<1>99999999999"', raw))
    refuses(path, r" must have at most 1048576 rows in a sheet, got more in 'cells'$", label="y")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'<row r="3"', b'<row r="2"', "row 2 must come after row 2, which stands before it"),
        (b'<row r="4"', b"<row  spans='1:3'\n r = '1'", "row 1 must come after row 3, which stands before it"),
        (b'<row r="1"', b'<row r="0"', "row 0 must come at 1 or later"),
        (b'<row r="3"', b'<row r="3.0"', "row 3.0 must have a whole number"),
        (b'<c r="B3"', b'<c r="A3"', "row 3, cell A3 must stand right of the cell before it"),
        (b'<c r="C3"', b'<c t="n" r="B3"', "row 3, cell B3 must stand right of the cell before it"),
        (b'<c r="B3"', b'<c r="B4"', "row 3, cell B4 must name its column and this row"),
    ],
)
def test_no_row_and_no_cell_takes_the_place_of_another(path, old, new, reason):
    book(path, HEADER, *([i, 2 * i, i % 2] for i in range(4)))

    def moved(raw):
        assert raw.count(old) == 1
        return raw.replace(old, new)

    rewritten(path, sheet1=moved)
    refuses(path, rf", sheet 'xl/worksheets/sheet1\.xml', {reason}; open the file in a spreadsheet ", label="y")


def test_places_that_are_not_written_follow_each_other(path):
    book(path, HEADER, *([i, 2 * i, i % 2] for i in range(4)))
    rewritten(path, sheet1=lambda raw: re.sub(rb' r="[A-Z]*[34]"', b"", raw))
    np.testing.assert_array_equal(data.load(path, label="y").X, [[i, 2 * i] for i in range(4)])


@pytest.mark.parametrize("piece", [7, 64, 1000])
def test_rows_are_counted_wherever_the_pieces_of_a_file_end(here, monkeypatch, path, piece):
    book(path, HEADER, *([i, "=A2*2", i % 2] for i in range(30)))
    monkeypatch.setattr(xlsx_places, "PIECE", piece)
    assert xlsx_parts._scan(path) == (31, True)


def test_many_rows_below_a_wide_header(path):
    book(path, [f"g{j}" for j in range(3000)], *([i] for i in range(2000)))
    refuses(path, r" must fit into memory, got at most 2001 rows of 3000 numbers of 24.3 MB where", max_memory="20MB")
