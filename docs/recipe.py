"""The five files of docs/guide/recipe.md, and its commands with what they print.

    python docs/recipe.py files FOLDER                # from the data in $GSAT_DATA, with seed 0
    python docs/recipe.py run FOLDER [cells ...]      # writes FOLDER/cells.txt and so on

A transcript has each command, what it prints, and its seconds of processor time (of it and what it starts)
and by the clock. The machine should have nothing else to do, or the clock says little.
"""

import argparse
import os
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
from bed_reader import to_bed
from scipy import sparse

NEW_BATCH, NEW_STUDY, HELD_OUT = "sc_celseq2_5cl_p3", "4", 5
CONTINENTS = ("Africa", "Asia", "Europe")
LINEAR = "--defence linear --metric none --class-weight balanced"
CELLS = "--label cell_line --batch batch"
ARRAYS = "--label cancer --batch batch --ids sample"
STEM = "--label celltype --batch study --ids sample"
GENOTYPES = "--pheno hapmap.tsv --label continent"
PARTS = {
    "cells": (
        f"gsat check log.h5ad {CELLS} --quick --out checks/log",
        f"gsat train log.h5ad {CELLS} {LINEAR} --c 0.03 --out runs/log",
        "gsat predict runs/log new_log.h5ad --label cell_line --out log.csv",
        "gsat predict runs/log new_counts.h5ad --label cell_line --out wrong.csv",
        "gsat report runs/log",
        f"gsat check counts.h5ad {CELLS} --quick --out checks/counts",
        f"gsat train counts.h5ad {CELLS} --normalise log1p-cpm {LINEAR} --c 0.03 --out runs/counts",
        "gsat predict runs/counts new_counts.h5ad --label cell_line --out counts.csv",
        "gsat report runs/counts",
    ),
    "arrays": (
        "gsat check bladder.csv --label cancer --batch batch",
        f"gsat check bladder.csv {ARRAYS}",
        f"gsat train bladder.csv {ARRAYS} --n-outer 200 --out runs/gsat",
        f"gsat train bladder.csv {ARRAYS} {LINEAR} --c 1 --out runs/bladder",
        "gsat predict runs/bladder bladder_5.csv --label cancer --out bladder_5_predicted.csv",
        "gsat report runs/bladder",
    ),
    "stem-cells": (
        f"gsat check stem.csv {STEM} --quick",
        f"gsat train stem.csv {STEM} --drop sex --n-outer 100 --out runs/first",
        f"gsat check stem.csv {STEM} --drop sex,age --quick --out checks/stem",
        f"gsat train stem.csv {STEM} --drop sex,age --choose --out runs/stem",
        "gsat predict runs/stem stem_new.csv --label celltype --out new.csv",
        "gsat report runs/stem",
    ),
    "genotypes": (
        f"gsat check hapmap.bed {GENOTYPES} --batch population --quick",
        f"gsat train hapmap.bed {GENOTYPES} --batch population --n-outer 30 --out runs/populations",
        f"gsat check hapmap.bed {GENOTYPES} --quick --out checks/hapmap",
        "gsat check hapmap-1kg --quick --out checks/hapmap-1kg",
        f"gsat train hapmap.bed {GENOTYPES} {LINEAR} --c 0.03 --out runs/hapmap",
        "gsat predict runs/hapmap kg.bed --pheno kg.tsv --label continent --out kg.csv",
        f"gsat predict runs/hapmap hapmap.bed {GENOTYPES} --out again.csv",
        "gsat report runs/hapmap",
    ),
}


def cells(data: Path, out: Path) -> None:
    """Counts, and log(1 + 10,000 · count / sum of the cell); NEW_BATCH goes into files of its own."""
    with np.load(data / "expression" / "sc_mixology_5batches.npz") as file:
        parts = (file["data"].astype(np.float32), file["indices"].astype(np.int32), file["indptr"])
        counts = sparse.csr_matrix(parts, shape=tuple(file["shape"]))
        names = [f"{batch}_{cell}" for batch, cell in zip(file["batch"], file["cell"], strict=True)]
        obs = pd.DataFrame({name: file[name] for name in ("cell_line", "batch", "technology")}, index=names)
        var = pd.DataFrame(index=file["gene"].astype(object))
    logs = sparse.csr_matrix(counts.multiply(1e4 / counts.sum(1)))
    logs.data = np.log1p(logs.data)
    new = obs["batch"].to_numpy() == NEW_BATCH
    for name, X in (("counts", counts), ("log", logs.astype(np.float32))):
        whole = anndata.AnnData(X, obs=obs, var=var)
        whole[~new].copy().write_h5ad(out / f"{name}.h5ad")
        whole[new].copy().write_h5ad(out / f"new_{name}.h5ad")


def arrays(data: Path, out: Path) -> None:
    """All arrays, and those of batch HELD_OUT once more."""
    with np.load(data / "expression" / "bladderbatch.npz") as file:
        frame = pd.DataFrame({name: file[name] for name in ("sample", "batch", "cancer")})
        frame = pd.concat([frame, pd.DataFrame(file["X"], columns=file["probe"])], axis=1)
    frame.to_csv(out / "bladder.csv", index=False)
    frame[frame["batch"] == HELD_OUT].to_csv(out / f"bladder_{HELD_OUT}.csv", index=False)


def stem_cells(data: Path, out: Path) -> None:
    """Three studies, and the fourth; age and sex are drawn by lot."""
    rng = np.random.default_rng(0)
    with np.load(data / "expression" / "stemcells_4studies.npz") as file:
        frame = pd.DataFrame(file["X"], columns=file["gene"])
        frame = frame.assign(**{name: file[name] for name in ("sample", "study", "celltype")})
    frame = frame.assign(age=rng.integers(20, 80, len(frame)), sex=rng.choice(["F", "M"], len(frame)))
    new = frame["study"] == NEW_STUDY
    frame[~new].to_csv(out / "stem.csv", index=False)
    frame[new].to_csv(out / "stem_new.csv", index=False)


def genotypes(data: Path, out: Path) -> None:
    """HapMap3, and those people of 1000 Genomes who are not in it, at the same SNPs of chromosome 1."""
    with np.load(data / "hapmap" / "hapmap3_vs_1kg_phase1_14079snps.npz") as file:
        content = dict(file)
    snps = content["chrom"] == 1
    of_snps = {"sid": "snp", "allele_1": "a1", "allele_2": "a2", "bp_position": "pos_b36"}
    about = {name: content[key][snps] for name, key in of_snps.items()} | {
        "chromosome": np.repeat("1", snps.sum())
    }
    for name, side in (("hapmap", "hapmap3"), ("kg", "1kg")):
        people = np.isin(content[f"continent_{side}"], CONTINENTS)
        if side == "1kg":
            people &= ~np.isin(content["iid_1kg"], content["iid_hapmap3"])
        calls = content[f"genotype_{side}"][people][:, snps].astype(np.float32)
        calls[calls < 0] = np.nan  # no call
        known = {key: content[f"{key}_{side}"][people] for key in ("iid", "population", "continent")}
        to_bed(out / f"{name}.bed", calls, properties={"iid": known["iid"], **about})
        pd.DataFrame(known).rename(columns={"iid": "IID"}).to_csv(out / f"{name}.tsv", sep="\t", index=False)


def seconds() -> float:
    """Of processor time, of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(folder: Path, part: str) -> None:
    """Type the commands of a part and write its transcript, with paths as seen from the folder."""
    told = []
    for command in PARTS[part]:
        args = [sys.executable, "-m", *shlex.split(command)]
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        before, clock = seconds(), time.monotonic()
        done = subprocess.run(args, cwd=folder, **both)  # noqa: S603  # the commands above
        cost = f"{seconds() - before:.0f} s of processor time, {time.monotonic() - clock:.0f} s by the clock"
        said = done.stdout.replace(f"{folder.resolve()}/", "").rstrip()
        told.append(f"$ {command}\n{said}\n[ended with {done.returncode}; {cost}]\n")
        (folder / f"{part}.txt").write_text("\n".join(told), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("files", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="part", help=", ".join(PARTS))
    options = parser.parse_args()
    if options.what == "run":
        for part in options.parts or PARTS:
            run(options.folder, part)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for make in (cells, arrays, stem_cells, genotypes):
        make(Path(os.environ["GSAT_DATA"]), options.folder)


if __name__ == "__main__":
    main()
