"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gsat import _defaults
from gsat.cli.app import fail


def _seed(value: int) -> int:
    if not 0 <= value < 2**32:  # what numpy and torch both take
        fail(f"--seed must be >= 0 and < {2**32}, got {value}")
    return value


Data = Annotated[
    str,
    typer.Argument(
        help="A file (.h5ad, .zarr, .bed, .csv, .tsv, .xlsx, .parquet, .npz, .mtx or its folder) or a set of "
        "`gsat data list`."
    ),
]
Label = Annotated[str | None, typer.Option(help="What is to be predicted: a key of .obs, or a column.")]
Batch = Annotated[str | None, typer.Option(help="The batch of each sample: a key of .obs, or a column.")]
PredictedBatch = Annotated[
    str | None,
    typer.Option(
        help="A column that is not a feature; the batches for a model of --prepare centre, by default as trained."
    ),
]
NotAFeature = Annotated[str | None, typer.Option(help="A column that is not a feature.")]
Ids = Annotated[str | None, typer.Option(help="The column or key of the sample ids.")]
Layer = Annotated[str | None, typer.Option(help=".h5ad, .zarr: a layer to take instead of X; raw is .raw.")]
Pheno = Annotated[Path | None, typer.Option(help="PLINK, .mtx: a .csv or .tsv with IID or barcode, and the label.")]
Missing = Annotated[
    str | None, typer.Option(help='PLINK: what genotypes without a call become: "mean", "error" or a number.')
]
OneHot = Annotated[bool, typer.Option("--one-hot", help="PLINK: three columns for each SNP, which move together.")]
TestFraction = Annotated[
    float | None, typer.Option(help="Share of the samples kept for the test; 0 trains on all. Files: 0.25.")
]
TestBatch = Annotated[str | None, typer.Option(help="Keep this batch for the test instead of random samples.")]
Standardize = Annotated[
    bool | None, typer.Option(help="Features to mean 0 and deviation 1; default: all but digits, mnist and cifar10.")
]
_PREPARE = (
    "Before that: none; centre, the mean of each batch taken away (a batch is then predicted as a whole); or zscore, "
    "each sample less its mean, divided by its deviation"
)
Normalise = Annotated[
    Literal["none", "log1p-cpm", "zscore-samples"],
    typer.Option(
        help="Of each sample by itself, in training and prediction alike: none; log1p-cpm, logarithms of counts per "
        "million, for raw counts; zscore-samples, less its mean, divided by its deviation."
    ),
]
Drop = Annotated[
    str | None, typer.Option(help='Columns that are no features, separated by commas; "meta_*" is all that begin so.')
]
Features = Annotated[
    str | None, typer.Option(help='The columns that alone are features, separated by commas, such as "ENSG*".')
]
Unlabelled = Annotated[
    Literal["error", "drop", "predict"],
    typer.Option(
        help="Samples without a label or a batch: error, drop, or predict them after training into unlabelled.csv."
    ),
]
LeftOut = Annotated[Literal["error", "drop"], typer.Option(help="Samples without a label or a batch: error, or drop.")]
Prepare = Annotated[Literal["none", "centre", "zscore"], typer.Option(help=f"{_PREPARE}.")]
PrepareOrChoose = Annotated[
    Literal["none", "centre", "zscore", "choose"] | None,
    typer.Option(help=f"{_PREPARE}; or, with --choose, choose. Default: none; with --choose, choose."),
]
MissingFeatures = Annotated[
    Literal["error", "mean", "zero"],
    typer.Option(help='Features that the samples lack: "error", or filled with the training "mean" or "zero".'),
]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the data files; default $GSAT_DATA, then the cache.")]
MaxMemory = Annotated[
    str | None, typer.Option(help='The most memory that the samples may take, such as "4GB"; default what is free.')
]
Stream = Annotated[
    bool | None,
    typer.Option(
        help="Leave the samples on disk and read rows when they are needed (.h5ad, .zarr, .npz, .parquet, .bed); "
        "default: where they take more than half of the free memory."
    ),
]

Out = Annotated[Path, typer.Option(help="Folder of the run.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a run that is there.")]
RawText = Annotated[
    bool,
    typer.Option("--raw-text", help="Keep text that a spreadsheet would run (=cmd); else it gets an apostrophe."),
]
TrustModule = Annotated[
    bool,
    typer.Option("--trust-module", help="Import the module that the model names: it runs code of the folder's author."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Defence = Annotated[
    str,
    typer.Option(
        help="erm, fgm, pgd, universal-at, group-sparse, low-rank, unstructured, universal (a shift for every two "
        "samples of a group, or for each batch), universal-one (one shift for the whole group), ...; "
        "train also has linear, a linear model"
    ),
]
ClassWeight = Annotated[
    Literal["balanced"] | None, typer.Option(help="balanced: each class weighs the same, however rare it is.")
]
NOuter = Annotated[int, typer.Option(help="Groups to train on (T0).")]
NInner = Annotated[
    int | None,
    typer.Option(
        help=f"Gradients of the inner maximisation (T1); default {_defaults.N_INNER_GSAT} for GSAT, "
        f"{_defaults.N_INNER} with ADMM and for the other defences."
    ),
]
GroupSize = Annotated[int, typer.Option(help="Samples in a group (m).")]
Budget = Annotated[float, typer.Option(help="GSAT: wanted mean norm of the perturbations, as a fraction of E‖X‖.")]
Alpha = Annotated[
    float | None,
    typer.Option(
        help=f"GSAT: weight of the structure in the cost, 0 to 1; default {_defaults.ALPHA_GROUP_SPARSE} for "
        f"group-sparse, else {_defaults.ALPHA}."
    ),
]
Solver = Annotated[
    str,
    typer.Option(
        help="GSAT: of the inner problem: proximal, admm (Algorithm 2 of the paper), admm-paper (the same with the "
        "paper's ρ = 1 and η₁ = 0.1, for its λ) or linearised."
    ),
]
Metric = Annotated[
    str,
    typer.Option(
        help="GSAT: along which directions moving is cheap: batches (as the batches differ, and samples inside a class "
        "and a batch), within or between (one of both), none (all alike), auto (batches where --batch is given)."
    ),
]
Gamma = Annotated[float, typer.Option(help="GSAT: how much cheaper moving along the metric is; 0: no metric.")]
Eps = Annotated[float, typer.Option(help="Norm bound, as a fraction of E‖X‖.")]
Eta0 = Annotated[float, typer.Option(help="Learning rate of Adam.")]
Schedule = Annotated[str, typer.Option(help="constant or cosine.")]
Seed = Annotated[
    int, typer.Option(help="Seed of weights and groups: same seed and threads, same bits.", callback=_seed)
]
Threads = Annotated[
    int | None, typer.Option(help="Threads of torch, on which the last bits depend; default: what torch takes.")
]
Device = Annotated[
    str | None,
    typer.Option(help="Where torch computes: cpu (default), cuda, cuda:1, ..., or auto, a GPU where there is one."),
]
Steps = Annotated[int, typer.Option(help="Gradients of an attack.")]
Strength = Annotated[
    str, typer.Option(help="How hard attacks search: fast (one search), standard or strong (the worst of several).")
]
