"""One good file of every format, and small sets of pictures: three kinds of samples, six features, batches, names."""

import gzip
import hashlib
import json
import struct
from dataclasses import replace

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from bed_reader import to_bed
from PIL import Image

from gsat.data.catalogue import CIFAR_BATCHES, IDX, KNOWN
from gsat.data.sets import cifar10

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


def write_xlsx(path):
    pd.DataFrame(X, columns=NAMES).assign(y=Y, b=BATCH).to_excel(path, index=False)
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


def write_mtx(path):
    """Counts beside barcodes.tsv and features.tsv, and samples.tsv with what is known of the cells."""
    rows, columns = np.nonzero(CALLS)
    lines = [f"{j + 1} {i + 1} {int(CALLS[i, j])}" for i, j in zip(rows, columns, strict=True)]
    head = ["%%MatrixMarket matrix coordinate integer general", "%", f"{D} {N} {len(lines)}"]
    path.write_text("\n".join([*head, *lines, ""]))
    path.with_name("barcodes.tsv").write_text("\n".join([*IDS, ""]))
    path.with_name("features.tsv").write_text("".join(f"{name}\tsymbol of {name}\tGene Expression\n" for name in NAMES))
    known = pd.DataFrame({"barcode": IDS, "y": Y, "b": BATCH})
    known.to_csv(path.with_name("samples.tsv"), sep="\t", index=False)
    return path


def write_idx(path):
    path.write_bytes(struct.pack(">BBBBII", 0, 0, 8, 2, N, D) + bytes(range(N * D)))
    return path


def write_idx_gz(path):
    plain = write_idx(path.with_suffix(".plain"))
    path.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()
    return path


def write_mnist(folder, pack=True):
    """Five and three images in MNIST's four files; the catalogue is told their sums."""
    (folder / "mnist").mkdir()
    for name, shape in zip(IDX, ((5, 28, 28), (5,), (3, 28, 28), (3,)), strict=True):
        head = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
        raw = head + np.random.default_rng(7).integers(0, 10, shape, dtype=np.uint8).tobytes()
        KNOWN["mnist"].sums[name] = hashlib.sha256(raw).hexdigest()
        path = folder / "mnist" / (f"{name}.gz" if pack else name)
        path.write_bytes(gzip.compress(raw, mtime=0) if pack else raw)


def write_mnist_plain(folder):
    write_mnist(folder, pack=False)


def write_cifar(folder, form, n=3, batches=6):
    """Batches of n images in one of CIFAR-10's forms; the catalogue is told their sums."""
    (folder / "cifar10").mkdir()
    cifar10.PER_BATCH, cifar10.CIFAR_BATCHES = n, CIFAR_BATCHES[:batches]
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 10, (batches, n), dtype=np.uint8)
    for name, y in zip(CIFAR_BATCHES, labels, strict=False):
        path = folder / "cifar10" / f"{name}.{form}"
        if form == "webp":  # 100 x 100 images, of which a corner has colours
            mosaic = np.zeros((3200, 3200, 3), np.uint8)
            mosaic[:64, :64] = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            Image.fromarray(mosaic).save(path, lossless=True, quality=0, method=0)
            pixels = mosaic.reshape(100, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3)
        else:
            pixels = rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
        if form == "png":
            Image.fromarray(pixels.transpose(0, 2, 3, 1).reshape(n, 1024, 3)).save(path)
        elif form == "bin":
            path.write_bytes(np.concatenate([y[:, None], pixels.reshape(n, -1)], axis=1).tobytes())
        KNOWN["cifar10"].sums[name] = hashlib.sha256(y.tobytes() + pixels.tobytes()).hexdigest()
    parts = {"train": labels[:-1].ravel(), "test": labels[-1]}
    if form == "webp":
        np.savez_compressed(folder / "cifar10" / "labels.npz", **{f"y_{side}": y for side, y in parts.items()})
    elif form == "png":
        for side, y in parts.items():
            (folder / "cifar10" / f"{side}_lables.json").write_text(json.dumps(y.tolist()))


def write_png(folder):
    write_cifar(folder, "png")


def write_bin(folder):
    write_cifar(folder, "bin")


def write_webp(folder):
    """One batch instead of six: a mosaic has its size."""
    KNOWN["cifar10"] = replace(KNOWN["cifar10"], forms=((f"cifar10/{CIFAR_BATCHES[0]}.webp", "cifar10/labels.npz"),))
    write_cifar(folder, "webp", 10_000, batches=1)
