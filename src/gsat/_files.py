"""Files and folders that are written whole or not at all, also by a process that is killed, and by one at a time.

What is being written is a draft beside its place, whose name says which process writes it: `.NAME.draft-MARK`. A folder
that is being replaced waits as `.NAME.old-MARK`, files that replace others together as `.NAME.ready-MARK`. What a dead
process left of these, `remove_dead_drafts` removes, puts back or brings to its end.
"""

from __future__ import annotations

import errno
import itertools
import os
import platform
import re
import shutil
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

LOCK, HOLDER = ".gsat.lock", ".gsat.holder"  # in a folder that one process at a time may write to

_LEFT = re.compile(r"\.(?P<name>.+)\.(?P<kind>draft|old|ready)-(?P<pid>\d+)-(?P<start>\d+)-(?P<host>[0-9a-f]{8})-\d+")
_counter = itertools.count()
_held = threading.local()


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content, whole or not at all; where that fails, nothing is left of the try."""
    draft = _beside(path, "draft")
    try:
        write_durably(draft, data)
        os.replace(draft, path)
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
    draft, ready = _beside(place, "draft"), _beside(place, "ready")
    try:
        draft.mkdir(parents=True)
        for name, data in files.items():
            write_durably(draft / name, data)
        _sync(draft)
        os.replace(draft, ready)
    except BaseException:
        _remove(draft)
        raise
    _move_out(ready)


@contextmanager
def whole_folder(final: Path) -> Iterator[Path]:
    """A block that fills a draft, which then takes the place of the folder `final`, or of nothing.

    The old folder stays until the draft is complete, and is back in its place where the exchange fails. The files of
    the draft are for the block to write durably.
    """
    final = final.resolve()
    remove_dead_drafts(final.parent)
    draft, old = _beside(final, "draft"), _beside(final, "old")
    draft.mkdir(parents=True)
    try:
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
    for path in sorted(final.parent.glob(f"{_glob_of(final)}.old-*")):
        if is_draft(path) and not _is_alive(path) and not final.exists():
            with suppress(OSError):  # no right to write: the reader says that there is nothing
                os.replace(path, final)


def remove_dead_drafts(folder: Path) -> None:
    """Clear a folder of what dead processes left in it; what belongs to living ones stays.

    A draft is removed. A folder that was being replaced is put back, or removed where the new one is in its place.
    Files that were about to replace others together are moved into their places.
    """
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        match = _LEFT.fullmatch(path.name)
        if match is None or _is_alive(path):
            continue
        if match["kind"] == "ready":
            _move_out(path)
        elif match["kind"] == "old" and not (final := path.with_name(match["name"])).exists():
            os.replace(path, final)
        elif match["kind"] == "old":
            _discard(path)
        else:
            _remove(path)


def is_draft(path: Path) -> bool:
    """Whether the name is one that this module gives to what is being written or replaced."""
    return _LEFT.fullmatch(path.name) is not None


def is_ours(path: Path) -> bool:
    """Whether this module made the file for itself: a draft, or what keeps others out of a folder."""
    return is_draft(path) or path.name in (LOCK, HOLDER)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A block in which no other process, and no other thread, is in such a block for this folder; it must exist.

    Raises BlockingIOError at once where another has the folder, and names it. A block within a block is free.
    """
    folder = folder.resolve()
    mine: set[Path] = _held.__dict__.setdefault("folders", set())
    if folder in mine:
        yield
        return
    with ExitStack() as ends:
        ends.callback(_acquired(folder).release)
        mine.add(folder)
        ends.callback(mine.discard, folder)
        for name in (LOCK, HOLDER):
            ends.callback(_remove, folder / name)
        with suppress(OSError):  # the name is a help, a full disk no reason to fail here
            (folder / HOLDER).write_text(f"process {os.getpid()} on {platform.node()} ({_command()})", "utf-8")
        yield


def _acquired(folder: Path) -> BaseFileLock:
    while True:
        lock = FileLock(folder / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise BlockingIOError(
                f"{folder} is being written by {_holder(folder)}; wait until it has ended, or take another folder"
            ) from None
        if (folder / LOCK).exists():
            return lock
        lock.release()  # the one before removed the file that we had opened, and the next would make another


def _holder(folder: Path) -> str:
    try:
        return (folder / HOLDER).read_text("utf-8")[:200] or "another process"
    except (OSError, ValueError):
        return "another process"


def _command() -> str:
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]]) if sys.argv and sys.argv[0] else "python"


def _beside(path: Path, kind: str) -> Path:
    """A name for a draft of `path`: with the process, when it began, the machine, and a number."""
    pid = os.getpid()
    mark = f"{pid}-{_start(pid) or 0}-{_host()}-{next(_counter)}"
    return path.with_name(f".{path.name}.{kind}-{mark}")


def _host() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _start(pid: int) -> int | None:
    """When a process began, in ticks since the machine did; None where the system does not tell, or it is dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])  # killed, and not yet waited for: dead


def _is_alive(path: Path) -> bool:
    """Whether the process that a draft is named after lives; where that cannot be known, it does."""
    match = _LEFT.fullmatch(path.name)
    if match is None or match["host"] != _host() or os.name != "posix":
        return True
    pid, start = int(match["pid"]), int(match["start"])
    if start and Path("/proc/self/stat").exists():
        return _start(pid) == start  # another process may have the number by now
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


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
        draft = _beside(old.with_name("replaced"), "draft")
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
