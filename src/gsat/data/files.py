"""Where the files of a data set lie, and whether they hold what they should.

A sum is that of the content, so that it does not depend on how a file is packed: the unpacked bytes of an idx
file, the labels and pixels of a batch of images, the arrays of an .npz file in the order of their names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gsat.data.catalogue import KNOWN
from gsat.data.rules import located


def cache_dir() -> Path:
    """The folder for fetched data: $GSAT_CACHE, or gsat in the user's cache of the platform."""
    if own := os.environ.get("GSAT_CACHE"):
        return located(own)
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "gsat"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "gsat" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "gsat"


def data_folder(data_dir: str | Path | None) -> Path | None:
    """The folder that `data_dir` names, else the one that $GSAT_DATA names, else None."""
    named = data_dir or os.environ.get("GSAT_DATA")
    return located(named) if named else None


def find(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The first folder that has all files of the data set: `data_dir` alone if it is given, else $GSAT_DATA, cache."""
    folders = [data_folder(data_dir)] if data_dir else [data_folder(None), cache_dir()]
    return next((folder for folder in folders if folder is not None and form(name, folder)), None)


def form(name: str, folder: Path) -> tuple[Path, ...]:
    """The files of the data set in the first form that is there as a whole; () if none is."""
    for paths in KNOWN[name].forms:
        found = tuple(folder / path for path in paths)
        if all(path.is_file() for path in found):
            return found
    return ()


def needed(name: str, folder: Path | None) -> tuple[Path, ...]:
    """The files of the data set, which must be in `folder`."""
    found = () if folder is None else form(name, folder)
    if not found:
        raise missing(name, folder)
    return found


def missing(name: str, folder: Path | None) -> FileNotFoundError:
    """The error that says which file is not there, where it was looked for, what to get and where to put it."""
    known = KNOWN[name]
    first = known.forms[0]
    if folder is None:
        path, state = Path(first[0]), f"neither is set, and the cache {cache_dir()} does not have it"
    else:
        path = next((folder / each for each in first if not (folder / each).is_file()), folder / first[0])
        state = f"the folder is {folder}"
    top = first[0].split("/")[0]
    return FileNotFoundError(
        f"{path} is missing (data set {name}: {known.title}); the environment variable GSAT_DATA or data_dir= names "
        f"the folder that holds {top}/, {state}. Origin: {known.origin}. To get it: {known.to_get}"
    )


def same_sum(path: Path, found: str, expected: str, *beside: Path) -> None:
    """Raise a ValueError unless the content of the file at `path`, and those `beside` it, is of the sum expected."""
    if found != expected:
        files = " with ".join(map(str, (path, *beside)))
        raise ValueError(f"{files} must have content of sha256 {expected}, got {found}; fetch the file again")
