"""Folders that are read like one file, such as stores of zarr: what lies in them, and whether it changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def files_of(path: Path) -> list[Path]:
    """The file itself, or all files in the folder, in the order of their names; no link, pipe or device may be there.

    Parameters
    ----------
    path
        A file or a folder.

    Returns
    -------
    list of Path
        Regular files.
    """
    return [place for place, _ in _walked(path)]


def state_of(path: str | Path) -> list[int]:
    """The size and the time of the last change of a file; of a folder those of all that is in it."""
    folder = Path(path)
    if not folder.is_dir():
        found = folder.stat()
        return [found.st_size, found.st_mtime_ns]
    inside = _walked(folder)
    times = [folder.stat().st_mtime_ns, *(each.st_mtime_ns for _, each in inside)]
    times += [each.stat().st_mtime_ns for each in {place.parent for place, _ in inside}]
    return [len(inside) + sum(each.st_size for _, each in inside), max(times)]


def _walked(path: Path) -> list[tuple[Path, os.stat_result]]:
    """The files and what the system says of each."""
    if not path.is_dir():
        return [(path, path.stat())]
    found, left = [], [path]
    while left:
        folder = left.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode):
                    left.append(Path(entry.path))
                elif stat.S_ISREG(about.st_mode):
                    found.append((Path(entry.path), about))
                else:
                    kind = "link" if entry.is_symlink() else "pipe, socket or device"
                    raise ValueError(f"{path} must hold its data itself, got {entry.path}, a {kind}")
    return sorted(found)
