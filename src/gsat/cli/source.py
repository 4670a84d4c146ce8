"""Which samples a command works on: a data set or a file, its options, and which rows are kept for the test."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from gsat.cli.alleles import with_alleles
from gsat.data import Table, load, names
from gsat.data.rules import listed
from gsat.data.table import content_checksum

PIXELS = ("digits", "mnist", "cifar10")  # in [0, 1], and trained on as they are; everything else is standardised
TEST_FRACTION = 0.25

Data = Annotated[
    str, typer.Argument(help="A file (.h5ad, .bed, .csv, .tsv, .parquet, .npz), or a set of `gsat data list`.")
]
Label = Annotated[str | None, typer.Option(help="What is to be predicted: a key of .obs, or a column.")]
Batch = Annotated[str | None, typer.Option(help="The batch of each sample: a key of .obs, or a column.")]
Ids = Annotated[str | None, typer.Option(help="The column or key of the sample ids.")]
Layer = Annotated[str | None, typer.Option(help=".h5ad: a layer to take instead of X.")]
Pheno = Annotated[Path | None, typer.Option(help="PLINK: a .csv or .tsv table with IID and the label.")]
Missing = Annotated[
    str | None, typer.Option(help='PLINK: what genotypes without a call become: "mean", "error" or a number.')
]
OneHot = Annotated[bool, typer.Option("--one-hot", help="PLINK: three columns for each SNP, which move together.")]
TestFraction = Annotated[
    float | None, typer.Option(help="Share of the samples kept for the test; 0 trains on all. Files: 0.25.")
]
Standardize = Annotated[
    bool | None, typer.Option(help="Features to mean 0 and deviation 1; default: all but digits, mnist and cifar10.")
]
TestBatch = Annotated[str | None, typer.Option(help="Keep this batch for the test instead of random samples.")]


@dataclass(frozen=True)
class Source:
    """A data set or a file with its options, as config.json keeps them; paths are absolute."""

    data: str
    label: str | None = None
    batch: str | None = None
    ids: str | None = None
    layer: str | None = None
    pheno: str | None = None
    missing: str | float | None = None
    one_hot: bool | None = None
    test_fraction: float | None = None
    test_batch: str | None = None

    @classmethod
    def given(
        cls, data: str, *, pheno: Path | None = None, missing: str | None = None, one_hot: bool = False, **options: Any
    ) -> Source:
        """From the options of a command."""
        return cls(
            data if data in names() or not Path(data).suffix else _absolute(data),
            pheno=None if pheno is None else _absolute(pheno),
            missing=_number(missing),
            one_hot=one_hot or None,
            **options,
        )

    @classmethod
    def of_run(cls, config: dict[str, Any]) -> Source:
        """That of a run, from its config.json."""
        return cls(**{each.name: config[each.name] for each in fields(cls) if each.name in config})

    def describe(self) -> dict[str, Any]:
        """What was given, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def is_pixels(self) -> bool:
        """Whether the samples are images of a known scale."""
        return self.data in PIXELS

    def read(self, data_dir: Path | None = None) -> Table:
        """All samples, with what the options name."""
        rules = ("test_fraction", "test_batch")
        options = {name: value for name, value in self.describe().items() if name not in ("data", *rules)}
        return load(self.data, data_dir=data_dir, **options)

    @property
    def plink(self) -> Path | None:
        """The .bed file, if it is one."""
        path = Path(self.data)
        return path if path.suffix.lower() == ".bed" else None

    def labelled(self, data_dir: Path | None = None) -> Table:
        """All samples; their labels must be classes."""
        if self.label is None and self.data not in names() and Path(self.data).suffix.lower() not in ("", ".npz"):
            raise ValueError(f"--label must name the column or key of {self.data} that is to be predicted, got none")
        table = self.read(data_dir)
        if table.y is None:
            raise ValueError(f"{self.data} must have labels; name them with --label")
        if table.y.dtype.kind == "f" and bool((table.y % 1).any()):
            example = float(table.y[np.flatnonzero(table.y % 1)[0]])
            raise ValueError(f"--label must name classes, got numbers such as {example:g} in {self.label or 'y'!r}")
        return table

    def split(self, data_dir: Path | None = None) -> Table:
        """The labelled samples with a split: by --test-batch, by --test-fraction, the set's own, or a quarter."""
        table = self.labelled(data_dir)
        if self.plink is not None:
            table = with_alleles(table, self.plink)
        if self.test_batch is not None:
            if table.batch is None:
                raise ValueError(f"--test-batch needs --batch to tell the batches, got only {self.test_batch!r}")
            there = table.batch.astype(str)
            if self.test_batch not in there:
                batches = listed(np.unique(there).tolist())
                raise ValueError(f"--test-batch must be one of {batches}, got {self.test_batch!r}")
            return replace(table, split=np.where(there == self.test_batch, "test", "train"))
        if self.test_fraction == 0:
            return replace(table, split=np.full(len(table), "train"))
        if self.test_fraction is None and table.split is not None:
            return table
        return table.split_at_random(TEST_FRACTION if self.test_fraction is None else self.test_fraction, seed=0)


def run_config(run: Path) -> dict[str, Any]:
    """The config.json of a run of `gsat train`."""
    try:
        config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{run / 'config.json'} must be JSON, got: {error}") from error
    if not isinstance(config, dict) or "rows_checksum" not in config:
        raise ValueError(f"{run} must be a run of `gsat train`, got a config.json of something else")
    return config


def fingerprint(table: Table) -> dict[str, str]:
    """What tells whether the same samples, labels and split were read again."""
    parts = [part for part in (table.y, table.split) if part is not None]
    return {"checksum": table.checksum, "rows_checksum": content_checksum(*parts)}


def verify(table: Table, config: dict[str, Any], run: Path) -> None:
    """Raise unless the table is the one that the run was trained on."""
    for name, what in (("checksum", "content"), ("rows_checksum", "labels or split")):
        if config.get(name) != fingerprint(table)[name]:
            raise ValueError(
                f"{table.source} must be what {run} was trained on, but its {what} changed since; train again"
            )


def _absolute(path: str | Path) -> str:
    return str(Path(path).expanduser().resolve())


def _number(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
