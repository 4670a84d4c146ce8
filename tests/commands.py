"""Commands in processes of their own, forked from one that has torch loaded: killed, short of disk, or left alone."""

import contextlib
import gzip
import hashlib
import json
import os
import resource
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pandas as pd

from forks import FORKS
from gsat._files import is_ours
from gsat.data.catalogue import IDX, KNOWN
from web import Served

WATCHED = ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir")  # of os: around each a kill may come
TABLE = "t.csv"  # beside the folders of the commands, for its path is part of a run
SERVED = "served.json"  # beside them too: where a small MNIST can be fetched, if there is one
PATIENCE = 600  # seconds after which a command counts as hanging


@dataclass(frozen=True)
class End:
    """How a command ended: its exit code, -9 after a kill, and what it said."""

    code: int
    said: str


@dataclass(frozen=True)
class Started:
    """A command under way, and the end of a pipe through which it speaks."""

    process: BaseProcess
    ear: Connection


def start(args: list[str], folder: Path, *, die_at: int = 0, limit: int | None = None) -> Started:
    """Start `gsat args` in the folder; it dies at the n-th change of a file's name, or writes no file above a limit."""
    ear, mouth = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_command, args=([str(arg) for arg in args], folder, mouth, die_at, limit))
    process.start()
    mouth.close()
    return Started(process, ear)


def end(started: Started) -> End:
    """Wait for it."""
    process, ear = started.process, started.ear
    process.join(PATIENCE)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError("a command hangs")
    os.set_blocking(ear.fileno(), False)
    said = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(ear.fileno(), 1 << 16):
            said += part
    ear.close()
    return End(process.exitcode, " ".join(said.decode("utf-8", "replace").split()))


def run(args: list[str], folder: Path, *, die_at: int = 0, limit: int | None = None) -> End:
    """Start it and wait for it."""
    return end(start(args, folder, die_at=die_at, limit=limit))


def kill_after(args: list[str], folder: Path, seconds: float) -> End:
    """Start it and kill it after a while."""
    started = start(args, folder)
    time.sleep(seconds)
    started.process.kill()
    return end(started)


def changes(args: list[str], folder: Path) -> int:
    """How many changes of names the command makes when nobody disturbs it."""
    finished = run(args, folder)
    assert finished.code == 0, finished.said
    counted = folder.parent / "changes"
    return int(counted.read_text())


def _command(args: list[str], folder: Path, mouth: Connection, die_at: int, limit: int | None) -> None:
    os.chdir(folder)
    for stream in (1, 2):
        os.dup2(mouth.fileno(), stream)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", encoding="utf-8", closefd=False) for stream in (1, 2))
    _make_small()
    if (folder.parent / SERVED).exists():
        _fetch_from(json.loads((folder.parent / SERVED).read_text()))
    count = 0

    def dying(real: Callable) -> Callable:
        def call(*some, **more):
            nonlocal count
            count += 1
            if count == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*some, **more)

        return call

    for name in WATCHED:
        setattr(os, name, dying(getattr(os, name)))
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sys.argv = ["gsat", *(str(folder.parent / TABLE) if arg == TABLE else arg for arg in args)]
    try:
        _save(*args[1:]) if args[0] == "save" else _main()
    finally:
        sys.stdout.flush()
        if limit is None:
            (folder.parent / "changes").write_text(str(count))


def _main() -> None:
    from gsat.cli import main

    main()


def _save(model: str, to: str) -> None:
    """What is no command, but writes a folder as well: clf.save(to)."""
    import gsat

    try:
        gsat.load(model).save(to)
    except OSError as error:
        sys.stdout.write(str(error))
        sys.exit(2)


def serve_mnist(served: Served, folder: Path) -> None:
    """Let the commands in `folder` fetch a small MNIST from the server."""
    sources, sums = [], {}
    for name, shape in zip(IDX, ((4, 28, 28), (4,), (2, 28, 28), (2,)), strict=True):
        head = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
        raw = head + np.random.default_rng(0).integers(0, 10, shape, dtype=np.uint8).tobytes()
        packed = gzip.compress(raw, mtime=0)
        served.files[f"/{name}.gz"] = packed
        sums[name] = hashlib.sha256(raw).hexdigest()
        address, path = f"{served.address}/{name}.gz", f"mnist/{name}.gz"
        sources.append((address, hashlib.sha256(packed).hexdigest(), len(packed), {"": path}))
    (folder.parent / SERVED).write_text(json.dumps({"sources": sources, "sums": sums}))


def _fetch_from(served: dict) -> None:
    from gsat.data.fetching.sources import RECIPES, Recipe, Source

    KNOWN["mnist"].sums.update(served["sums"])
    RECIPES["mnist"] = (Recipe(tuple(Source(*source) for source in served["sources"])),)


def _make_small() -> None:
    """One defence and one attack for the demo, one quick experiment instead of those of the paper."""
    import torch

    from gsat.experiments import demonstration, paper
    from gsat.experiments.plan import Experiment, Outcome, Piece

    torch.set_num_threads(1)
    sweep = demonstration._sweep
    demonstration.DEFENCES = ("erm",)
    demonstration._sweep = lambda unit: dict(list(sweep(unit).items())[:1])
    piece = Piece("piece", quick_rows, {"value": 0.5})
    paper.experiment = lambda name: Experiment(
        name, "Quick", "-", lambda scale, seeds: [piece], lambda rows, scale: Outcome({"results": rows}, "fine", {})
    )


def quick_rows(place: object, value: float) -> pd.DataFrame:
    """The rows of the quick experiment."""
    return pd.DataFrame({"defence": ["erm"], "attack": ["pgd"], "strength": [1.0], "accuracy": [value], "seed": [0]})


def make_room(folder: Path) -> Path:
    """A new folder for commands, beside a small table to train on."""
    (folder / "room").mkdir()
    X = np.random.default_rng(0).normal(size=(40, 5)).round(3)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(kind=np.where(X[:, 0] > 0, "x", "y"))
    frame.to_csv(folder / TABLE, index=False)
    return folder / "room"


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without those that belong to locks and drafts."""
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = [folder / part for part in path.relative_to(folder).parts]
        if path.is_file() and not any(is_ours(part) for part in parts):
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def leftovers(folder: Path) -> list[str]:
    """What is hidden in a folder: drafts, locks, runs that were put aside."""
    return [str(path.relative_to(folder)) for path in folder.rglob(".*")]


@contextlib.contextmanager
def copied(folder: Path, to: Path) -> Iterator[Path]:
    """A copy of a folder, for one case."""
    shutil.copytree(folder, to)
    try:
        yield to
    finally:
        shutil.rmtree(to)
