"""Files out of .tar and .zip archives that may be hostile."""

from __future__ import annotations

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from gsat.data.rules import listed, whole

MOST_BYTES = 1 << 30  # in all; the largest archive that is fetched unpacks to 206 MB
MOST_MEMBERS = 10_000


@dataclass(frozen=True)
class Member:
    """A regular file of an archive."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def extract(archive: Path, wanted: Mapping[str, Path], *, most_bytes: int = MOST_BYTES) -> None:
    """Write the members `wanted` to the paths they are mapped to.

    The whole archive is looked through first, and refused before anything is written if a member, wanted or not, has
    an absolute path, climbs with "..", is a link or a device, has a name twice, or if all of them are larger than
    `most_bytes`. A member that turns out longer than it says is not kept.
    """
    with _members(archive, most_bytes) as members:
        lacking = [name for name in wanted if name not in members]
        if lacking:
            raise ValueError(f"{archive} must hold {listed(lacking)}, it holds {listed(sorted(members))}")
        for name, path in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{path.name}.part")
            try:
                with members[name].open() as source, part.open("wb") as target:
                    _copy(archive, members[name], source, target)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)


@contextmanager
def _members(archive: Path, most_bytes: int) -> Iterator[dict[str, Member]]:
    """The regular files of an archive, by name."""
    with whole(archive, "archive", tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError):
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                yield _checked(archive, _in_zip(archive, zipped), most_bytes)
        else:
            with tarfile.open(archive) as tarred:
                yield _checked(archive, _in_tar(archive, tarred), most_bytes)


def _checked(archive: Path, members: Iterator[Member], most_bytes: int) -> dict[str, Member]:
    found: dict[str, Member] = {}
    total = 0
    for member in members:
        if member.name in found:
            raise _refusal(archive, member.name, "is there twice")
        found[member.name] = member
        total += member.size
        if total > most_bytes:
            raise _refusal(archive, member.name, f"makes it larger than {most_bytes} bytes, unpacked")
        if len(found) > MOST_MEMBERS:
            raise _refusal(archive, member.name, f"is one of more than {MOST_MEMBERS}")
    return found


def _in_tar(archive: Path, tarred: tarfile.TarFile) -> Iterator[Member]:
    for info in tarred:
        _check_name(archive, info.name)
        if not (info.isreg() or info.isdir()):
            raise _refusal(archive, info.name, "is a link" if info.issym() or info.islnk() else "is a device")
        if hasattr(tarfile, "data_filter"):  # Python's own rules, since 3.11.4
            with whole(archive, "archive", tarfile.FilterError):
                tarfile.data_filter(info, str(archive.parent))
        if info.isreg():
            yield Member(info.name, info.size, partial(_opened, tarred, info))


def _opened(tarred: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = tarred.extractfile(info)
    if stream is None:  # of links and folders only, which are not asked for
        raise tarfile.ReadError(f"{info.name} is not a file")
    return stream


def _in_zip(archive: Path, zipped: zipfile.ZipFile) -> Iterator[Member]:
    for info in zipped.infolist():
        _check_name(archive, info.filename)
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where the archive was not made on Unix
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refusal(archive, info.filename, "is a link" if kind == stat.S_IFLNK else "is a device")
        if info.flag_bits & 1:
            raise _refusal(archive, info.filename, "is encrypted")
        if not info.is_dir():
            yield Member(info.filename, info.file_size, partial(zipped.open, info))


def _check_name(archive: Path, name: str) -> None:
    """Raise unless the name is that of a place below the folder where it is unpacked, on any platform."""
    windows = PureWindowsPath(name)
    if name.startswith("/") or windows.drive or windows.root:
        raise _refusal(archive, name, "has an absolute path")
    if ".." in PurePosixPath(name).parts or ".." in windows.parts:
        raise _refusal(archive, name, 'climbs out with ".."')
    if "\0" in name or "\\" in name:
        raise _refusal(archive, name, "has a name that depends on the platform")


def _refusal(archive: Path, name: str, why: str) -> ValueError:
    return ValueError(
        f"{archive} must be an archive of plain files, got the member {name!r}, which {why}; not unpacked"
    )


def _copy(archive: Path, member: Member, source: IO[bytes], target: IO[bytes]) -> None:
    left = member.size + 1
    while left > 0 and (block := source.read(min(left, 1 << 20))):
        left -= len(block)
        target.write(block)
    if left != 1:
        raise _refusal(archive, member.name, f"has {'more' if left < 1 else 'fewer'} bytes than it says, {member.size}")
