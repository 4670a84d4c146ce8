"""Files larger than the memory that a process may take (RLIMIT_AS): one error before it is allocated, no MemoryError.

In the small size only some of them are tried: those whose memory is counted in different ways.
"""

import gzip
import io
import json
import struct
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reader_samples as samples
import tally

from gsat.data import memory

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(memory.address_space() is None, reason="the system does not say what a process takes"),
]

ROOM = 600 * 10**6  # bytes beside what the libraries of the child take
CHILD = """
import json, resource, sys
import numpy, pandas, scipy.sparse
from gsat.data import load, memory
from gsat.data.readers import columns, idx
resource.setrlimit(resource.RLIMIT_AS, (memory.address_space() + int(sys.argv[2]),) * 2)
try:
    if sys.argv[1].endswith(".gz"):
        found = ["read", idx.read_idx(sys.argv[1]).shape]
    else:
        found = ["read", load(sys.argv[1], **json.loads(sys.argv[3])).X.shape]
except BaseException as error:
    found = [type(error).__name__, str(error)]
sys.stdout.write(json.dumps(found))
"""


def read_in(room, path, **options):
    """What a child process that may take `room` more bytes makes of the file."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(room), json.dumps(options)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def npz(path):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (2 * 10**5, 1000)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("X.npy", "w") as member:
        member.write(head.getvalue())
        for _ in range(80):
            member.write(bytes(10**7))
    return path


def h5ad(path, change):
    samples.write_h5ad(path)
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def dense(file):
    del file["X"]
    file.create_dataset("X", (10**6, 2000), "f4", chunks=(100, 2000), compression="gzip")


def sparse(file):
    del file["X"]
    made = file.create_group("X")
    made.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [10**6, 2000]})
    made["data"], made["indices"], made["indptr"] = np.ones(1), np.zeros(1, int), np.minimum(np.arange(10**6 + 1), 1)


def names(file):
    del file["obs/_index"]
    file.create_dataset("obs/_index", (10**9,), h5py.string_dtype(), chunks=True)


def parquet(path):
    schema = pa.schema([(f"g{j}", pa.float32()) for j in range(10)])
    with pq.ParquetWriter(path, schema, use_dictionary=True) as writer:
        rows = pa.table([pa.array(np.zeros(10**6, np.float32))] * 10, schema=schema)
        for _ in range(20):
            writer.write_table(rows)
    return path


def dictionary(path):
    """One long text, kept once and meant for every row."""
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**5, np.int32)), pa.array(["x" * 10**5]))
    pq.write_table(pa.table({"g0": np.zeros(10**5, np.float32), "y": long}), path, store_schema=False)
    return path


def csv(path):
    path.write_text("g0\n" + "1\n" * (2 * 10**7))
    return path


def plink(path, snps=200_000):
    people = 4000
    path.with_suffix(".fam").write_text("".join(f"0 i{i} 0 0 0 1\n" for i in range(people)))
    path.with_suffix(".bim").write_text("".join(f"1 rs{j} 0 {j} A G\n" for j in range(snps)))
    with path.open("wb") as stream:
        stream.write(b"\x6c\x1b\x01")
        stream.truncate(3 + people // 4 * snps)  # zeros that take no room on the disk
    return path


def idx(path):
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(struct.pack(">BBBBII", 0, 0, 8, 2, 500, 10**6))
        for _ in range(50):
            stream.write(bytes(10**7))
    return path


LARGE = {
    "npz": ("large.npz", npz, {}, "array 'X' (200000, 1000) of float32 of 800 MB"),
    "dense": ("large.h5ad", lambda path: h5ad(path, dense), {}, "X (1000000, 2000) as float32 of 8 GB"),
    "sparse": ("large.h5ad", lambda path: h5ad(path, sparse), {}, "X (1000000, 2000) as float32 of 8 GB"),
    "names": ("large.h5ad", lambda path: h5ad(path, names), {}, "/obs/_index (1000000000,) of 100 GB"),
    "parquet": ("large.parquet", parquet, {}, "features (20000000, 10) as float32 of 800 MB"),
    "dictionary": ("large.parquet", dictionary, {"label": "y"}, "a file that takes more"),
    "csv": ("large.csv", csv, {}, "about "),
    "plink": ("large.bed", plink, {}, "genotypes (4000 samples, 200000 SNPs) of 4.8 GB"),
    "idx": ("large.gz", idx, {}, "shape (500, 1000000) of uint8 of 1 GB"),
}


@pytest.mark.parametrize("name", LARGE if tally.FULL else ("npz", "sparse", "dictionary", "plink"))
def test_a_file_that_does_not_fit(tmp_path, name):
    file, write, options, expected = LARGE[name]
    path = write(tmp_path / file)
    kind, text = read_in(ROOM, path, **options)
    clean = kind == "ValueError" and text.startswith(f"{path} must fit into memory, got {expected}")
    tally.count("memory limit: files", 1, int(clean), int(not clean))
    assert clean, (kind, text)


def test_genotypes_that_do_not_fit_stay_on_disk(tmp_path):
    path = plink(tmp_path / "large.bed", snps=50_000)
    read = read_in(ROOM, path)
    tally.count("memory limit: files", 1, int(read[0] == "read"), int(read[0] != "read"))
    assert read == ["read", [4000, 50_000]]


SMALL = {
    "small.h5ad": samples.write_h5ad,
    "small.parquet": samples.write_parquet,
    "small.xlsx": samples.write_xlsx,
    "small.csv": samples.write_text,
    "small.npz": samples.write_npz,
    "small.bed": samples.write_plink,
    "small.gz": samples.write_idx_gz,
}


@pytest.mark.parametrize("file", SMALL if tally.FULL else ("small.h5ad", "small.parquet"))
def test_a_file_that_fits_is_read_under_the_same_limit(tmp_path, file):
    path = SMALL[file](tmp_path / file)
    options = {} if file.endswith((".gz", ".bed")) else {"label": "y", "batch": "b"}
    read = read_in(ROOM, path, **options)
    tally.count("memory limit: files", 1, int(read[0] == "read"), int(read[0] != "read"))
    assert read == ["read", [samples.N, samples.D]]
