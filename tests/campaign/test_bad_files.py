"""A table of bad files of every format, given to every command that reads data: exit code 2 and one line that says why.

In the small size each file goes to one of the commands, in the full one to all of them.
"""

import io
import os
import re
import struct
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reader_samples as samples
import scipy.sparse as sp
import tally
from typer.testing import CliRunner

from gsat.cli import app

pytestmark = pytest.mark.campaign

TEXT = "g0,g1,y\n1,2,u\n3,4,v\n5,6,u\n"
HUGE = (10**6, 10**6)


def text(content, name="bad.csv"):
    def write(folder):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def table(**columns):
    def write(folder):
        names = list(columns)
        pq.write_table(pa.table(list(map(pa.array, columns.values())), names=names), folder / "bad.parquet")
        return folder / "bad.parquet"

    return write


def twice(folder):
    pq.write_table(
        pa.table([pa.array([1.0]), pa.array([2.0]), pa.array(["u"])], names=["a", "a", "y"]), folder / "bad.parquet"
    )
    return folder / "bad.parquet"


def arrays(**given):
    def write(folder):
        np.savez(folder / "bad.npz", **({"X": samples.X, "y": samples.Y} | given))
        return folder / "bad.npz"

    return write


def npy_header(shape, descr="<f4"):
    raw = io.BytesIO()
    np.lib.format.write_array_header_1_0(raw, {"descr": descr, "fortran_order": False, "shape": shape})
    return raw.getvalue()


def zipped(method=zipfile.ZIP_DEFLATED, **members):
    def write(folder):
        with zipfile.ZipFile(folder / "bad.npz", "w", method) as archive:
            for name, content in members.items():
                archive.writestr(f"{name}.npy", content)
        return folder / "bad.npz"

    return write


def damaged(write, name, damage):
    def made(folder):
        path = write(folder / name)
        path.write_bytes(damage(path.read_bytes()))
        return path

    return made


def flipped(raw):
    at = raw.index(b"X.npy") + 60
    return raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]


def h5ad(change, matrix=samples.X):
    def write(folder):
        path = samples.write_h5ad(folder / "bad.h5ad", matrix)
        with h5py.File(path, "r+") as file:
            change(file, folder)
        return path

    return write


def put(key, value):
    def change(file, folder):
        del file[key]
        file[key] = value

    return change


def announce(file, folder):
    del file["X"]
    file.create_dataset("X", HUGE, "f4", chunks=True)


def elsewhere(file, folder):
    (folder / "raw").write_bytes(bytes(1000))
    del file["X"]
    file.create_dataset("X", samples.X.shape, "f4", external=[(str(folder / "raw"), 0, h5py.h5f.UNLIMITED)])


def virtual(file, folder):
    with h5py.File(folder / "other", "w") as other:
        other["X"] = samples.X
    layout = h5py.VirtualLayout(samples.X.shape, "f4")
    layout[...] = h5py.VirtualSource(str(folder / "other"), "X", samples.X.shape)
    del file["X"]
    file.create_virtual_dataset("X", layout)


def plink(ending, change):
    def write(folder):
        path = samples.write_plink(folder / "bad.bed")
        touched = path.with_suffix(ending)
        content = change(touched.read_bytes())
        touched.unlink()
        if content is not None:
            touched.write_bytes(content)
        return path

    return write


def without_line(raw):
    lines = raw.splitlines(keepends=True)
    return b"".join(lines[:4] + lines[5:])


def last_is_missing_everywhere(raw):
    return raw[:3] + bytes([0x55, 0x55, 0x55, 0x01]) + raw[7:]


def link(target, name="bad.csv"):
    def write(folder):
        (folder / name).symlink_to(target)
        return folder / name

    return write


def pipe(folder):
    os.mkfifo(folder / "bad.csv")
    return folder / "bad.csv"


def folder_of_that_name(name):
    def write(folder):
        (folder / name).mkdir()
        return folder / name

    return write


def csr(change):
    return h5ad(change, sp.csr_matrix(np.where(samples.X > 0, samples.X, 0)))


CUT = lambda raw: raw[: len(raw) // 2]  # noqa: E731
EMPTY = lambda raw: b""  # noqa: E731
WORDS = lambda raw: b"g0,g1\n1,2\n" * 30  # noqa: E731

BAD = {  # name: how to write it, what is said; "{}" is the path
    # text
    "csv empty": (text(""), "{} must start with a header of column names, got an empty file"),
    "csv header only": (text("g0,g1,y\n"), "{} must hold at least one sample and one feature, got shape (0, 2)"),
    "csv no feature": (text("y\nu\nv\n"), "{} must hold at least one sample and one feature, got shape (2, 0)"),
    "csv no label": (text("g0,g1\n1,2\n"), "{} must have the column that label='y' names, it has 'g0', 'g1'"),
    "csv long line": (text(TEXT + "1,2,u,9\n"), "{}, line 5 must have 3 cells as the header has, got 4"),
    "csv short line": (text(TEXT + "1,2\n"), "{}, line 5 must have 3 cells as the header has, got 2"),
    "csv text": (text(TEXT.replace("4", "four")), "{}, line 3, column 'g1' must be a number, got 'four'"),
    "csv underscore": (text("g0,y\n1_0,u\n"), "{}, line 2, column 'g0' must be a number, got '1_0'"),
    "csv open quote": (text('g0,y\n"1,u\n'), "{}, line 2 must be a line of a table, got: unexpected end of data"),
    "csv name twice": (text("g0,g0,y\n1,2,u\n"), "{} must have distinct column names, got 'g0' at positions 0 and 1"),
    "csv no name": (text("g0,,y\n1,2,u\n"), "{}, line 1, column 2 has no name"),
    "csv missing": (text("g0,y\n1,u\nNA,v\n"), "{} must hold finite float32 numbers, got 1 of 2 missing or infinite"),
    "csv infinite": (text("g0,y\n1,u\n-inf,v\n"), "{} must hold finite float32 numbers, got 1 of 2 missing or"),
    "csv too large": (text("g0,y\n1,u\n1e300,v\n"), "{} must hold finite float32 numbers, got 1 of 2 missing or"),
    "csv missing label": (
        text("g0,y\n1,u\n2,\n"),
        "{} must have a value of label='y' for every sample, got none for 1",
    ),
    "csv id twice": (text(",g0,y\ns,1,u\ns,2,v\n"), "{} must have distinct sample ids, got 's' at positions 0 and 1"),
    "csv utf-16": (text(TEXT.encode("utf-16")), "{}, line 1 must be UTF-8 text, got byte 0xff"),
    "csv latin-1": (text("g0,y\n1,ü\n".encode("latin-1")), "{}, line 2 must be UTF-8 text, got byte 0xfc"),
    "csv zeros": (text(bytes(1000)), "{}, line 1 must be UTF-8 text, got byte NUL"),
    "csv wide cell": (
        text("g0,y\n" + "1" * 200_000 + ",u\n"),
        "{}, line 2 must be a line of a table, got: field larger",
    ),
    "csv picture": (text(b"\x89PNG\r\n\x1a\n" + bytes(99)), "{}, line 1 must be UTF-8 text, got byte 0x89"),
    "tsv commas": (text(TEXT, "bad.tsv"), "{} must have the column that label='y' names, it has 'g0,g1,y'"),
    "tsv text": (text("g0\ty\nx\tu\n", "bad.tsv"), "{}, line 2, column 'g0' must be a number, got 'x'"),
    "tsv empty lines": (text("\n\n\n", "bad.tsv"), "{} must start with a header of column names, got an empty file"),
    "xlsx empty": (damaged(samples.write_xlsx, "bad.xlsx", EMPTY), "{} must be a whole .xlsx file, got one that does"),
    "xlsx cut": (damaged(samples.write_xlsx, "bad.xlsx", CUT), "{} must be a whole Excel file, got: "),
    "xlsx text": (text(TEXT, "bad.xlsx"), "{} must be a whole .xlsx file, got one that does not start as a zip file"),
    # parquet
    "parquet empty": (damaged(samples.write_parquet, "bad.parquet", EMPTY), "{} must be a whole Parquet file, got: "),
    "parquet words": (damaged(samples.write_parquet, "bad.parquet", WORDS), "{} must be a whole Parquet file, got: "),
    "parquet cut": (damaged(samples.write_parquet, "bad.parquet", CUT), "{} must be a whole Parquet file, got: "),
    "parquet text": (  # to predict, text that the model does not know is set aside
        table(a=["x"], y=["u"]),
        "{}, column 'a' must hold numbers, got string 'x' in row 0|{} must hold at least one",
    ),
    "parquet no label": (table(a=[1.0]), "{} must have the column that label='y' names, it has 'a'"),
    "parquet missing": (table(a=[1.0, None], y=["u", "v"]), "{} must hold finite float32 numbers, got 1 of 2 missing"),
    "parquet missing label": (table(a=[1.0, 2.0], y=["u", None]), "{} must have a value of label='y' for every sample"),
    "parquet lists": (table(a=[[1.0]], y=["u"]), "{}, column 'a' must hold numbers, got list|{} must hold at"),
    "parquet no rows": (table(a=pa.array([], pa.float32()), y=pa.array([], pa.string())), "{} must hold at least one"),
    "parquet name twice": (twice, "{} must have distinct column names, got 'a' at positions 0 and 1"),
    # npz
    "npz empty": (damaged(samples.write_npz, "bad.npz", EMPTY), "{} must be a whole .npz file, got one that does not"),
    "npz words": (damaged(samples.write_npz, "bad.npz", WORDS), "{} must be a whole .npz file, got one that does not"),
    "npz cut": (
        damaged(samples.write_npz, "bad.npz", CUT),
        "{} must be a whole .npz file, got: File is not a zip file",
    ),
    "npz flipped": (damaged(samples.write_npz, "bad.npz", flipped), "{} must be a whole .npz file, got: "),
    "npz no X": (zipped(x=npy_header((0,))), "{} must have the array that label='y' names, it has 'x'"),
    "npz pickled": (arrays(y=np.array([1, "a"] * 6 + [0], object)), "{}, array 'y' must hold numbers or text and no"),
    "npz huge": (zipped(X=npy_header(HUGE), y=npy_header((1,))), "{}, array 'y' must have"),
    "npz negative": (zipped(y=npy_header((-1, 2))), "{}, array 'y' must be a whole .npy array, got: shape (-1, 2)"),
    "npz nested": (
        zipped(y=b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000),
        "{}, array 'y' must be a whole .npy array, got: ",
    ),
    "npz lzma": (zipped(zipfile.ZIP_LZMA, y=npy_header((0,))), "{}, array 'y' must be stored or deflated, as numpy"),
    "npz complex": (arrays(X=samples.X + 1j), "{} must hold real numbers in X, got complex"),
    "npz times": (arrays(y=np.zeros(samples.N, "M8[s]")), "{} must hold text or numbers in y, got datetime64[s]"),
    "npz nan": (arrays(X=np.full((samples.N, 2), np.nan)), "{} must hold finite float32 numbers, got 26 of 26"),
    "npz lengths": (arrays(y=["u"]), "y must have one entry per row of X (13), got 1\nwhile reading {}"),
    "npz flat": (arrays(X=samples.X[:, 0]), "X must have shape (samples, *features), got (13,)\nwhile reading {}"),
    "npz names twice": (arrays(feature_names=["a"] * samples.D), "{} must have distinct feature names, got 'a' at"),
    # h5ad
    "h5ad empty": (damaged(samples.write_h5ad, "bad.h5ad", EMPTY), "{} must be a whole HDF5 file, got: "),
    "h5ad words": (damaged(samples.write_h5ad, "bad.h5ad", WORDS), "{} must be a whole HDF5 file, got: "),
    "h5ad cut": (damaged(samples.write_h5ad, "bad.h5ad", CUT), "{} must be a whole HDF5 file, got: "),
    "h5ad no obs": (h5ad(lambda f, d: f.pop("obs")), "{} must be written by anndata, got a file without .obs"),
    "h5ad no X": (
        h5ad(lambda f, d: f.pop("X")),
        "{} must have a matrix .X, or layer= must name one of its layers: none",
    ),
    "h5ad old": (h5ad(lambda f, d: f["var"].attrs.pop("encoding-type")), "{} must be written by anndata 0.7 or later"),
    "h5ad no label": (
        h5ad(lambda f, d: f["obs"].pop("y")),
        "{} must have the key of .obs that label='y' names, it has",
    ),
    "h5ad external X": (
        h5ad(put("X", h5py.ExternalLink("x", "X"))),
        "{} must hold its data itself, got X, a link to x:X",
    ),
    "h5ad external obs": (
        h5ad(put("obs", h5py.ExternalLink("x", "/"))),
        "{} must hold its data itself, got obs, a link",
    ),
    "h5ad soft": (h5ad(put("obs/y", h5py.SoftLink("/var"))), "{} must hold its data itself, got obs/y, a link to /var"),
    "h5ad elsewhere": (h5ad(elsewhere), "{} must hold its data itself, got X, whose numbers are in other files"),
    "h5ad virtual": (h5ad(virtual), "{} must hold its data itself, got X, whose numbers are in other files"),
    "h5ad huge": (h5ad(announce), "{} must fit into memory, got X (1000000, 1000000) as float32 of 4 TB where "),
    "h5ad line": (h5ad(put("X", np.zeros(3))), "{} must hold a matrix of real numbers in X, got float64 (3,)"),
    "h5ad nan": (h5ad(put("X", np.full(samples.X.shape, np.nan))), "{} must hold finite float32 numbers, got 78 of 78"),
    "h5ad codes": (h5ad(put("obs/y/codes", np.full(samples.N, 7))), "{} must be a whole HDF5 file, got: codes of 3"),
    "h5ad names": (h5ad(put("var/_index", ["g"] * samples.D)), "{} must have distinct feature names, got 'g' at"),
    "h5ad rows": (
        h5ad(put("X", np.zeros((2, samples.D)))),
        " must have one entry per row of X (2), got 13\nwhile reading {}",
    ),
    "csr indices": (csr(lambda f, d: f["X/indices"].__setitem__(0, 99)), "{} must be a whole HDF5 file, got: "),
    "csr indptr": (
        csr(lambda f, d: f["X/indptr"].__setitem__(1, 9999)),
        "{} must be a whole HDF5 file, got: indptr of X",
    ),
    "csr huge": (csr(lambda f, d: f["X"].attrs.modify("shape", HUGE)), "{} must fit into memory, got X (1000000, "),
    "csr encoding": (
        csr(lambda f, d: f["X"].attrs.modify("encoding-type", "coo")),
        "{} must hold a dense, CSR or CSC matrix in X, got encoding coo",
    ),
    # PLINK
    "bed no fam": (
        plink(".fam", lambda raw: None),
        ".fam is missing; a PLINK file set is bad.bed, bad.bim and bad.fam",
    ),
    "bed no bim": (
        plink(".bim", lambda raw: None),
        ".bim is missing; a PLINK file set is bad.bed, bad.bim and bad.fam",
    ),
    "bed fam lacks two": (
        plink(".fam", lambda raw: without_line(without_line(raw))),
        "{} must hold 21 bytes for the 11",
    ),
    "bed fam has more": (
        plink(".fam", lambda raw: raw + b"".join(b"0 z%d 0 0 0 1\n" % i for i in range(4))),
        "{} must hold 33 bytes for the 17",
    ),
    "bed person twice": (plink(".fam", lambda raw: raw.replace(b"s12", b"s11")), "bad.fam must have distinct samples"),
    "bed SNP twice": (plink(".bim", lambda raw: raw.replace(b"rs1", b"rs0")), "bad.bim must have distinct SNP names"),
    "bed no magic": (
        plink(".bed", lambda raw: raw[1:]),
        "{} must start with the bytes 6c 1b 01 of a PLINK 1 .bed file",
    ),
    "bed by person": (plink(".bed", lambda raw: raw[:2] + b"\0" + raw[3:]), "{} must start with the bytes 6c 1b 01"),
    "bed cut": (plink(".bed", lambda raw: raw[:-1]), "{} must hold 27 bytes for the 13 samples of the .fam and the 6"),
    "bed longer": (plink(".bed", lambda raw: raw + b"\0"), "{} must hold 27 bytes for the 13 samples of the .fam and"),
    "bed padding": (
        plink(".bed", lambda raw: raw[:-1] + bytes([raw[-1] | 0xC0])),
        "{} must hold zeros after the 13 samples of the .fam file, got genotypes of more samples, the first at SNP",
    ),
    "bed no call": (plink(".bed", last_is_missing_everywhere), "{} must have a call for every SNP to take its mean"),
    "bed fam columns": (
        plink(".fam", lambda raw: raw.replace(b" 0 ", b" ").replace(b"\t0\t", b"\t", 1)),
        "bad.fam, line 1 ",
    ),
    "bed fam utf-16": (plink(".fam", lambda raw: raw.decode().encode("utf-16")), "bad.fam, line 1 must be UTF-8 text"),
    "bed bim empty": (plink(".bim", EMPTY), "bad.bim must have at least one line, got none"),
    # places
    "missing": (lambda folder: folder / "none.csv", "{} is missing"),
    "folder": (folder_of_that_name("bad.npz"), "{} is a folder, not a file"),
    "folder h5ad": (folder_of_that_name("bad.h5ad"), "{} is a folder, not a file"),
    "loop": (link("bad.csv"), "{} is a link that leads back to itself"),
    "to nowhere": (link("nowhere.csv"), "is missing|is a link to nowhere.csv, which is missing"),
    "pipe": (pipe, "{} is a named pipe, not a file"),
    "device": (link("/dev/zero", "bad.npz"), " is a device, not a file| must end in one of .h5ad, .zarr, .bed, .csv"),
    "nobody's home": (
        lambda folder: "~nosuchuser/x.csv",
        "~nosuchuser/x.csv must start with the home folder of a user",
    ),
    "ending": (
        text(TEXT, "bad.xls"),
        "{} must end in one of .h5ad, .zarr, .bed, .csv, .tsv, .xlsx, .parquet, .mtx, .npz, got '.xls'",
    ),
    "long name": (lambda folder: folder / ("x" * 300 + ".csv"), "File name too long"),
}
COMMANDS = {  # what comes before and after the file
    "info": (["data", "info"], []),
    "train": (["train"], ["--out", "{out}", "--n-outer", "2"]),
    "predict": (["predict", "{run}"], ["--out", "{out}"]),
    "select": (["select"], ["--out", "{out}.csv"]),
    "diagnose": (["diagnose"], ["--out", "{out}"]),
    "compare": (["compare"], ["--out", "{out}", "--seeds", "1"]),
    "attack": (["attack", "{run}", "--out", "{out}", "--data"], []),
}
CASES = [
    (file, command)
    for i, file in enumerate(BAD)
    for j, command in enumerate(COMMANDS)
    if tally.FULL or i % len(COMMANDS) == j
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run on a table, and one on genotypes, whose labels are called otherwise."""
    folder = tmp_path_factory.mktemp("good")
    made = {}
    for path, label in ((text(TEXT, "good.csv")(folder), "y"), (samples.write_plink(folder / "good.bed"), "phenotype")):
        made[label] = folder / label
        options = ["--label", label, "--out", str(made[label]), "--n-outer", "2", "--defence", "erm"]
        done = CliRunner().invoke(app, ["train", str(path), *options])
        assert done.exit_code == 0, done.output
    return made


def wrong(done, expected, path, out):
    """What is wrong with how a command ended; None where it is a clean error with the expected message."""
    if done.exit_code != 2 or not isinstance(done.exception, SystemExit):
        return f"exit code {done.exit_code}, {done.exception!r}"
    if "Traceback" in done.output or not done.stderr.splitlines()[-1].startswith(("gsat: ", "while reading ")):
        return f"more than a line: {done.output}"
    wanted = "|".join(re.escape(part).replace(r"\{\}", re.escape(str(path))) for part in expected.split("|"))
    if not re.search(wanted, done.stderr):
        return f"another message: {done.stderr}"
    return f"{out} was written" if any(out.parent.glob(f"{out.name}*")) else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("file", "command"), CASES)
def test_bad_file(tmp_path, runs, file, command):
    write, expected = BAD[file]
    path = write(tmp_path)
    label = "phenotype" if str(path).endswith(".bed") else "y"
    before, after = COMMANDS[command]
    places = {"run": runs[label], "out": tmp_path / "out"}
    named = [] if command == "attack" else ["--label", label]
    arguments = [*before, str(path), *named, *after]
    done = CliRunner().invoke(app, [each.format(**places) for each in arguments])
    said = wrong(done, expected, path, tmp_path / "out")
    tally.count(f"bad inputs: files, {command}", 1, int(said is None), int(said is not None))
    assert said is None


def test_the_table_is_long_enough():
    assert len(BAD) >= 60
    assert {command for _, command in CASES} == set(COMMANDS)
