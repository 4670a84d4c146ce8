"""How much memory there is, and whether what a file announces fits into it, before anything is allocated."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

SHARE = 0.5  # of what is free: samples that take more stay in their file, where that can be read by rows
ROWS = 1000  # that are dense at once here and there
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?i?)B?", re.IGNORECASE)

_given: ContextVar[int | None] = ContextVar("max_memory", default=None)  # by the caller of `load`, in bytes


def as_bytes(size: str | int) -> int:
    """The number of bytes in "4GB", "500 MB" or "1.5 GiB"; a number is bytes already."""
    text = str(size).strip()
    found = None if isinstance(size, bool) else SIZE.fullmatch(text)
    unit = None if found is None else found[2][:1].upper() + found[2][1:].lower()
    if found is None or unit not in UNITS or not 1 <= float(found[1]) * UNITS[unit] < sys.maxsize:
        raise ValueError(f'max_memory must be a number of bytes or a size such as "4GB", got {size!r}')
    return int(float(found[1]) * UNITS[unit])


@contextmanager
def limited(max_memory: str | int | None) -> Iterator[None]:
    """A block in which no file may need more than `max_memory`; None leaves it at what there is."""
    token = _given.set(_given.get() if max_memory is None else as_bytes(max_memory))
    try:
        yield
    finally:
        _given.reset(token)


def allowed() -> int:
    """How many bytes a file may need now: the least of what was given, is free, and the process may still take."""
    return min(size for size in (_given.get(), _free(), _left_by_rlimit(), sys.maxsize) if size is not None)


def given() -> int | None:
    """What the caller allows; None where nothing was said."""
    return _given.get()


def fits(path: str | Path, what: str, need: int) -> None:
    """Raise unless `what` of the file, which takes `need` bytes, fits into memory."""
    if need > allowed():
        raise ValueError(f"{path} must fit into memory, got {what} of {shown(need)} where {_where()}")


def room(what: str, need: int, remedy: str) -> None:
    """Raise unless there are the `need` bytes of memory that `what` takes; `remedy` is what to do."""
    if need > allowed():
        raise ValueError(f"{what} needs {shown(need)} of memory, and {_where()}; {remedy}")


def stays_on_disk(shape: tuple[int, int], stream: bool | None) -> bool:
    """Whether samples (n, d) stay in their file: as the caller said, or where float32 takes over half of what is free.

    Some rows must fit in any case; where they do not, the samples are refused as too large for memory.
    """
    n, d = shape
    if 4 * min(n, ROWS) * d > allowed():
        return False
    return 4 * n * d > SHARE * allowed() if stream is None else stream


def too_large(path: str | Path) -> ValueError:
    """The error for a file that took more memory than it announced."""
    return ValueError(f"{path} must fit into memory, got a file that takes more where {_where()}")


def address_space() -> int | None:
    """How many bytes of addresses the process uses; None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def shown(size: int) -> str:
    """A number of bytes for people."""
    for unit, least in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= least:
            return f"{size / least:.3g} {unit}"
    return f"{size} bytes"


def _where() -> str:
    most = allowed()
    return f"max_memory allows {shown(most)}" if most == given() else f"{shown(most)} are free"


def _free() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:  # no Linux: what is built in, since what is free cannot be asked for
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _left_by_rlimit() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    most, used = resource.getrlimit(resource.RLIMIT_AS)[0], address_space()
    return None if most == resource.RLIM_INFINITY or used is None else max(most - used, 0)
