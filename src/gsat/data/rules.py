"""What every file and every option of reading must be, so that a wrong one fails with its path, place and reason.

Nothing here needs numpy or pandas: names and paths are checked before anything heavy is imported.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import importlib.util
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from gsat.data.folders import files_of
from gsat.data.memory import too_large

T = TypeVar("T")

SHOWN = 10  # names listed in a message
LINE = 80  # characters of a name or a cell in a message
NAME_IT = (
    "a column of labels, batches or ids is named with --label, --batch or --ids (in Python label=, batch=, ids=), "
    "others go with --drop (drop=)"
)


def extra(module: str, package: str, ending: str) -> Any:
    """The module `module` of a package in the extra `bio`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f'reading {ending} needs {package}: pip install "gsat-learn[bio]"') from error


def needs(module: str, package: str, ending: str) -> None:
    """Raise unless the module `module` of a package in the extra `bio` is installed; it is not imported."""
    if importlib.util.find_spec(module) is None:
        raise ImportError(f'reading {ending} needs {package}: pip install "gsat-learn[bio]"')


def located(path: str | Path) -> Path:
    """`path` with the home folder that a ~ at its start names."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path} must start with the home folder of a user, got: {error}") from error


def existing(path: Path, remedy: str = "") -> Path:
    """`path`, which must be a file: no folder, pipe, socket or device, from which one could read without an end."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileNotFoundError(f"{path} is a link that leads back to itself{remedy}") from None
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise
        state = f"a link to {path.readlink()}, which is missing" if path.is_symlink() else "missing"
        raise FileNotFoundError(f"{path} is {state}{remedy}") from None
    except ValueError as error:
        raise FileNotFoundError(f"{str(path)!r} is no path: {error}") from None
    if not stat.S_ISREG(mode):
        kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "named pipe"), (stat.S_ISSOCK, "socket"))
        kind = next((name for test, name in kinds if test(mode)), "device")
        raise FileNotFoundError(f"{path} is a {kind}, not a file{remedy}")
    return path


@contextmanager
def told(path: str | Path) -> Iterator[None]:
    """A block that reads `path`: what no reader can foresee is an error with the path too."""
    try:
        yield
    except MemoryError:
        raise too_large(path) from None
    except RecursionError:
        raise ValueError(f"{path} must not be nested so deeply that reading it never ends") from None
    except OSError as error:
        if str(path) in str(error) or not error.errno:
            raise
        raise OSError(f"{path} must be readable, got: {error}") from error


def sha256_of(*paths: Path) -> str:
    """The sha256 of the bytes of the files, one after the other, in hexadecimal; of a folder with the files' names."""
    digest = hashlib.sha256()
    for path in paths:
        for place in files_of(path):
            if place != path:
                digest.update(f"{place.relative_to(path).as_posix()}\0{place.stat().st_size}\0".encode())
            with place.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


@contextmanager
def whole(path: Path, kind: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn a library's `errors` about a broken file into a ValueError with the path."""
    try:
        yield
    except errors as error:
        if isinstance(error, MemoryError | ImportError) or (isinstance(error, ValueError) and str(path) in str(error)):
            raise  # no fault of the file, or told already
        raise ValueError(f"{path} must be a whole {kind} file, got: {str(error) or type(error).__name__}") from error


def not_utf8(path: Path) -> ValueError:
    """The error for a file whose bytes are not UTF-8, with the line of the first that is not."""
    content = path.read_bytes()
    try:
        content.decode()
        got, at = "NUL", max(content.find(b"\0"), 0)
    except UnicodeDecodeError as error:
        got, at = f"0x{content[error.start]:02x}", error.start
    line = content.count(b"\n", 0, at) + 1
    return ValueError(f"{path}, line {line} must be UTF-8 text, got byte {got}; save the file as UTF-8")


def distinct(path: Path, what: str, names: Sequence[Any], remedy: str = "") -> None:
    """Raise unless no two of the names are equal."""
    first: dict[Any, int] = {}
    repeated = [(i, name) for i, name in enumerate(names) if first.setdefault(name, i) != i]
    if repeated:
        again, name = repeated[0]
        raise ValueError(
            f"{path} must have distinct {what}, got {brief(name)} at positions {first[name]} and {again} "
            f"({len(repeated)} in all repeat an earlier one){remedy}"
        )


class AbsentError(ValueError):
    """What an option names is not in the file."""


def among(path: Path, option: str, name: str, names: Iterable[str], what: str) -> str:
    """`name`, which `option` asks for and which must be one of the file's `names`."""
    names = [str(each) for each in names]
    if name not in names:
        near = get_close_matches(name, names, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise AbsentError(f"{path} must have the {what} that {option}={name!r} names, it has {listed(names)}{guess}")
    return name


def picked(name: str, option: str, value: str, choices: Mapping[str, T]) -> T:
    """What `value` of `option` stands for, which must be one of the choices that the data set `name` has."""
    if value not in choices:
        raise ValueError(f"{option} must be one of {', '.join(choices)} for the data set {name}, got {value!r}")
    return choices[value]


def brief(value: Any) -> str:
    """The value as Python writes it, of which a message shows at most a line."""
    text = repr(value)
    return text if len(text) <= LINE else f"{text[:LINE]}..."


def listed(names: Sequence[str]) -> str:
    """At most ten of the names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(map(brief, names[:SHOWN])) or "none") + more
