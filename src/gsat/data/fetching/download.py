"""Files from the network: resumed where a transfer broke off, checked, and put in place all at once."""

from __future__ import annotations

import http.client
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from gsat.data.rules import sha256_of

BLOCK = 1 << 18
MOST = 1 << 30  # bytes of a file whose size is not known
PASSING = {408, 425, 429}  # answers that another try may change, as those of 500 and above


class BrokenTransferError(OSError):
    """A transfer that another try may go on with."""


class TooFarError(BrokenTransferError):
    """A transfer that was to go on behind the end of the file, and can only start anew."""


def download(
    url: str,
    path: Path,
    *,
    sha256: str,
    size: int | None = None,
    progress: bool = False,
    tries: int = 4,
    wait: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """The file at `url`, which has this sha256 and, if it is known, this size in bytes, put at `path`.

    The bytes are gathered in `path`.part, where a later try or call goes on if the server can. Between tries there
    are `wait`, 2·`wait`, 4·`wait` ... seconds. Nothing is ever at `path` that does not have the sum.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    is_leftover = part.exists()
    if not is_leftover or sha256_of(part) != sha256:
        _gather(url, part, size, progress, tries, wait, timeout)
    found = sha256_of(part)
    if found != sha256 and is_leftover:  # what was left may be of another file
        part.unlink()
        _gather(url, part, size, progress, tries, wait, timeout)
        found = sha256_of(part)
    if found != sha256:
        part.unlink()
        raise ValueError(f"{url} must have sha256 {sha256}, got {found}; nothing was kept")
    return part.replace(path)


def read_page(url: str, *, timeout: float = 30.0, most: int = 1 << 24) -> str:
    """The text of the page at `url`, at most that many bytes of it."""
    with _answer(url, {"Accept": "text/html"}, timeout) as answer:
        return answer.read(most).decode("utf-8", "replace")


def _gather(url: str, part: Path, size: int | None, progress: bool, tries: int, wait: float, timeout: float) -> None:
    """Bring `part` to its full length in several tries."""
    for number in range(1, tries + 1):
        try:
            return _go_on(url, part, size, progress, timeout)
        except BrokenTransferError as error:
            if number == tries:
                raise OSError(f"{url} could not be fetched in {tries} tries: {error}") from error
            time.sleep(wait * 2 ** (number - 1))


def _go_on(url: str, part: Path, size: int | None, progress: bool, timeout: float) -> None:
    """Append to `part` what it lacks, or start it anew if the server sends the file as a whole."""
    have = part.stat().st_size if part.exists() else 0
    try:
        with _answer(url, {"Range": f"bytes={have}-"} if have else {}, timeout) as answer:
            if have and not _goes_on(answer, have):
                have = 0
            _copy(answer, part, have, size, progress)
    except TooFarError:
        part.unlink()
        raise


@contextmanager
def _answer(url: str, headers: dict[str, str], timeout: float) -> Iterator[http.client.HTTPResponse]:
    """What the server answers; a fault that may pass becomes a BrokenTransferError, any other an OSError."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url must start with http:// or https://, got {url!r}")
    request = urllib.request.Request(url, headers={"User-Agent": "gsat", **headers})  # noqa: S310 -- checked above
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            yield answer
    except urllib.error.HTTPError as error:
        error.close()
        said = f"the server answered {error.code} {error.reason}"
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise TooFarError(said) from error
        if error.code in PASSING or error.code >= 500:
            raise BrokenTransferError(said) from error
        raise OSError(f"{url} could not be fetched: {said}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, socket.gaierror):  # no such name, or no network at all
            raise OSError(f"{url} could not be fetched: {error.reason}") from error
        raise BrokenTransferError(f"{error.reason}") from error
    except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise BrokenTransferError(f"{error or type(error).__name__}") from error


def _goes_on(answer: http.client.HTTPResponse, have: int) -> bool:
    """Whether the answer holds the bytes from `have` on, and not the file as a whole."""
    is_partial = answer.status == http.HTTPStatus.PARTIAL_CONTENT
    return is_partial and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")


def _copy(answer: http.client.HTTPResponse, part: Path, have: int, size: int | None, progress: bool) -> None:
    """Write the answer to `part`, from byte `have` on; raise if it ends early or goes on for too long."""
    length = answer.headers.get("Content-Length", "")
    total = size if size is not None else have + int(length) if length.isdigit() else None
    name = part.name.removesuffix(".part")
    with (
        part.open("ab" if have else "wb") as stream,
        tqdm(desc=name, total=total, initial=have, unit="B", unit_scale=True, disable=not progress) as bar,
    ):
        while block := answer.read(BLOCK):
            have += len(block)
            if have > (MOST if size is None else size):
                break
            stream.write(block)
            bar.update(len(block))
    if have > (MOST if size is None else size):
        part.unlink()
        raise ValueError(f"{answer.url} must have {size or f'at most {MOST}'} bytes, got more; nothing was kept")
    if total is not None and have < total:
        raise BrokenTransferError(f"the transfer broke off after {have} of {total} bytes")
