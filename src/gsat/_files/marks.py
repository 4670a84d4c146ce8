"""Names of what is being written or replaced: whose they are, and whether that process still lives.

`.NAME.draft-MARK` is being written, `.NAME.old-MARK` is a folder that is being replaced, `.NAME.ready-MARK` files that
replace others together. The mark has the number of the process, when it began, the machine, and a number of its own.
Earlier versions wrote `.NAME.PID`, and put a folder aside as `.NAME.PID.old`.
"""

from __future__ import annotations

import itertools
import os
import platform
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

_MARK = re.compile(r"\.(?P<name>.+)\.(?P<kind>draft|old|ready)-(?P<pid>\d+)-(?P<start>\d+)-(?P<host>[0-9a-f]{8})-\d+")
_EARLIER = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d{1,10})(?P<old>\.old)?")
_OWN = re.compile(  # names that gsat gives by itself: any other `.NAME.123` may be a file of the user's
    r"config\.json|log\.jsonl(\.damaged)?|evaluations\.jsonl|perturbations\.json|diagnosis\.(json|png)|model|report\.html"
    r"|(results|choice|chosen|differences|timing|[0-9a-f]{20})\.csv|curves\.png|step-\d{9}"
)
_counter = itertools.count()


@dataclass(frozen=True)
class Mark:
    """What the name of a draft says: of what it is one, of which kind, and of which process."""

    name: str
    kind: str
    pid: int
    start: int  # 0 where it is not known
    here: bool  # whether the process is, or was, one of this machine

    @property
    def is_alive(self) -> bool:
        """Whether the process lives; where that cannot be known, it does."""
        if not self.here or os.name != "posix":
            return True
        if self.start and Path("/proc/self/stat").exists():
            return began(self.pid) == self.start  # another process may have the number by now
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            pass
        return True


def mark_of(path: Path, *names: str) -> Mark | None:
    """What the name says; drafts of earlier versions are known for the files that gsat names, and for `names`."""
    if match := _MARK.fullmatch(path.name):
        return Mark(match["name"], match["kind"], int(match["pid"]), int(match["start"]), match["host"] == _host())
    match = _EARLIER.fullmatch(path.name)
    if match is None or not (match["name"] in names or _OWN.fullmatch(match["name"])):
        return None
    return Mark(match["name"], "old" if match["old"] else "draft", int(match["pid"]), 0, True)


def beside(path: Path, kind: str) -> Path:
    """A name for what this process is about to write, or to replace, at `path`."""
    pid = os.getpid()
    return path.with_name(f".{path.name}.{kind}-{pid}-{began(pid) or 0}-{_host()}-{next(_counter)}")


def began(pid: int) -> int | None:
    """When a process began, in ticks since the machine did; None where the system does not tell, or it is dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])  # killed, and not yet waited for: dead


def _host() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"
