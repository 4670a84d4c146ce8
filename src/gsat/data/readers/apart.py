"""Readers in a process of their own: where a library hangs, crashes or runs out of memory on a file, only that ends.

HDF5 and Parquet are read by large libraries in C and C++, which damaged files can bring to any of the three; the XML
of a workbook may be made to fill the memory. The process answers on its standard output with frames: a line of JSON,
then, for numbers, their bytes. Nothing is pickled. `python -m gsat.data.readers.apart` is that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.lazy import LazyFunction
from gsat.data.memory import address_space, allowed, given, limited, too_large
from gsat.data.rules import AbsentError

Parts = Iterator[tuple[str, Any]]  # name and value: text as a list (None where missing), or an array of numbers

READERS: dict[str, Callable[..., Parts]] = {  # what the process can read
    "HDF5": LazyFunction("gsat.data.readers.h5ad_parts", "parts"),
    "Zarr": LazyFunction("gsat.data.readers.zarr_parts", "parts"),
    "Parquet": LazyFunction("gsat.data.readers.parquet_parts", "parts"),
    "Excel": LazyFunction("gsat.data.readers.xlsx_parts", "parts"),
}
SILENCE = 120.0  # seconds without an answer; a block of numbers takes far less
LEAST = 2**28  # bytes that the process may take in any case: its libraries and one block
PIECE = 2**20  # bytes read from it at once
ERRORS: dict[str, type[Exception]] = {
    "ValueError": ValueError,
    "ImportError": ImportError,
    "OSError": OSError,
    "AbsentError": AbsentError,
}


def read_apart(path: Path, kind: str, **options: Any) -> dict[str, Any]:
    """What the reader of `kind` finds in the file at `path`, by name; the blocks of rows called X are one array.

    What it calls "told" is a warning, given at once.
    """
    found: dict[str, Any] = {}
    filled = 0
    for name, value in answers(path, kind, options):
        if name == "shape":
            found["X"] = np.empty(value, np.float32)
        elif name == "X":
            found["X"][filled : filled + len(value)] = value
            filled += len(value)
        elif name == "told":
            warnings.warn(value, stacklevel=3)
        else:
            found[name] = value
    if filled != len(found.get("X", ())):
        raise ValueError(f"{path} must be a whole {kind} file, got {filled} of {len(found['X'])} rows")
    return found


@dataclass
class _Watch:
    """Kills a process that has not answered for `SILENCE` seconds."""

    process: subprocess.Popen[bytes]
    last: float = field(default_factory=time.monotonic)
    hung: bool = False
    done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.done.wait(0.2):
            if time.monotonic() - self.last > SILENCE:
                self.hung = True
                self.process.kill()
                return


def answers(path: Path, kind: str, options: dict[str, Any]) -> Generator[tuple[str, Any], None, None]:
    """The answers of a process that reads the file; its error is raised here."""
    asked = json.dumps({"path": str(path), "kind": kind, "options": options, "max_memory": given()})
    folders = os.pathsep.join(each for each in sys.path if os.path.isabs(each))  # never the working folder
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-W", "ignore", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env={**os.environ, "PYTHONPATH": folders, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        ) as process,
    ):
        watch = _Watch(process)
        threading.Thread(target=watch.run, daemon=True).start()
        try:
            assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - they are pipes
            _ask(process.stdin, asked.encode())
            while (frame := _frame(process.stdout, watch)) is not None:
                if "error" in frame:
                    raise ERRORS[frame["error"]](frame["text"])
                if frame["name"] == "end":
                    return
                yield frame["name"], frame["value"]
        finally:
            watch.done.set()
            process.kill()
        if watch.hung:
            raise ValueError(f"{path} must be a whole {kind} file, got one that takes forever to read")
        raise ValueError(f"{path} must be a whole {kind} file, got one that {_end(process, complaints)}")


def _ask(stream: IO[bytes], asked: bytes) -> None:
    try:
        stream.write(asked)
        stream.close()
    except BrokenPipeError:
        pass  # it ended at once, which the missing answer tells


def _end(process: subprocess.Popen[bytes], complaints: IO[bytes]) -> str:
    """How the process ended that gave no answer."""
    code = process.wait()
    complaints.seek(0)
    lines = complaints.read(PIECE).decode(errors="replace").split("\n")
    why = next((line.strip() for line in reversed(lines) if line.strip()), "")
    how = f"by signal {-code}" if code < 0 else f"with code {code}"
    return f"ends its reader {how}{f': {why}' if why else ''}"


def _frame(stream: IO[bytes], watch: _Watch) -> dict[str, Any] | None:
    """The next frame, with its numbers as the value; None where it breaks off."""
    line = stream.readline()
    watch.last = time.monotonic()
    if not line.endswith(b"\n"):
        return None
    frame: dict[str, Any] = json.loads(line)
    if "dtype" in frame:
        values: NDArray[Any] = np.empty(frame["shape"], np.dtype(frame["dtype"]))
        left = values.reshape(-1).view(np.uint8).data
        while len(left):
            size = stream.readinto(left[:PIECE])  # type: ignore[attr-defined]
            watch.last = time.monotonic()
            if not size:
                return None
            left = left[size:]
        frame["value"] = values
    return frame


def _limit_memory() -> None:
    """Let this process take only as much more as is allowed; where the system cannot, its own checks must do."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used, (soft, hard) = address_space(), resource.getrlimit(resource.RLIMIT_AS)
    if used is not None:
        wanted = used + max(allowed(), LEAST)
        limits = [each for each in (wanted, soft, hard) if each != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))


def _send(stream: IO[bytes], name: str, value: Any) -> None:
    if isinstance(value, np.ndarray):
        values = np.ascontiguousarray(value)
        head = {"name": name, "dtype": values.dtype.str, "shape": values.shape}
        stream.write(json.dumps(head).encode() + b"\n")
        stream.write(values.reshape(-1).view(np.uint8).data)
    else:
        stream.write(json.dumps({"name": name, "value": value}).encode() + b"\n")
    stream.flush()


def _serve(asked: dict[str, Any], stream: IO[bytes]) -> None:
    """Read what was asked for and answer; every error is an answer too."""
    path, kind = Path(asked["path"]), asked["kind"]
    error, text = "ValueError", ""
    try:
        with limited(asked["max_memory"]):
            for name, value in READERS[kind](path, prepared=_limit_memory, **asked["options"]):
                _send(stream, name, value)
        _send(stream, "end", None)
        return
    except (ValueError, ImportError) as caught:
        kinds = (kind for kind in (ImportError, AbsentError, ValueError) if isinstance(caught, kind))
        error, text = next(kinds).__name__, str(caught)
        if str(path) not in text and error == "ValueError":
            text = f"{path} must be a whole {kind} file, got: {text}"
    except PermissionError as caught:
        error, text = "OSError", str(caught)
    except MemoryError:
        with limited(asked["max_memory"]):
            text = str(too_large(path))
    except Exception as caught:  # what a library raises depends on the piece that is broken
        text = f"{path} must be a whole {kind} file, got: {str(caught) or type(caught).__name__}"
    stream.write(json.dumps({"error": error, "text": text}).encode() + b"\n")
    stream.flush()


if __name__ == "__main__":
    _serve(json.load(sys.stdin), sys.stdout.buffer)
