"""Bad files fail with the path, the place and the reason: a table of cases per format."""

import re

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from test_readers import CELLS, DONORS, GENES, TYPES, N, write_h5ad

from gsat import data

GOOD = np.arange(N * 5, dtype=np.float32).reshape(N, 5) / 8


def refuses(path, reason, error=ValueError, **options):
    """load() refuses the file, in one error that starts with its path and says `reason`."""
    with pytest.raises(error, match=f"^{re.escape(str(path))}{reason}"):
        data.load(path, **options)


@pytest.mark.parametrize("ending", [".h5ad", ".bed", ".csv", ".tsv", ".xlsx", ".parquet", ".npz"])
def test_missing_file_and_folder(tmp_path, ending):
    path = tmp_path / f"none{ending}"
    refuses(path, " is missing$", FileNotFoundError)
    path.mkdir()
    refuses(path, " is a folder, not a file$", FileNotFoundError)


@pytest.mark.parametrize(
    ("name", "got"),
    [("x.xls", "'.xls'; save the sheet as .csv in UTF-8"), ("x.csv.gz", "'.gz'"), ("folder/x", "'no ending'")],
)
def test_unknown_ending(name, got):
    with pytest.raises(ValueError, match=rf"^{name} must end in one of .h5ad, .zarr, .*, got {got}$"):
        data.load(name)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("x.csv", {"layer": "counts"}, r"layer must not be given for x.csv: a .csv file takes label, batch, ids"),
        ("x.npz", {"one_hot": True}, r"one_hot must not be given for x.npz: a .npz file takes label, batch, ids"),
        ("x.h5ad", {"missing": 0}, r"missing must not be given for x.h5ad: a .h5ad file takes .* layer"),
        (
            "x.bed",
            {"ids": "iid"},
            r"ids must not be given for x.bed: a .bed file takes label, batch, pheno, .* one_hot",
        ),
        ("digits", {"label": "y"}, r"label must not be given for the data set digits: it is an option of files"),
    ],
)
def test_options_of_other_formats(name, options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        data.load(name, **options)


WIDE = ",".join(f"c{j}" for j in range(14)) + "\n" + ",".join("1" * 14) + "\n"
TEXT = "id,a,b,y\ns0,1,2,u\ns1,3,4,v\n"


@pytest.mark.parametrize(
    ("content", "options", "reason"),
    [
        ("", {}, r" must start with a header of column names, got an empty file$"),
        ("a,b\n", {}, r" must hold at least one sample and one feature, got shape \(0, 2\)$"),
        ("y\nu\nv\n", {"label": "y"}, r" must hold at least one sample and one feature, got shape \(2, 0\)$"),
        (TEXT, {"label": "type"}, r" must have the column that label='type' names, it has 'id', 'a', 'b', 'y'$"),
        (TEXT, {"label": "ids"}, r" must have the column that label='ids' names, .* 'y'; did you mean 'id'\?$"),
        (TEXT, {"batch": "lab"}, r" must have the column that batch='lab' names, it has 'id', 'a', 'b', 'y'$"),
        (TEXT, {"ids": "name"}, r" must have the column that ids='name' names, it has 'id', 'a', 'b', 'y'$"),
        (WIDE, {"label": "y"}, r" must have the column that label='y' names, it has 'c0', .*'c9' and 4 more$"),
        (
            TEXT,
            {"label": "y"},
            r", line 2, column 'id' must be a number, got 's0'; a column of .*, others go with --drop .*$",
        ),
        (
            TEXT.replace("4", "4,5"),
            {"ids": "id", "label": "y"},
            r", line 3 must have 4 cells as the header has, got 5$",
        ),
        (TEXT[:-3], {"ids": "id", "label": "y"}, r", line 3 must have 4 cells as the header has, got 3$"),
        ("a,b\n1,x\n", {}, r", line 2, column 'b' must be a number, got 'x';"),
        (
            "a,b,c,d\nx,1,u,NA\n",
            {},
            r", line 2, column 'a' must be a number, got 'x', and so must 'c'; a column of labels, batches or ids is "
            r"named with --label, --batch or --ids \(in Python ",
        ),
        ("a,b\n1,2\n\n3,1_000\n", {}, r", line 4, column 'b' must be a number, got '1_000';"),
        ('a,b\n"1",2\n"3\n', {}, r", line 3 must be a line of a table, got: unexpected end of data$"),
        ("a,b,a\n1,2,3\n", {}, r" must have distinct column names, got 'a' at positions 0 and 2 \(1 in all repeat"),
        ("a,,b\n1,2,3\n", {}, r", line 1, column 2 has no name$"),
        (
            "a,b\n1,2\nNA,inf\n3,\n",
            {},
            r" must hold finite float32 numbers, got 3 of 6 missing or infinite, the first at line 3, feature 'a';",
        ),
        ("a,b\n1,2\n3,1e300\n", {}, r" must hold finite float32 numbers, got 1 of 4 .*at line 3, feature 'b';"),
        (
            "a,y\n1,u\n2,\n3,NA\n",
            {"label": "y"},
            r" must have a value of label='y' for every sample, got none for 2 of 3, the first at line 3; fill",
        ),
        ("a,y\n1,u\n2,\n", {"batch": "y"}, r" must have a value of batch='y' for every sample, got none for 1 of 2, "),
        (",a\ns,1\ns,2\nt,3\n", {}, r" must have distinct sample ids, got 's' at positions 0 and 1 \(1 in all"),
        (TEXT.encode("utf-16"), {}, r", line 1 must be UTF-8 text, got byte 0xff; save the file as UTF-8$"),
        (TEXT.encode("utf-16-le"), {}, r", line 1 must be UTF-8 text, got byte NUL; save the file as UTF-8$"),
        ("a,y\n1,ü\n".encode("latin-1"), {}, r", line 2 must be UTF-8 text, got byte 0xfc; save the file as UTF-8$"),
    ],
)
def test_text(tmp_path, content, options, reason):
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refuses(path, reason, **options)


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        (
            {"a": [1, 2], "y": ["u", "v"]},
            {},
            r", column 'y' must hold numbers, got (large_)?string 'u' in row 0; a col",
        ),
        (
            {"a": [1, 2], "y": ["u", "v"]},
            {"label": "z"},
            r" must have the column that label='z' names, it has 'a', 'y'$",
        ),
        (
            {"a": [1.0, None], "b": [2, None]},
            {},
            r" must hold finite float32 numbers, got 2 of 4 .* row 1, feature 'a';",
        ),
        ({"a": [1, 2], "y": ["u", None]}, {"label": "y"}, r" .* of label='y' .* none for 1 of 2, the first at row 1;"),
        (
            {"a": [1, 2], "i": ["u", "u"]},
            {"ids": "i"},
            r" must have distinct sample ids, got 'u' at positions 0 and 1 ",
        ),
        ({"a": [1, 2], "t": [[1], [2]]}, {}, r", column 't' must hold numbers, got list"),
        (
            {"a": [1, 2], "t": pd.to_datetime(["2020", "2021"])},
            {"label": "t"},
            r" must hold text or numbers in label='t'",
        ),
        ({"a": pa.array([], pa.int8())}, {}, r" must hold at least one sample and one feature, got shape \(0, 1\)$"),
        ({"y": [1, 2]}, {"label": "y"}, r" must hold at least one sample and one feature, got shape \(2, 0\)$"),
    ],
)
def test_parquet(tmp_path, columns, options, reason):
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table(columns), path)
    refuses(path, reason, **options)


def test_parquet_with_two_columns_of_one_name(tmp_path):
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"]), path)
    refuses(path, r" must have distinct column names, got 'a' at positions 0 and 1")


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"",
        lambda raw: b"a,b\n1,2\n" * 20,
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw[:20] + b"\xff" * 30 + raw[50:],
    ],
)
def test_broken_parquet(tmp_path, damage):
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"a": np.arange(100.0)}), path)
    path.write_bytes(damage(path.read_bytes()))
    refuses(path, r" must be a whole Parquet file, got: ")


@pytest.mark.parametrize(
    ("arrays", "options", "reason"),
    [
        ({"x": GOOD}, {}, r" must have an array X of samples, it has 'x'$"),
        ({"X": GOOD, "y": TYPES}, {"label": "type"}, r" must have the array that label='type' names, it has 'X', 'y'$"),
        ({"X": GOOD}, {"ids": "who"}, r" must have the array that ids='who' names, it has 'X'$"),
        ({"X": GOOD, "y": np.array([1, "a"] * 3 + [0], object)}, {}, r", array 'y' must hold .* no pickled objects"),
        ({"X": GOOD.astype(object)}, {}, r", array 'X' must hold numbers or text and no pickled objects"),
        ({"X": GOOD.astype(str)}, {}, r" must hold real numbers in X, got <U"),
        ({"X": GOOD + 1j}, {}, r" must hold real numbers in X, got complex"),
        ({"X": np.where(GOOD == 1, np.nan, GOOD)}, {}, r" must hold finite .*got 1 of 35 .* row 1, feature 3;"),
        (
            {"X": GOOD, "y": [1, np.nan, 2, 3, 4, 5, 6]},
            {},
            r" must have a value of y for every .* 1 of 7, .* at row 1;",
        ),
        ({"X": GOOD, "y": np.zeros(N, "M8[s]")}, {}, r" must hold text or numbers in y, got datetime64"),
        ({"X": GOOD, "sample_ids": ["s"] * N}, {}, r" must have distinct sample ids, got 's' at .* \(6 in all"),
        (
            {"X": GOOD, "feature_names": list("abcab")},
            {},
            r" must have distinct feature names, got 'a' at positions 0 and 3",
        ),
        ({"X": np.zeros((0, 3))}, {}, r" must hold at least one sample and one feature, got shape \(0, 3\)$"),
    ],
)
def test_npz(tmp_path, arrays, options, reason):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    refuses(path, reason, **options)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": TYPES[1:]}, r"y must have one entry per row of X \(7\), got 6"),
        ({"batch": DONORS * 2}, r"batch must have one entry per row of X \(7\), got 14"),
        ({"sample_ids": CELLS[:3]}, r"sample_ids must have one entry per row of X \(7\), got 3"),
        ({"feature_names": GENES[:3]}, r"feature_names must have one entry per feature of X \(5\), got 3"),
        ({"y": GOOD}, r"y must have one entry per row of X \(7\), got shape \(7, 5\)"),
        ({"X": GOOD[0]}, r"X must have shape \(samples, \*features\), got \(5,\)"),
    ],
)
def test_npz_of_wrong_lengths(tmp_path, arrays, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **({"X": GOOD} | arrays))
    with pytest.raises(ValueError, match=f"^{message}\nwhile reading {re.escape(str(path))}$"):
        data.load(path)


def flipped(raw):
    at = raw.index(b"X.npy") + 200
    return raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda raw: b"", "one that does not start as a zip file"),
        (lambda raw: b"a,b\n1,2\n", "one that does not start as a zip file"),
        (lambda raw: raw[: len(raw) // 2], ": File is not a zip file"),
        (flipped, ": Bad CRC-32 for file 'X.npy'"),
    ],
)
def test_broken_npz(tmp_path, damage, reason):
    path = tmp_path / "bad.npz"
    np.savez(path, X=GOOD)
    path.write_bytes(damage(path.read_bytes()))
    refuses(path, f" must be a whole .npz file, got ?{reason}$")


WITH_NAN = np.where(GOOD > 3, np.nan, GOOD)


@pytest.mark.parametrize(
    ("content", "options", "reason"),
    [
        (
            {"obs": {"type": TYPES}},
            {"label": "kind"},
            r" must have the key of .obs that label='kind' names, it has 'type'$",
        ),
        ({}, {"batch": "lab"}, r" must have the key of .obs that batch='lab' names, it has none$"),
        ({}, {"layer": "raw"}, r" must have the layer that layer='raw' names, it has none$"),
        ({"layers": {"b": GOOD}}, {"layer": "raw"}, r" must have the layer that layer='raw' names, it has 'b'$"),
        (
            {"X": None, "layers": {"b": GOOD}},
            {},
            r" must have a matrix .X, or layer= must name one of its layers: 'b'$",
        ),
        ({"X": WITH_NAN}, {}, r" must hold finite .*got 10 of 35 .* the first at sample 'cell5', feature 'gene 0';"),
        ({"X": sp.csr_matrix(WITH_NAN)}, {}, r" must hold finite .*got 10 of 35 .* sample 'cell5', feature 'gene 0';"),
        (
            {"X": sp.csr_matrix(GOOD.astype(np.float64) * 1e300)},
            {},
            r" must hold finite float32 numbers, got 34 of 35 missing or infinite",
        ),
        (
            {"X": GOOD.astype(np.float64) * 1e300},
            {},
            r" must hold finite float32 numbers, got 34 of 35 missing or infinite",
        ),
        (
            {"obs": {"y": [*"abcdef", None]}},
            {"label": "y"},
            r" .* label='y' .* none for 1 of 7, .* at sample 'cell6'; fill",
        ),
        (
            {"obs": {"y": [1.0] * 6 + [np.nan]}},
            {"batch": "y"},
            r" .* batch='y' .* none for 1 of 7, .* sample 'cell6'; fill",
        ),
        ({"cells": ["c"] * N}, {}, r" must have distinct sample ids, got 'c' at positions 0 and 1 \(6 in all"),
        ({"obs": {"i": TYPES}}, {"ids": "i"}, r" must have distinct sample ids, got 'T' at positions 0 and 2"),
        ({"names": list("abcda")}, {}, r" must have distinct feature names, got 'a' at positions 0 and 4"),
        ({"X": GOOD[:0], "cells": []}, {}, r" must hold at least one sample and one feature, got shape \(0, 5\)$"),
    ],
)
# anndata itself warns when it is given names that repeat
@pytest.mark.filterwarnings("ignore:(Observation|Variable) names are not unique:UserWarning")
def test_h5ad(tmp_path, content, options, reason):
    path = write_h5ad(tmp_path / "bad.h5ad", **({"X": GOOD} | content))
    refuses(path, reason, **options)


@pytest.mark.parametrize(
    "damage", [lambda raw: b"", lambda raw: b"a,b\n1,2\n", lambda raw: raw[: len(raw) // 2], lambda raw: raw[100:]]
)
def test_broken_h5ad(tmp_path, damage):
    path = write_h5ad(tmp_path / "bad.h5ad", GOOD)
    path.write_bytes(damage(path.read_bytes()))
    refuses(path, r" must be a whole HDF5 file, got: Unable to .*open file \((truncated file|file signature)")


def replaced(file, key, value):
    del file[key]
    file[key] = value


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda file: file.pop("obs"), r" must be written by anndata, got a file without .obs; it has 'X', "),
        (
            lambda file: file["var"].attrs.pop("encoding-type"),
            r" must be written by anndata 0.7 or later, got an older .var",
        ),
        (lambda file: replaced(file, "X/indices", np.full(34, 99)), r" must be a whole HDF5 file, got: .*ind"),
        (lambda file: replaced(file, "X/data", np.ones(3)), r" must be a whole HDF5 file, got: "),
        (lambda file: file["obs"].pop("_index"), r" must be a whole HDF5 file, got: "),
        (
            lambda file: replaced(file, "X", np.zeros(4)),
            r" must hold a matrix of real numbers in X, got float64 \(4,\)$",
        ),
        (lambda file: replaced(file, "X", [b"a"]), r" must hold a matrix of real numbers in X, got object \(1,\)$"),
        (
            lambda file: replaced(file, "X", file["obs"]),
            r" must hold a dense, CSR or CSC matrix in X, got encoding dataf",
        ),
    ],
)
def test_h5ad_with_a_wrong_piece(tmp_path, change, reason):
    path = write_h5ad(tmp_path / "bad.h5ad", sp.csr_matrix(GOOD))
    with h5py.File(path, "r+") as file:
        change(file)
    refuses(path, reason)


def test_h5ad_of_wrong_lengths(tmp_path):
    path = write_h5ad(tmp_path / "bad.h5ad", GOOD)
    with h5py.File(path, "r+") as file:
        replaced(file, "X", GOOD[:3])
    message = r"^sample_ids must have one entry per row of X \(3\), got 7\nwhile reading .*bad.h5ad$"
    with pytest.raises(ValueError, match=message):
        data.load(path)
