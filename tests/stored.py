"""Files whose rows can be read a few at a time."""

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

from gsat.data.rows import StoredRows, places


def cells(n, d, seed=0):
    """Sparse counts (n, d), float32, of two types and three donors."""
    rng = np.random.default_rng(seed)
    kind, donor = rng.integers(2, size=n), rng.integers(3, size=n)
    X = rng.poisson(0.3, (n, d)) * rng.uniform(0.5, 2, (n, d))
    X[:, :5] += kind[:, None] * rng.poisson(2, (n, 5))
    X[:, 5:8] += donor[:, None]
    return X.astype(np.float32), np.array(["B", "T"])[kind], np.array(["d1", "d2", "d3"])[donor]


FORMS = {"csr": sp.csr_matrix, "csc": sp.csc_matrix, "dense": np.asarray}


def write_kind(folder, kind, n, d, seed=0):
    """The counts in a file of that kind; y and batch are called type and donor, the ids are an index."""
    if kind == "parquet":
        X, of_type, donor = cells(n, d, seed)
        frame = pd.DataFrame(X, [f"c{i}" for i in range(n)], [f"g{j}" for j in range(d)])
        frame.insert(3, "type", of_type)
        frame.assign(donor=donor).to_parquet(folder / "cells.parquet", row_group_size=16)
        return folder / "cells.parquet"
    if kind == "npz":
        X, of_type, donor = cells(n, d, seed)
        names = {"sample_ids": [f"c{i}" for i in range(n)], "feature_names": [f"g{j}" for j in range(d)]}
        np.savez(folder / "cells.npz", X=X.astype(np.float64), type=of_type, donor=donor, **names)
        return folder / "cells.npz"
    return write_cells(folder / f"cells-{kind}.h5ad", n, d, FORMS[kind], seed)


def write_cells(path, n, d, form=sp.csr_matrix, seed=0, **how):
    """An .h5ad file of such counts."""
    X, kind, donor = cells(n, d, seed)
    obs = pd.DataFrame({"type": kind, "donor": donor}, index=[f"c{i}" for i in range(n)]).astype(object)
    obs.index = obs.index.astype(object)
    var = pd.DataFrame(index=pd.Index([f"g{j}" for j in range(d)], dtype=object))
    anndata.AnnData(form(X), obs, var).write_h5ad(path, **how)
    return path


class Held:
    """A store of rows that are in memory, which knows how many rows were asked for at once."""

    path = "memory"

    def __init__(self, X):
        self.X, self.shape, self.asked = X, X.shape, []

    def read(self, rows):
        self.asked.append(len(rows))
        return self.X[rows]


def wide(n=2500, d=8192, n_batches=3):
    """Sparse samples of three batches and two classes, more than two blocks of them; and the same as stored rows."""
    rng = np.random.default_rng(0)
    batch, y = np.arange(n) % n_batches, rng.integers(2, size=n)
    X = sp.random_array((n, d), density=0.004, format="csr", dtype=np.float32, rng=rng)
    moved = np.zeros((n, 8), np.float32)
    moved[np.arange(n), batch] = 1
    moved[np.arange(n), n_batches + y] = 1
    X = sp.hstack([sp.csr_array(moved), X[:, 8:]], format="csr")
    return X, y, batch, StoredRows(Held(X))


def watched(monkeypatch):
    """How many numbers are asked for at once of any stored rows from now on."""
    asked, some, whole = [], StoredRows.__getitem__, StoredRows.__array__

    def rows_of(self, rows):
        asked.append(len(places(rows, len(self))) * self.shape[1])
        return some(self, rows)

    def all_of(self, *args, **kwargs):
        asked.append(len(self) * self.shape[1])
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(StoredRows, "__getitem__", rows_of)
    monkeypatch.setattr(StoredRows, "__array__", all_of)
    return asked
