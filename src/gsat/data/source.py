"""Source: the samples that a run works on, as its config.json names them, and which of them are kept for the test.

Messages name the options as the command line writes them, since that is where a source is given.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsat.data.lazy import options_of
from gsat.data.loading import load, names
from gsat.data.readers import READERS
from gsat.data.rules import listed, located

if TYPE_CHECKING:
    from gsat.data.holding import HeldOut
    from gsat.data.table import Table

PIXELS = ("digits", "mnist", "cifar10")  # in [0, 1], and trained on as they are; everything else is standardised
TEST_FRACTION = 0.25
AS_TRAINED = ("layer", "one_hot", "missing")  # options of reading that a new file takes over from the run


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
    hold_out: str | None = None
    drop: str | None = None
    features: str | None = None
    unlabelled: str | None = None

    @classmethod
    def given(
        cls, data: str, *, pheno: Path | None = None, missing: str | None = None, one_hot: bool = False, **options: Any
    ) -> Source:
        """From the options of a command."""
        return cls(
            data if data in names() or not (Path(data).suffix or Path(data).is_dir()) else _absolute(data),
            pheno=None if pheno is None else _absolute(pheno),
            missing=_number(missing),
            one_hot=one_hot or None,
            **options,
        )

    @classmethod
    def of_run(cls, config: dict[str, Any]) -> Source:
        """That of a run, from its config.json."""
        return cls(**{each.name: config[each.name] for each in fields(cls) if each.name in config})

    def tested_on(self, *, fraction: float | None, batch: str | None, by_batch: bool = False) -> Source:
        """The same samples, of which a share or a batch is kept for the test, or with by_batch the largest batches."""
        hold_out = "batches" if by_batch and fraction is None and batch is None and self.batch is not None else None
        return replace(self, test_fraction=fraction, test_batch=batch, hold_out=hold_out)

    def from_training(self, config: dict[str, Any]) -> dict[str, Any]:
        """The options of reading in a run's config.json that this file takes and that are not given here."""
        reader = READERS.get(Path(self.data).suffix.lower())
        takes = [] if reader is None else options_of(reader)
        wanted = [name for name in AS_TRAINED if name in config and name in takes]
        return {name: config[name] for name in wanted if getattr(self, name) is None}

    def describe(self) -> dict[str, Any]:
        """What was given, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def typed(self, data: str) -> list[str]:
        """The words of a command that reads the same samples: the file as it was typed, and the options of reading."""
        about = self.describe()
        names = ("label", "batch", "ids", "layer", "pheno", "missing", "drop", "features", "unlabelled")
        words = [word for name in names if name in about for word in (f"--{name}", str(about[name]))]
        return [data, *words, *(["--one-hot"] if self.one_hot else [])]

    @property
    def is_pixels(self) -> bool:
        """Whether the samples are images of a known scale."""
        return self.data in PIXELS

    @property
    def plink(self) -> Path | None:
        """The .bed file, if it is one."""
        path = Path(self.data)
        return path if path.suffix.lower() == ".bed" else None

    @property
    def is_file(self) -> bool:
        """Whether the samples are no data set with a name."""
        return self.data not in names()

    def read(
        self,
        data_dir: Path | None = None,
        *,
        max_memory: str | None = None,
        known: Any = None,
        stream: bool | None = None,
    ) -> Table:
        """All samples, with what the options name; `known` are the features of a model; the rest is as in `load`."""
        rules = ("test_fraction", "test_batch", "hold_out")
        options = {name: value for name, value in self.describe().items() if name not in ("data", *rules)}
        return load(self.data, data_dir=data_dir, max_memory=max_memory, known=known, stream=stream, **options)

    def labelled(
        self, data_dir: Path | None = None, *, max_memory: str | None = None, stream: bool | None = None
    ) -> Table:
        """All samples; their labels must be classes."""
        if self.label is None and self.data not in names() and Path(self.data).suffix.lower() not in ("", ".npz"):
            raise ValueError(f"--label must name the column or key of {self.data} that is to be predicted, got none")
        table = self.read(data_dir, max_memory=max_memory, stream=stream)
        from gsat.data.doubts import REGRESSOR, continuous  # with numpy, which a name of nothing need not load

        if table.y is None:
            raise ValueError(f"{self.data} must have labels; name them with --label")
        if (why := continuous(table.y)) is not None:
            raise ValueError(f"--label must name classes, got {why} in {self.label or 'y'!r}; {REGRESSOR}")
        return table

    def split(self, data_dir: Path | None = None, *, max_memory: str | None = None) -> Table:
        """The labelled samples with a split: by --test-batch, --test-fraction, batches, the set's own, or a quarter."""
        return self.divide(data_dir, max_memory=max_memory)[0]

    def divide(
        self, data_dir: Path | None = None, *, max_memory: str | None = None, stream: bool | None = None
    ) -> tuple[Table, HeldOut]:
        """The samples as `split` has them, and what is kept for the test in words."""
        table = self.labelled(data_dir, max_memory=max_memory, stream=stream)
        from gsat.data.holding import described  # with numpy, as above

        if self.plink is not None:
            from gsat.data.readers.alleles import with_alleles

            table = with_alleles(table, self.plink)
        table, kind = self._divided(table)
        return table, described(table, kind)

    def _divided(self, table: Table) -> tuple[Table, str]:
        """The samples with a split, and how it was made."""
        from gsat.data.holding import apart, largest_batches

        if self.test_batch is not None:
            return self._by_batch(table, self.test_batch), "given batch"
        if self.test_fraction == 0:
            return table.split_where([False] * len(table)), "none"
        if self.hold_out is not None and table.batch is not None and not apart(table):
            rows = largest_batches(table)
            if rows is not None:
                return table.split_where(rows), "batches"
        if self.test_fraction is None and table.split is not None:
            return table, "given samples"
        share = TEST_FRACTION if self.test_fraction is None else self.test_fraction
        return table.split_at_random(share, seed=0), "random samples"

    def _by_batch(self, table: Table, wanted: str) -> Table:
        """The samples with that batch on the test side."""
        if table.batch is None:
            raise ValueError(f"--test-batch needs --batch to tell the batches, got only {wanted!r}")
        there = table.batch.astype(str)
        if wanted not in there:
            batches = listed(sorted(set(there.tolist())))
            raise ValueError(f"--test-batch must be one of {batches}, got {wanted!r}")
        return table.split_where(there == wanted)


def fingerprint(table: Table) -> dict[str, str]:
    """What tells whether the same samples, labels and split were read again."""
    from gsat.data.table import content_checksum

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
    return os.path.realpath(located(path))  # a link that leads back to itself stays as it is, and is told when read


def _number(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
