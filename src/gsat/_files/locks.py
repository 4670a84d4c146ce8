"""One process at a time in a folder."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from gsat._files.marks import mark_of

LOCK, HOLDER = ".gsat.lock", ".gsat.holder"  # in a folder that one process at a time may write to

_held = threading.local()


def is_ours(path: Path) -> bool:
    """Whether gsat made the file for itself: a draft, or what keeps others out of a folder."""
    return mark_of(path) is not None or path.name in (LOCK, HOLDER)


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


def free_lock(file: Path) -> BaseFileLock | None:
    """The lock that the file stands for, taken; None where another process or thread has it.

    Who releases it may remove the file before: that is what is looked for here.
    """
    while True:
        lock = FileLock(file)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        if file.exists():
            return lock
        lock.release()  # the one before removed the file that we had opened, and the next would make another


def _acquired(folder: Path) -> BaseFileLock:
    lock = free_lock(folder / LOCK)
    if lock is None:
        raise BlockingIOError(
            f"{folder} is being written by {_holder(folder)}; wait until it has ended, or take another folder"
        )
    return lock


def _holder(folder: Path) -> str:
    try:
        return (folder / HOLDER).read_text("utf-8")[:200] or "another process"
    except (OSError, ValueError):
        return "another process"


def _command() -> str:
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]]) if sys.argv and sys.argv[0] else "python"


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
