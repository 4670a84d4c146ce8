"""Damaged files of every format: a clean error that names the file, or the right table, and nothing else.

No format is trusted: what carries a checksum (.npz, gzip) must come back equal, genotypes must be those that the bytes
say, and everything else must be a table that holds what every table holds. The cases run in processes of their own, so
that a crash or a hang is a failure like any other.
"""

import hashlib
import json
import random
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import reader_samples as samples
import tally

from gsat.data import Table, load, memory
from gsat.data.readers import apart
from gsat.data.readers.idx import read_idx

pytestmark = pytest.mark.campaign

FORMATS = {  # ending: how to write a good file
    "csv": (".csv", samples.write_text),
    "tsv": (".tsv", samples.write_tsv),
    "parquet": (".parquet", samples.write_parquet),
    "xlsx": (".xlsx", samples.write_xlsx),
    "npz": (".npz", samples.write_npz),
    "h5ad": (".h5ad", samples.write_h5ad),
    "sparse": (".h5ad", samples.write_sparse),
    "plink": (".bed", samples.write_plink),
    "mtx": (".mtx", samples.write_mtx),
    "idx": (".idx", samples.write_idx),
    "idx.gz": (".gz", samples.write_idx_gz),
}
SETS = {  # name of the set, how to write a small one; every file of them has a sum
    "mnist.gz": ("mnist", samples.write_mnist),
    "mnist": ("mnist", samples.write_mnist_plain),
    "cifar10.png": ("cifar10", samples.write_png),
    "cifar10.bin": ("cifar10", samples.write_bin),
    "cifar10.webp": ("cifar10", samples.write_webp),
}
CASES = dict.fromkeys(FORMATS, 450 if tally.FULL else 17) | dict.fromkeys(SETS, 200 if tally.FULL else 10)
CASES |= dict.fromkeys(("parquet", "h5ad", "sparse", "xlsx"), 150 if tally.FULL else 7)  # each case is a process
CASES["cifar10.webp"] = 120 if tally.FULL else 4  # its pictures are large; 4,670 and 191 in all
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1)
ROOM = 3 * 2**30  # bytes of addresses beside what the libraries take
SHOWN = 4000  # characters of a message that a person may still read


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """The bytes with one to four wounds."""
    raw = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(raw)) if raw else 0
        size = rng.choice((1, 2, 4, 8, 64, 512))
        other = rng.randrange(len(raw)) if raw else 0
        match rng.randrange(9):
            case 0:
                del raw[at:]
            case 1:
                del raw[at : at + size]
            case 2:
                raw[at:at] = rng.randbytes(size)
            case 3:
                raw[at : at + size] = bytes(min(size, len(raw) - at))
            case 4:
                raw[at : at + size] = raw[other : other + size]
            case 5 | 6:
                raw[at : at + 1] = bytes([raw[at] ^ 1 << rng.randrange(8)]) if raw else b""
            case 7:
                width = rng.choice((1, 2, 4, 8))
                edge = rng.choice(EDGES) & (2 ** (8 * width) - 1)
                raw[at : at + width] = edge.to_bytes(width, rng.choice(("little", "big")))
            case 8:
                raw[at : at + 1] = rng.choice((b",", b"\n", b'"', b"\t", b"\0", b"e999", b"nan", b"-", b"\xff"))
    return bytes(raw)


def complaint(name: str, path: Path, before: Table, touched: Path) -> str | None:
    """What is wrong with how the file is read; None where it is a clean error or the right table."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name.startswith("idx"):
                found = read_idx(path)
                return unequal_idx(name, path, found, before)
            if name in SETS:
                table = load(SETS[name][0], data_dir=path)
                same = table.checksum == before.checksum and np.array_equal(table.X, before.X)
                return None if same and table.y.tolist() == before.y.tolist() else "another set than before"
            table = load(path, **options_of(name, path))
    except (ValueError, OSError) as error:
        text = "\n".join([str(error), *getattr(error, "__notes__", [])])
        wanted = path.parent.name if name == "mtx" else touched.name if name in SETS else path.stem
        if wanted not in text:  # a barcode that was changed is missing from the table of cells
            return f"an error that does not name the file: {text[:300]}"
        return None if len(text) < SHOWN else f"an error of {len(text)} characters: {text[:300]}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:300]
    return malformed(table, path, name) or unequal(name, path, table, before, touched)


def options_of(name: str, path: Path) -> dict:
    if name == "plink":
        return {"label": "phenotype", "missing": -1}
    return {"label": "y", "batch": "b"} | ({"pheno": path.with_name("samples.tsv")} if name == "mtx" else {})


def malformed(table: Table, path: Path, name: str) -> str | None:
    beside = [path.with_suffix(ending) for ending in (".bim", ".fam")] if name == "plink" else []
    beside = [path.with_name(f"{each}.tsv") for each in ("barcodes", "features")] if name == "mtx" else beside
    checksum = hashlib.sha256(b"".join(each.read_bytes() for each in (path, *beside))).hexdigest()
    rules = {
        "float32": table.X.dtype == np.float32,
        "finite": bool(np.isfinite(table.X).all()),
        "a label for each sample": table.y is not None and table.y.shape == (len(table),),
        "a name for each feature": len(set(table.feature_names or range(table.X.shape[1]))) == table.X.shape[1],
        "distinct ids": table.sample_ids is None or len(set(table.sample_ids)) == len(table),
        "the checksum": table.checksum == checksum,
        "samples": table.X.size > 0,
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    return f"a table without {', '.join(broken)}" if broken else None


def unequal(name: str, path: Path, table: Table, before: Table, touched: Path) -> str | None:
    if name == "npz":  # every array has a checksum
        same = np.array_equal(table.X, before.X) and table.feature_names == before.feature_names
        same = same and table.y.tolist() == before.y.tolist() and table.batch.tolist() == before.batch.tolist()
        return None if same else "another table than before"
    if name == "plink" and touched == path:
        codes = np.frombuffer(path.read_bytes()[3:], np.uint8).reshape(samples.D, -1)
        pairs = (codes[:, :, None] >> np.array([0, 2, 4, 6])) & 3
        meant = np.array([2, -1, 1, 0])[pairs.reshape(samples.D, -1)[:, : samples.N]].T
        return None if np.array_equal(table.X, meant) else "other genotypes than the bytes say"
    return None


def unequal_idx(name: str, path: Path, found: np.ndarray, before: np.ndarray) -> str | None:
    if name == "idx.gz":
        return None if np.array_equal(found, before) else "another array than before"
    raw = path.read_bytes()
    return None if found.tobytes() == raw[4 + 4 * raw[3] :] or found.dtype.itemsize > 1 else "other numbers"


def run(name: str, count: int, folder: Path) -> list[str]:
    """The complaints about `count` damaged files of one format."""
    if name in SETS:
        of_set, write = SETS[name]
        write(folder)
        path, files = folder, sorted(each for each in folder.rglob("*") if each.is_file())
        before = load(of_set, data_dir=folder)
    else:
        ending, write = FORMATS[name]
        path = write(folder / f"damaged{ending}")
        files = [path, *(path.with_suffix(each) for each in (".bim", ".fam") if name == "plink")]
        files += [path.with_name(f"{each}.tsv") for each in ("barcodes", "features", "samples") if name == "mtx"]
        before = read_idx(path) if name.startswith("idx") else load(path, **options_of(name, path))
    good = {each: each.read_bytes() for each in files}
    apart.SILENCE = 20.0
    resource.setrlimit(resource.RLIMIT_AS, ((memory.address_space() or ROOM) + ROOM,) * 2)
    found = []
    for case in range(count):
        rng = random.Random(f"{name} {case}")
        touched = rng.choice(files)
        touched.write_bytes(damaged(good[touched], rng))
        if said := complaint(name, path, before, touched):
            found.append(f"{name} {case}: {said}")
        touched.write_bytes(good[touched])
    return found


@pytest.mark.parametrize("name", [*FORMATS, *SETS])
def test_damaged_files(tmp_path, name):
    count = CASES[name]
    done = subprocess.run(
        [sys.executable, __file__, name, str(count), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    complaints = json.loads(done.stdout.splitlines()[-1])
    tally.count(f"fuzzed: {name}", count, count - len(complaints), len(complaints))
    assert not complaints, "\n".join(complaints)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
