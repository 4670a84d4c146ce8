"""Files made to hang, crash, fill the memory or reach into other files end in one error with the path."""

import gzip
import io
import json
import os
import re
import socket
import struct
import subprocess
import sys
import zipfile
import zlib

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from test_readers import DONORS, TYPES, N, write_h5ad, write_plink
from test_readers_bad import GOOD, refuses, replaced

from gsat import data
from gsat.data import memory
from gsat.data.readers import apart
from gsat.data.readers.idx import read_idx
from gsat.data.sets import cifar10

HUGE = 10**6  # of rows and of columns: 4 TB as float32


def npy_header(shape, descr="<f4"):
    raw = io.BytesIO()
    np.lib.format.write_array_header_1_0(raw, {"descr": descr, "fortran_order": False, "shape": shape})
    return raw.getvalue()


def npz_of(path, method=zipfile.ZIP_DEFLATED, **members):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array):
    raw = io.BytesIO()
    np.save(raw, array)
    return raw.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (npy_header((HUGE, HUGE)), r", array 'X' must have .* bytes for shape \(1000000, 1000000\) of float32, got 1"),
        (npy_header((3, 2)) + bytes(20), r", array 'X' must have 152 bytes for shape \(3, 2\) of float32, got 148$"),
        (npy_header((3, 2)) + bytes(28), r", array 'X' must have 152 bytes for shape \(3, 2\) of float32, got 156$"),
        (npy_header((-3, 2)), r", array 'X' must be a whole .npy array, got: .*shape"),
        (npy_header((2**62, 2**62)), r", array 'X' must have \d+ bytes for shape"),
        (b"\x93NUMPY\x01\x00\xff\xff{", r", array 'X' must be a whole .npy array, got: "),
        (
            b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000,
            r", array 'X' must be a whole .npy array, got: ",
        ),
        (b"a,b\n1,2\n", r", array 'X' must be a whole .npy array, got: "),
        (npy_header((2,), "|O") + b"\x80\x04N.", r", array 'X' must hold numbers or text and no pickled objects"),
        (npy_header((2, 2), [("a", "<f4")]) + bytes(16), r" must hold real numbers in X, got \[\('a', '<f4'\)\]$"),
    ],
)
def test_npz_that_announces_what_it_does_not_hold(tmp_path, content, reason):
    refuses(npz_of(tmp_path / "bad.npz", X=content), reason)


def test_npz_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "bad.npz"
    head = npy_header((25 * 10**6, 1))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("X.npy", "w") as member:
        member.write(head)
        for _ in range(100):
            member.write(bytes(10**6))
    assert path.stat().st_size < 10**6
    refuses(
        path,
        r" must fit into memory, got array 'X' \(25000000, 1\) of float32 of 100 MB where max_memory allows 50 MB$",
        max_memory="50MB",
    )


def test_npz_packed_by_other_means_than_numpy_is_refused(tmp_path):
    path = npz_of(tmp_path / "bad.npz", zipfile.ZIP_LZMA, X=npy(GOOD))
    refuses(path, r", array 'X' must be stored or deflated, as numpy does it, got method 14$")


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_npz_with_one_name_twice(tmp_path):
    path = npz_of(tmp_path / "bad.npz", X=npy(GOOD))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("X.npy", npy(GOOD + 1))
    refuses(path, r" must have distinct arrays, got 'X' at positions 0 and 1")


def linked(file, key, link):
    del file[key]
    file[key] = link


def virtual(file, other):
    with h5py.File(other, "w") as source:
        source["X"] = GOOD
    layout = h5py.VirtualLayout(GOOD.shape, GOOD.dtype)
    layout[...] = h5py.VirtualSource(str(other), "X", GOOD.shape)
    del file["X"]
    file.create_virtual_dataset("X", layout)


def outside(file, other):
    other.write_bytes(bytes(200))
    del file["X"]
    file.create_dataset("X", GOOD.shape, "f4", external=[(str(other), 0, h5py.h5f.UNLIMITED)])


def announced(file, key, shape, **how):
    del file[key]
    file.create_dataset(key, shape, "f4", chunks=True, **how)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda f, o: linked(f, "X", h5py.ExternalLink(str(o), "X")),
            r" must hold its .*, got X, a link to .*other:X$",
        ),
        (lambda f, o: linked(f, "obs", h5py.ExternalLink(str(o), "/")), r" must hold its .*, got obs, a link to .*"),
        (
            lambda f, o: linked(f, "obs/type", h5py.SoftLink("/etc")),
            r" must hold its .*, got obs/type, a link to /etc$",
        ),
        (virtual, r" must hold its data itself, got X, whose numbers are in other files$"),
        (outside, r" must hold its data itself, got X, whose numbers are in other files$"),
        (
            lambda f, o: announced(f, "X", (HUGE, HUGE)),
            r" must fit into memory, got X \(1000000, 1000000\) as float32 of",
        ),
        (lambda f, o: replaced(f, "var/_index", np.arange(2.0)), r".*feature_names must have one entry per feature"),
        (lambda f, o: f["obs"].attrs.modify("_index", "../var/_index"), r" must be a whole HDF5 file, got: "),
        (lambda f, o: replaced(f, "obs/type/codes", np.full(N, 99)), r" must be a whole HDF5 file, got: .*codes"),
    ],
)
def test_h5ad_reaches_into_no_other_file_and_fits_into_memory(tmp_path, change, reason):
    path = write_h5ad(tmp_path / "bad.h5ad", GOOD, {"type": TYPES})
    with h5py.File(path, "r+") as file:
        change(file, tmp_path / "other")
    with pytest.raises(ValueError, match=f"(?s){re.escape(str(path)) if reason[0] != '.' else ''}{reason}"):
        data.load(path, label="type")


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_matrix])
def test_h5ad_sparse_matrix_of_an_announced_shape(tmp_path, form):
    path = write_h5ad(tmp_path / "bad.h5ad", form(GOOD))
    with h5py.File(path, "r+") as file:
        file["X"].attrs["shape"] = [HUGE, HUGE]
    refuses(path, r" must fit into memory, got X \(1000000, 1000000\) as float32 of 4 TB where .* are free")


STAND_INS = {  # what a library may do on a damaged file
    "hang": ("while True: pass", r" must be a whole HDF5 file, got one that takes forever to read$"),
    "crash": ("os.kill(os.getpid(), 11)", r" must be a whole HDF5 file, got one that ends its reader by signal 11"),
    "leave": ("os._exit(3)", r" must be a whole HDF5 file, got one that ends its reader with code 3"),
    "eat": (
        "x = [0]\n    while True: x = x + x",
        r" must fit into memory, got a file that takes more where max_memory allows 50 MB$",
    ),
    "raise": (
        "raise RuntimeError('link iteration failed')",
        r" must be a whole HDF5 file, got: link iteration failed$",
    ),
    "recurse": ("f = lambda: f()\n    f()", r" must be a whole HDF5 file, got: maximum recursion depth exceeded"),
}


@pytest.mark.parametrize("kind", STAND_INS)
def test_a_library_that_fails_ends_in_one_error(tmp_path, monkeypatch, kind):
    body, reason = STAND_INS[kind]
    path = write_h5ad(tmp_path / "bad.h5ad", GOOD)
    (tmp_path / "stand_in").mkdir()
    (tmp_path / "stand_in" / "h5py.py").write_text(f"import os\ndef File(*args):\n    {body}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "stand_in"), *sys.path])
    monkeypatch.setattr(apart, "SILENCE", 5.0)
    refuses(path, reason, max_memory="50MB")


def test_reading_apart_runs_nothing_from_the_working_folder(tmp_path, monkeypatch):
    path = write_h5ad(tmp_path / "good.h5ad", GOOD)
    for name in ("h5py", "json", "numpy", "gsat"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('foreign code ran')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    np.testing.assert_array_equal(data.load(path).X, GOOD)


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (lambda p: np.savez(p.with_suffix(".npz"), X=np.zeros((500, 700))), "array 'X' (500, 700) of float64"),
        (lambda p: write_h5ad(p.with_suffix(".h5ad"), GOOD), "/obs/_index (7,)"),
        (
            lambda p: pq.write_table(pa.table({f"c{j}": np.zeros(50) for j in range(9)}), p.with_suffix(".parquet")),
            "features (50, 9) as float32",
        ),
        (lambda p: p.with_suffix(".csv").write_text("a,b\n" + "1,2\n" * 400), "about 400 rows of 2 numbers"),
        (lambda p: write_plink(p.with_suffix(".bed")), "a table of text"),
    ],
)
def test_max_memory(tmp_path, write, what):
    write(tmp_path / "some")
    path = next(each for each in tmp_path.iterdir() if each.suffix not in (".bim", ".fam"))
    assert len(data.load(path, max_memory="1GB"))
    with pytest.raises(
        ValueError, match=rf"must fit into memory, got {re.escape(what)} of .* where max_memory allows 100 bytes$"
    ):
        data.load(path, max_memory=100)


def test_text_in_one_endless_line(tmp_path, monkeypatch):
    monkeypatch.setattr("gsat.data.readers.text.LONGEST", 1000)
    path = tmp_path / "bad.csv"
    path.write_text("a,b\n" + "1" * 2000)
    refuses(path, r", line 2 must have at most 1000 characters, got more; is it a table of text\?$")


@pytest.mark.parametrize("size", ["lots", "0", "-1GB", "4XB", "nan", "1e400", True, "", "4GBB"])
def test_max_memory_is_a_size(size):
    with pytest.raises(ValueError, match=r'^max_memory must be a number of bytes or a size such as "4GB", got '):
        data.load("digits", max_memory=size)


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("1.5 MiB", 3 * 2**19), ("7", 7), (9, 9), ("2k", 2000), ("3 tb", 3 * 10**12)]
)
def test_sizes(text, size):
    assert memory.as_bytes(text) == size


def idx_gz(path, shape, content):
    head = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
    path.write_bytes(gzip.compress(head + content))
    return path


def test_idx_is_never_unpacked_beyond_what_its_header_says(tmp_path):
    path = idx_gz(tmp_path / "bad.gz", (5, 6), bytes(200 * 10**6))
    child = (
        "import resource, sys; from gsat.data.readers.idx import read_idx\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 60 * 10**6,) * 2)\n"
        "try: read_idx(sys.argv[1])\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", child, path], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == f"{path} must hold 42 bytes for shape (5, 6), got more\n", done.stderr


def test_idx_that_announces_more_than_there_is_memory(tmp_path):
    path = idx_gz(tmp_path / "bad.gz", (2**31, 2**31), b"")
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} must fit into memory, got shape \(2147483648, "):
        read_idx(path)


def test_places_that_are_no_files(tmp_path):
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    refuses(loop, " is a link that leads back to itself$", FileNotFoundError)
    dangling = tmp_path / "dangling.csv"
    dangling.symlink_to("nowhere.csv")
    refuses(dangling, " is a link to nowhere.csv, which is missing$", FileNotFoundError)
    os.mkfifo(tmp_path / "pipe.csv")
    refuses(tmp_path / "pipe.csv", " is a named pipe, not a file$", FileNotFoundError)
    device = tmp_path / "device.npz"
    device.symlink_to("/dev/zero")
    refuses(device, " is a device, not a file$", FileNotFoundError)
    with pytest.raises(OSError, match="File name too long"):
        data.load(tmp_path / ("x" * 5000 + ".csv"))
    with pytest.raises(FileNotFoundError, match=r"is no path: embedded null byte$"):
        data.load("a\0b.csv")
    with pytest.raises(ValueError, match=r"^~nosuchuser/x.csv must start with the home folder of a user, got: "):
        data.load("~nosuchuser/x.csv")
    with pytest.raises(ValueError, match=r"^~nosuchuser/x must start with the home folder of a user, got: "):
        data.load("mnist", data_dir="~nosuchuser/x")


def test_a_socket_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the paths of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.csv")
        with pytest.raises(FileNotFoundError, match=r"^s\.csv is a socket, not a file$"):
            data.load("s.csv")


def test_parquet_whose_footer_is_nested_without_end(tmp_path):
    path = tmp_path / "bad.parquet"
    nested = pa.table({"a": [1.0, 2.0]}).replace_schema_metadata({"pandas": "[" * 100_000})
    pq.write_table(nested, path)
    refuses(path, r" must be a whole Parquet file, got: ")


def test_parquet_pages_with_a_checksum_are_checked(tmp_path):
    path = tmp_path / "bad.parquet"
    table = pa.table({"a": np.arange(1000.0)})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    raw = bytearray(path.read_bytes())
    raw[raw.index(struct.pack("<d", 500.0))] ^= 1
    path.write_bytes(raw)
    refuses(path, r" must be a whole Parquet file, got: .*(checksum|CRC)")


def test_labels_as_numbers_and_missing_text_come_back_from_apart(tmp_path):
    path = tmp_path / "some.parquet"
    pq.write_table(pa.table({"a": GOOD[:, 0], "y": pa.array(TYPES).dictionary_encode(), "b": DONORS}), path)
    table = data.load(path, label="y", batch="b")
    assert (table.y.tolist(), table.batch.tolist(), table.batch.dtype.kind) == (TYPES, DONORS, "i")
    assert json.dumps(table.describe()["classes"]) == '{"B": 3, "NK": 1, "T": 3}'


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (f"a,y\n{LONG},u\n", r", line 2, column 'a' must be a number, got 'xxx.*\.\.\.; a column"),
        (f"{LONG},{LONG},y\n1,2,u\n", r" must have distinct column names, got 'xxx.*\.\.\. at positions 0 and 1"),
        (f"{LONG},z\n1,2\n", r" must have the column that label='y' names, it has 'xxx.*\.\.\., 'z'$"),
    ],
)
def test_messages_stay_short(tmp_path, content, reason):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}{reason}") as caught:
        data.load(path, label="y")
    assert len(str(caught.value)) < 1000


IDAT = bytes(4) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))


def test_picture_that_announces_a_thousand_million_pixels(tmp_path):
    path = tmp_path / "bad.png"
    head = b"IHDR" + struct.pack(">IIBBBBB", 2**15, 2**15, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + IDAT)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} must be a whole .png file, got: .*bomb"):
        cifar10._picture(path)


@pytest.mark.parametrize("content", ["[" * 100_000, '[{"a": 1}]', "[1e999]", "[300]", "{", "nonsense"])
def test_json_labels(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} must be (a whole )?JSON.*, got"):
        cifar10._json_labels(path)
