"""One good file of every format: four people of each of three kinds, six features, batches, names."""

import gzip
import struct

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from bed_reader import to_bed

N, D = 13, 6
X = np.random.default_rng(5).normal(size=(N, D)).round(3).astype(np.float32)
Y = [f"kind{i % 3}" for i in range(N)]
BATCH = [f"lab{i % 2}" for i in range(N)]
IDS = [f"s{i}" for i in range(N)]
NAMES = [f"g{j}" for j in range(D)]
CALLS = np.random.default_rng(6).integers(0, 3, (N, D)).astype(np.float32)
CALLS[-1] = 1  # the last sample must not look as if it were not there


def write_text(path, separator=","):
    frame = pd.DataFrame(X, columns=NAMES).assign(y=Y, b=BATCH)
    frame.to_csv(path, sep=separator, index=False)
    return path


def write_tsv(path):
    return write_text(path, "\t")


def write_parquet(path):
    columns = {name: X[:, j] for j, name in enumerate(NAMES)} | {"y": Y, "b": BATCH}
    pq.write_table(pa.table(columns), path)
    return path


def write_npz(path):
    np.savez_compressed(path, X=X, y=Y, b=BATCH, feature_names=NAMES)
    return path


def write_h5ad(path, matrix=X, **how):
    obs = pd.DataFrame({"y": Y, "b": BATCH}, index=pd.Index(IDS, dtype=object)).astype(object)
    var = pd.DataFrame(index=pd.Index(NAMES, dtype=object))
    anndata.AnnData(matrix, obs, var).write_h5ad(path, **how)
    return path


def write_sparse(path):
    return write_h5ad(path, sp.csr_matrix(np.where(X > 0, X, 0)), compression="gzip")


def write_plink(path):
    properties = {
        "fid": ["0"] * N,
        "iid": IDS,
        "sid": [f"rs{j}" for j in range(D)],
        "pheno": [f"{i % 2 + 1}" for i in range(N)],
    }
    to_bed(path, CALLS, properties=properties)
    return path


def write_idx(path):
    path.write_bytes(struct.pack(">BBBBII", 0, 0, 8, 2, N, D) + bytes(range(N * D)))
    return path


def write_idx_gz(path):
    plain = write_idx(path.with_suffix(".plain"))
    path.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()
    return path
