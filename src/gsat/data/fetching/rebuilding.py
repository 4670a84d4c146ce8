"""The arrays of two data sets from the text files of the packages that carry them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gsat.data.readers.npz import Arrays

# Sites that sent tumours of the rectum: our reading of TCGA's codes, which the files themselves do not confirm.
READ_SITES = ("AF", "AG", "AH", "BM", "CI", "CL", "DC", "DT", "DY", "EF", "EI", "F5", "G5")
SCALE = 1000.0
NOT_MEASURED = 65535


def luad_coadread(luad: Path, coadread: Path) -> Arrays:
    """The arrays of tcga_luad_coadread_log2rsem_x1000.npz: genes in the order of COADREAD, named as LUAD has them.

    Both files have one gene per line: symbol, Entrez id, then RSEM of every sample.
    """
    first, second = (pd.read_csv(path, sep="\t", index_col=1) for path in (luad, coadread))
    genes = second.index.intersection(first.index, sort=False)
    first, second = first.loc[genes], second.loc[genes]
    barcode = np.array([*first.columns[1:], *second.columns[1:]])
    cohort = np.repeat(["LUAD", "COADREAD"], [first.shape[1] - 1, second.shape[1] - 1])
    rsem = np.concatenate([part.iloc[:, 1:].to_numpy(np.float64).T for part in (first, second)])
    lacking = np.isnan(rsem)
    rounded = np.round(SCALE * np.log2(np.where(lacking, 0, rsem) + 1))
    fields = [code.split("-") for code in barcode.tolist()]  # TCGA-site-person-sample[-portion-plate-centre]
    tss = np.array([parts[1] for parts in fields])
    colon_or_rectum = np.where(np.isin(tss, READ_SITES), "READ", "COAD")
    n_lacking = int(lacking.any(axis=0).sum()) + 1  # the gene that LUAD's file does not have is among them
    return {
        "X_uint16": np.where(lacking, NOT_MEASURED, rounded.astype(np.int32)).astype(np.uint16),  # < 0 wraps around
        "barcode": barcode,
        "cancer_by_tss": np.where(cohort == "LUAD", "LUAD", colon_or_rectum),
        "cohort": cohort,
        "entrez": genes.to_numpy(np.int64),
        "plate": np.array([parts[5] if len(parts) > 5 else "" for parts in fields]),
        "platform": np.where(lacking.any(axis=1), f"GA(inferred:{n_lacking} genes NA)", "HiSeq(inferred)"),
        "sample_type": np.array([parts[3][:2] for parts in fields]),
        "scale": np.array(SCALE, np.float32),
        "symbol": first.iloc[:, 0].to_numpy().astype(str),
        "tss": tss,
    }


def bladderbatch(expression: Path, phenotypes: Path) -> Arrays:
    """The arrays of bladderbatch.npz but for the names of the probes, which the package does not have."""
    table = pd.read_csv(phenotypes, sep="\t")
    X: NDArray[np.float64] = np.load(expression, allow_pickle=False)
    return {
        "X": X.astype(np.float32),
        "batch": table["batch"].to_numpy(np.int64),
        "cancer": table["cancer"].to_numpy().astype(str),
        "outcome": table["outcome"].to_numpy().astype(str),
        "sample": table["cel"].to_numpy().astype(str),
    }
