"""How much anonymous memory `fit` needs beside the data: RssAnon of /proc/self/status, so Linux only.

dense:   2,000 x 20,531 float32 samples in memory, C order: the rise during fit, as a multiple of the data
mapped:  a float32 memory map of 4 GB (a sparse file): the peak of the whole process
sparse:  20,000 x 20,531 counts, 2 % of them not 0, which would be 1.6 GB if they were made dense

Each case is a process of its own, which looks at /proc every 5 ms. Some 60 MB of each rise are modules that torch loads
when the first optimizer is made; --warm makes one before.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

MB = 1e6
CASES = {"dense": (2000, 20531), "mapped": (48704, 20531), "sparse": (20000, 20531)}


def anonymous() -> int:
    """The bytes of anonymous memory of this process, those that were swapped out included."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    found = {words[0]: int(words[1]) for words in lines if words[0] in ("RssAnon:", "VmSwap:")}
    return 1024 * (found["RssAnon:"] + found.get("VmSwap:", 0))


class Peak(threading.Thread):
    """The largest RssAnon while the block runs."""

    def __enter__(self) -> "Peak":
        self.before = self.peak = anonymous()
        self.over = threading.Event()
        self.start()
        return self

    def run(self) -> None:
        while not self.over.is_set():
            self.peak = max(self.peak, anonymous())
            time.sleep(0.005)

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()
        self.peak = max(self.peak, anonymous())


def samples(kind: str, n: int, d: int, folder: str) -> Any:
    """Dense ones in memory or in a file, or sparse counts."""
    rng = np.random.default_rng(0)
    if kind == "dense":
        return rng.standard_normal((n, d), dtype=np.float32)
    if kind == "sparse":
        per_row = d // 50
        places = np.sort(rng.integers(0, d, (n, per_row), dtype=np.int32), axis=1).ravel()
        ends = per_row * np.arange(n + 1, dtype=np.int64)
        return sparse.csr_array((rng.random(len(places), dtype=np.float32), places, ends), shape=(n, d))
    written = np.memmap(f"{folder}/X", np.float32, "w+", shape=(n, d))  # zeros of a sparse file take no room
    for i in range(0, n, 50):
        written[i] = rng.standard_normal(d, dtype=np.float32)
    written.flush()
    return np.memmap(f"{folder}/X", np.float32, "r", shape=(n, d))


def measure(kind: str, n: int, d: int, structure: str, n_outer: int, warm: bool) -> dict[str, float]:
    """Fit and predict once, and say how far RssAnon rose; `data` is what the samples take if they are dense."""
    import torch

    import gsat

    if warm:
        torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    with tempfile.TemporaryDirectory() as folder:
        X, y = samples(kind, n, d, folder), np.arange(n) % 3
        classifier = gsat.GSATClassifier(structure, n_outer=n_outer, n_inner=5, random_state=0)
        with Peak() as fit:
            classifier.fit(X, y)
        with Peak() as predict:
            classifier.predict(X)
    return {
        "data": 4 * n * d,
        "rise": fit.peak - fit.before,
        "rise_in_predict": predict.peak - fit.before,
        "peak": max(fit.peak, predict.peak),
    }


def measured(*case: object) -> dict[str, float]:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    found: dict[str, float] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-outer", type=int, default=20)
    parser.add_argument("--structures", default="low-rank,universal,unstructured,group-sparse")
    parser.add_argument("--kinds", default=",".join(CASES))
    parser.add_argument("--warm", action="store_true", help="load what torch's optimizers need before")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(*json.loads(options.case))))
        return
    heads = ("dense, MB", "fit, MB", "fit/dense", "predict, MB", "peak, MB")
    print(f"{'samples':<26}{'structure':<14}" + "".join(f"{head:>13}" for head in heads))
    for kind in options.kinds.split(","):
        for structure in options.structures.split(","):
            n, d = CASES[kind]
            found = measured(kind, n, d, structure, options.n_outer, options.warm)
            data, rise, predict, peak = (found[key] / MB for key in ("data", "rise", "rise_in_predict", "peak"))
            cells = (f"{data:.0f}", f"{rise:.0f}", f"{rise / data:.2f}", f"{predict:.0f}", f"{peak:.0f}")
            print(
                f"{f'{kind} {n:,} x {d:,}':<26}{structure:<14}" + "".join(f"{cell:>13}" for cell in cells), flush=True
            )


if __name__ == "__main__":
    main()
