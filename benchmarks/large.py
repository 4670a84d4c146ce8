"""Samples larger than memory: peak memory of the commands on a sparse .h5ad that stays on disk, and time per group.

    python benchmarks/large.py --folder /somewhere     # 200,000 x 20,000, 5 % not 0: a file of 1.6 GB, 16 GB if dense
    python benchmarks/large.py --quick                 # does it run here?
    python benchmarks/large.py --n 20000 --parts ahead # what reading the next group in a thread gains

Peak memory: `gsat train` (100 groups of 200), `gsat predict` and, where --parts names it, `gsat diagnose`, each a
process of its own; ru_maxrss of it and of the readers that it starts, whichever is larger. Time per group: training on
the rows of the file and on the same CSR matrix in memory, in turns, medians over rounds of the same groups; the file is
in the page cache then. After that groups are read whose pages are not, sample by sample and as --shuffle block draws
them. --parts ahead: training with and without the thread that reads the next group, in turns, the file in the page
cache and taken out of it after each group. A file that is in --folder already is taken as it is; a temporary folder
goes away in the end. --out keeps what is printed.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

TYPES, DONORS = ("B", "NK", "T"), ("d1", "d2", "d3", "d4")
SHARE = 0.05  # of the numbers are not 0
MARKERS = 100  # features of each type
ROWS = 1000  # made at a time
CHUNK = 25_025  # numbers that lie together in the file: what anndata 0.12 takes for 200 million
FULL = {"n": 200_000, "d": 20_000, "groups": 100, "size": 200, "rounds": 7}
QUICK = {"n": 600, "d": 400, "groups": 6, "size": 50, "rounds": 2}
STREAMS = ("train", "predict", "diagnose")
told: list[str] = []  # what was printed


def tell(line: str) -> None:
    """Print a line and keep it."""
    told.append(line)
    print(line, flush=True)


def make(path: Path, n: int, d: int) -> None:
    """A CSR .h5ad (n, d) as anndata lays it out, written a few rows at a time under another name first."""
    import anndata

    rng = np.random.default_rng(0)
    kind, donor = rng.integers(len(TYPES), size=n), rng.integers(len(DONORS), size=n)
    obs = pd.DataFrame({"type": np.array(TYPES)[kind], "donor": np.array(DONORS)[donor]}).astype("category")
    obs.index = pd.Index([f"c{i}" for i in range(n)], dtype=object)
    var = pd.DataFrame(index=pd.Index([f"g{j}" for j in range(d)], dtype=object))
    draft = path.with_suffix(".part")
    anndata.AnnData(None, obs, var).write_h5ad(draft)
    markers = rng.permutation(d)[: len(TYPES) * min(MARKERS, d // 10)].reshape(len(TYPES), -1)
    depth = rng.uniform(0.7, 1.4, (len(DONORS), d)).astype(np.float32)
    with h5py.File(draft, "r+") as file:
        if "X" in file:
            del file["X"]
        X = file.create_group("X")
        X.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": (n, d)})
        parts = {
            name: X.create_dataset(name, (0,), dtype, chunks=(CHUNK,), maxshape=(None,))
            for name, dtype in (("data", "f4"), ("indices", "i4"))
        }
        ends = [0]
        for begin in range(0, n, ROWS):
            mine, own = kind[begin : begin + ROWS], donor[begin : begin + ROWS]
            there = rng.random((len(mine), d), dtype=np.float32) < SHARE
            np.put_along_axis(there, markers[mine], rng.random((len(mine), markers.shape[1])) < 0.3, 1)
            rows, columns = np.nonzero(there)
            values = depth[own[rows], columns] * (1 + rng.standard_exponential(len(rows), dtype=np.float32))
            for name, some in (("data", values), ("indices", columns)):
                parts[name].resize((ends[-1] + len(some),))
                parts[name][ends[-1] :] = some
            ends += (ends[-1] + np.cumsum(there.sum(1))).tolist()
        X.create_dataset("indptr", data=np.array(ends, np.int32 if ends[-1] < 2**31 else np.int64))
    draft.rename(path)


def measured(name: str, command: list[str]) -> None:
    """Run a command, and print its time and its peak memory."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)  # ru_maxrss of the process and of those that it waited for
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{said.read().decode()}")
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    wall, busy = time.perf_counter() - begin, used.ru_utime + used.ru_stime
    tell(f"{name:<10} {wall:7.1f} s, {busy:7.1f} s of processor time, peak {peak / 1e9:.2f} GB")


def commands(path: Path, folder: Path, groups: int, size: int) -> dict[str, list[str]]:
    """What is measured, by name."""
    gsat, asked = [sys.executable, "-m", "gsat"], ["--label", "type", "--batch", "donor"]
    run, rest = folder / "run", ["--n-outer", str(groups), "--group-size", str(size), "--force"]
    out = ["--out", str(folder / "new.csv"), "--force"]
    return {
        "train": [*gsat, "train", str(path), *asked, *rest, "--out", str(run), "--stream"],
        "predict": [*gsat, "predict", str(run), str(path), *out, "--stream"],
        "diagnose": [*gsat, "diagnose", str(path), *asked, "--out", str(folder / "diagnosis"), "--force", "--stream"],
    }


def forget(path: Path) -> None:
    """Take the pages of a file out of the cache, where the system can."""
    with path.open("rb") as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def per_group(path: Path, size: int, rounds: int, groups: int = 4) -> None:
    """Print the seconds that training takes for a group, on disk and in memory."""
    import anndata
    import torch

    import gsat
    from gsat._arrays.standardise import Standardised
    from gsat.models import build
    from gsat.training.groups import RUN, draw
    from timing import alternate

    table = gsat.data.load(path, label="type", stream=True)
    d, codes = table.X.shape[1], table.codes
    places = {"disk": table.X, "memory": anndata.read_h5ad(path).X}
    indptr, indices = places["memory"].indptr, places["memory"].indices
    if indptr.dtype != indices.dtype:  # scipy would then copy all of it for each group, and memory look slow
        raise SystemExit(f"{path} must have indptr and indices of one dtype, got {indptr.dtype} and {indices.dtype}")
    first = table.X.dense(slice(0, 1000))
    mean, scale = first.mean(0), np.maximum(first.std(0), 0.1)
    seed = dict.fromkeys(places, 0)

    def job(name: str) -> None:
        rows = Standardised(places[name], mean, scale)
        rows.mean_norm = float(d) ** 0.5  # what one pass over all samples would find
        seed[name] += 1  # the same groups in both places, others in the next round
        gsat.gdadmm(
            build("elu", (d,), len(TYPES), seed=0),
            rows,
            codes,
            gsat.defences.GSAT(gsat.LowRank(), n_inner=5),
            n_outer=groups,
            group_size=size,
            generator=torch.Generator().manual_seed(seed[name]),
        )

    def reads(name: str) -> None:
        seed[name] += 1
        rng = np.random.default_rng(seed[name])
        for _ in range(groups):
            places[name][rng.permutation(len(codes))[:size]]

    for what, run in (("a group read", reads), ("a group trained on", job)):
        times = alternate({name: lambda name=name, run=run: run(name) for name in places}, rounds)
        ratio = times.ratio("disk", "memory")
        tell(
            f"{what:<20} {times.median('disk') / groups:.3f} s on disk, {times.median('memory') / groups:.3f} s in "
            f"memory: {ratio.median:.2f} times ({ratio.low:.2f} to {ratio.high:.2f})"
        )
    for run in (1, RUN):  # last: from here on not all pages are in the cache
        begin = time.perf_counter()
        for _ in range(groups):
            forget(path)
            table.X[draw(len(codes), size, torch.Generator().manual_seed(run), run).numpy()]
        seconds = (time.perf_counter() - begin) / groups
        tell(f"a group read, file not in the page cache, in runs of {run}: {seconds:.3f} s")


def ahead(path: Path, size: int, rounds: int, groups: int = 8) -> None:
    """Print what a run with a thread that reads the next group takes of the time of one without."""
    import torch

    import gsat
    from gsat._arrays.standardise import Standardised
    from gsat.models import build

    table = gsat.data.load(path, label="type", stream=True)
    d, codes, first = table.X.shape[1], table.codes, table.X.dense(slice(0, 500))
    mean, scale = first.mean(0), np.maximum(first.std(0), 0.1)

    def steps(thread: bool, cold: bool, seed: int) -> float:
        """The seconds of the steps after the first two: before them nothing was read ahead."""
        rows, ends = Standardised(table.X, mean, scale), []
        rows.mean_norm, rows.on_disk = float(d) ** 0.5, thread

        def after(step: object, model: object) -> None:
            ends.append(time.perf_counter())
            if cold:
                forget(path)

        gsat.gdadmm(
            build("elu", (d,), len(TYPES), seed=0),
            rows,
            codes,
            gsat.defences.GSAT(gsat.LowRank(), n_inner=5),
            n_outer=groups,
            group_size=size,
            generator=torch.Generator().manual_seed(seed),
            callbacks=[after],
        )
        return sum(end - begin for begin, end in itertools.pairwise(ends[1:]))

    for cold in (False, True):
        found = []
        for seed in range(rounds):
            both = {thread: steps(thread, cold, seed) for thread in ((False, True) if seed % 2 else (True, False))}
            found.append(both[True] / both[False])
        low, median, high = np.quantile(found, [0.25, 0.5, 0.75])
        where = "out of the page cache" if cold else "in the page cache"
        tell(f"steps with a thread, without = 1, file {where}: {median:.2f} ({low:.2f} to {high:.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of the file and of what is made of it; default a temporary one")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", default="train,predict,time", help=f"of {', '.join(STREAMS)}, time, ahead")
    parser.add_argument("--n", type=int, help="samples; default 200,000")
    parser.add_argument("--out", type=Path, help="a file for what is printed")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if other := set(parts) - {*STREAMS, "time", "ahead"}:
        parser.error(f"--parts must be of {', '.join(STREAMS)}, time and ahead, got {', '.join(sorted(other))}")
    sizes = QUICK if options.quick else FULL
    sizes = sizes if options.n is None else {**sizes, "n": options.n}
    told.clear()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"cells-{sizes['n']}x{sizes['d']}.h5ad"
        if not path.exists():
            make(path, sizes["n"], sizes["d"])
        tell(f"{path.name}: {path.stat().st_size / 1e9:.2f} GB, {4 * sizes['n'] * sizes['d'] / 1e9:.2f} GB if dense")
        for name, command in commands(path, folder, sizes["groups"], sizes["size"]).items():
            if name in parts:
                measured(name, command)
        if "time" in parts:
            per_group(path, sizes["size"], sizes["rounds"])
        if "ahead" in parts:
            ahead(path, sizes["size"], 2 * sizes["rounds"])
    if options.out is not None:
        options.out.write_text("\n".join(told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
