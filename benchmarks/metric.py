"""Time and memory of learning a metric from sparse samples, and its share of a training run.

n x d samples in 10 classes and 5 batches, a share of the entries not zero, as a CSR matrix of float32. Prints the
seconds of `gsat.Metric.from_batches`, the memory above that of the samples (the largest resident size less that
before), the seconds of a low-rank GSAT training with and without it, and the share that the metric takes of it. A small
size, in seconds: `python benchmarks/metric.py --n 5000 --d 2500 --groups 20`.
"""

import argparse
import resource
import time
import warnings

import numpy as np
from scipy import sparse

import gsat


def samples(n: int, d: int, density: float) -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    """Counts whose rates depend on class and batch, row by row, so that nothing dense is made."""
    rng = np.random.default_rng(0)
    y, batch = rng.integers(10, size=n), rng.integers(5, size=n)
    per_row = round(density * d)
    indices = np.empty((n, per_row), np.int32)
    for begin in range(0, n, 1000):
        part = indices[begin : begin + 1000]
        part[:] = np.sort(rng.integers(d - per_row, size=part.shape), axis=1) + np.arange(per_row)
    data = rng.exponential(size=indices.shape).astype(np.float32)
    data *= 1 + 0.3 * ((indices + 7 * y[:, None]) % 10 == 0) + 0.3 * ((indices + 3 * batch[:, None]) % 5 == 0)
    pointers = per_row * np.arange(n + 1, dtype=np.int64)
    return sparse.csr_array((data.ravel(), indices.ravel(), pointers), shape=(n, d)), y, batch


def resident() -> float:
    """The largest resident size so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def fitted(X: sparse.csr_array, y: np.ndarray, batch: np.ndarray, metric: str | None, n_outer: int) -> None:
    """A low-rank training."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short training has not converged
        gsat.GSATClassifier("low-rank", n_outer=n_outer, metric=metric, random_state=0).fit(X, y, batch=batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--d", type=int, default=20_000)
    parser.add_argument("--density", type=float, default=0.05)
    parser.add_argument("--groups", type=int, default=200)
    asked = parser.parse_args()
    X, y, batch = samples(asked.n, asked.d, asked.density)
    size = (X.data.nbytes + X.indices.nbytes) / 2**30
    print(f"samples: {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} entries, {size:.2f} GB")
    fitted(X[:500], y[:500], batch[:500], "batches", 1)  # the first calls of torch take longer
    before, begun = resident(), time.perf_counter()
    metric = gsat.Metric.from_batches(X, y, batch, gamma=10.0)
    print(f"metric: {time.perf_counter() - begun:.1f} s, {resident() - before:.2f} GB more, {metric}")
    seconds = {}
    for kind in (None, "batches"):
        begun = time.perf_counter()
        fitted(X, y, batch, kind, asked.groups)
        seconds[kind] = time.perf_counter() - begun
    print(f"fit, {asked.groups} groups: {seconds[None]:.1f} s isotropic, {seconds['batches']:.1f} s in the metric")
    print(f"of that the metric takes {1 - seconds[None] / seconds['batches']:.0%}; largest size {resident():.2f} GB")


if __name__ == "__main__":
    main()
