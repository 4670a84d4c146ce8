"""Files and folders that are written whole or not at all, also by a process that is killed.

What is being written is a draft beside its place, whose name says which process writes it (`marks`). What a dead
process left, `remove_dead_drafts` removes, puts back or brings to its end.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gsat._files.marks import beside, mark_of


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content, whole or not at all; where that fails, nothing is left of the try."""
    with whole_file(path) as draft:
        write_durably(draft, data)


@contextmanager
def whole_file(final: Path) -> Iterator[Path]:
    """A block that writes a draft, which then takes the place of the file `final`; on failure nothing is left of it."""
    draft = beside(final, "draft")
    try:
        with _named_after(draft, final):
            yield draft
            os.replace(draft, final)
    except BaseException:
        _remove(draft)
        raise


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replace several files of a folder together: all or none.

    They are written into a draft folder. Its renaming decides: from there on they are moved into their places, if need
    be by the next process that calls `remove_dead_drafts`.
    """
    for name in files:
        if (folder / name).is_dir():
            raise IsADirectoryError(f"a file is to be written, got the folder {folder / name}")
    place = folder / next(iter(files))
    draft, ready = beside(place, "draft"), beside(place, "ready")
    try:
        with _named_after(draft, folder):
            draft.mkdir(parents=True)
            for name, data in files.items():
                write_durably(draft / name, data)
            _sync(draft)
            os.replace(draft, ready)
    except BaseException:
        _remove(draft)
        raise
    _move_out(ready)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file, whole or not at all; what a killed process began before it becomes a line of its own."""
    with path.open("ab+", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        if end and (file.seek(end - 1), file.read(1))[1] != b"\n":
            line = b"\n" + line
        try:
            left = memoryview(line + b"\n")
            while left:
                left = left[file.write(left) :]
        except BaseException:
            file.truncate(end)
            raise


@contextmanager
def whole_folder(final: Path) -> Iterator[Path]:
    """A block that fills a draft, which then takes the place of the folder `final`, or of nothing.

    The old folder stays until the draft is complete, and is back in its place where the exchange fails. The files of
    the draft are for the block to write durably.
    """
    final = final.resolve()
    remove_dead_drafts(final.parent, final.name)
    draft, old = beside(final, "draft"), beside(final, "old")
    try:
        with _named_after(draft, final):
            draft.mkdir(parents=True)
            yield draft
            _sync(draft)
            _exchange(draft, final, old)
    except BaseException:
        if old.exists() and not final.exists():
            os.replace(old, final)
        _discard(old)
        _remove(draft)
        raise
    _sync(final.parent)
    _discard(old)


def recover(final: Path) -> None:
    """Put a folder back that a process was replacing when it was killed; before `final` is read."""
    final = final.resolve()
    if final.exists() or not final.parent.is_dir():
        return
    for path in sorted(final.parent.glob(f"{_glob_of(final)}.*")):
        mark = mark_of(path, final.name)
        if mark and mark.kind == "old" and mark.name == final.name and not mark.is_alive and not final.exists():
            with suppress(OSError):  # no right to write: the reader says that there is nothing
                os.replace(path, final)


def remove_dead_drafts(folder: Path, *names: str) -> None:
    """Clear a folder of what dead processes left in it; what belongs to living ones stays.

    A draft is removed. A folder that was being replaced is put back, or removed where the new one is in its place.
    Files that were about to replace others together are moved into their places. Earlier versions did not mark their
    drafts as such: those are cleared for the files that gsat names, and for `names`.
    """
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        mark = mark_of(path, *names)
        if mark is None or mark.is_alive:
            continue
        if mark.kind == "ready":
            _move_out(path)
        elif mark.kind == "old" and not (final := path.with_name(mark.name)).exists():
            os.replace(path, final)
        elif mark.kind == "old":
            _discard(path)
        else:
            _remove(path)


@contextmanager
def _named_after(draft: Path, final: Path) -> Iterator[None]:
    """A block that writes a draft: an error of the system tells the place that was meant, also on a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not str(error.filename or draft).startswith(str(draft)):
            raise
        place = str(error.filename or draft).replace(str(draft), str(final))
        raise OSError(error.errno, error.strerror, place) from error


def _exchange(draft: Path, final: Path, old: Path) -> None:
    """Put the draft into the place of `final`, which waits as `old`; again where another process was quicker."""
    while True:
        with suppress(FileNotFoundError):  # nothing there, or another process took it
            os.replace(final, old)
        try:
            os.replace(draft, final)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            _discard(old)  # another process put its folder there: ours is the later one
        else:
            return


def _move_out(ready: Path) -> None:
    for path in sorted(ready.iterdir()):
        os.replace(path, ready.parent / path.name)
    _sync(ready.parent)
    ready.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _discard(old: Path) -> None:
    """Remove a replaced folder; by another name first, so that half of it is never put back."""
    with suppress(FileNotFoundError):
        draft = beside(old.with_name("replaced"), "draft")
        os.replace(old, draft)
        _remove(draft)


def _glob_of(path: Path) -> str:
    return "." + re.sub(r"([*?[])", r"[\1]", path.name)


def _sync(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
