"""A data set brought into a folder: fetched, unpacked, checked by its reader, and only then put in place."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from gsat.data.fetching.archives import extract
from gsat.data.fetching.download import download
from gsat.data.fetching.packages import get_package
from gsat.data.fetching.sources import RECIPES, Recipe, Source
from gsat.data.files import form, missing

OF_THE_DISK = {errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EACCES, *filter(None, [getattr(errno, "EDQUOT", None)])}


def obtain(name: str, folder: Path, check: Callable[[Path], object], *, progress: bool = False) -> Path:
    """`folder`, once it holds the files of the data set; they are fetched if it does not.

    The recipes are tried one after the other. `check` reads the set from a folder and raises if anything in it is
    wrong. Of two processes that want the same set the second waits, and finds it there.
    """
    recipes = RECIPES.get(name, ())
    if not recipes:
        if form(name, folder):
            return folder
        raise missing(name, folder)
    room = folder / f".fetching-{recipes[0].files(folder)[0].stem}"  # sets made of the same files share it
    lock = room.with_suffix(".lock")
    if form(name, folder):
        _clear(room, lock)
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        if form(name, folder):
            return folder
        failed = []
        for recipe in recipes:
            try:
                _follow(recipe, room, check, progress)
                for path in recipe.files(folder):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    (room / "made" / path.relative_to(folder)).replace(path)
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno in OF_THE_DISK:  # no other source would help
                    raise OSError(f"{folder} must have room for the data set {name}, got: {error}") from error
                failed.append(str(error))
            else:
                shutil.rmtree(room)
                return folder
    absent = missing(name, folder)
    for reason in failed:
        absent.add_note(f"tried {reason}")
    raise absent


def _clear(room: Path, lock: Path) -> None:
    """Remove what a process left that was killed when the set was in place; that of a living one stays."""
    if room.exists():
        with suppress(OSError), FileLock(lock, timeout=0):
            shutil.rmtree(room)


def _follow(recipe: Recipe, room: Path, check: Callable[[Path], object], progress: bool) -> None:
    """Make the files of the set in `room`/made and check them; what was downloaded stays for another try."""
    made = room / "made"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    taken = room / "taken" if recipe.build else made
    for source in recipe.sources:
        _take(source, room, taken, progress)
    if recipe.build:
        path, function = recipe.build
        (made / path).parent.mkdir(parents=True)
        arrays: dict[str, Any] = {**function(*recipe.taken(taken))}
        np.savez_compressed(made / path, **arrays)
    check(made)


def _take(source: Source, room: Path, folder: Path, progress: bool) -> None:
    """Fetch one file and put what is wanted of it below `folder`."""
    downloads = room / source.sha256[:16]
    if source.place.startswith(("http://", "https://")):
        archive = downloads / source.place.rsplit("/", 1)[-1]
        if not archive.exists():
            download(source.place, archive, sha256=source.sha256, size=source.size, progress=progress)
    else:
        archive = get_package(source.place, downloads, sha256=source.sha256, size=source.size, progress=progress)
    for path in source.take.values():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    if "" in source.take:
        shutil.copyfile(archive, folder / source.take[""])
    else:
        extract(archive, {member: folder / path for member, path in source.take.items()})
