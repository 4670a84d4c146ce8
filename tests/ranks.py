"""Functions that run on several ranks: processes of one thread each, joined by gloo through a file."""

import os
import pickle
import socket
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from forks import FORKS
from gsat._ranks import RankLeft
from gsat.cli import main


class Rank:
    """A function on one rank; it begins at once."""

    def __init__(self, function: Callable[..., Any], rank: int, world: int, rendezvous: Path, args: Any) -> None:
        self._pipe, child = FORKS.Pipe()
        self.process = FORKS.Process(target=_run, args=(function, rank, world, rendezvous, child, args))
        self.process.start()
        child.close()

    def outcome(self) -> Any:
        """Wait for the end: what the function returned or raised; EOFError for a process that was killed."""
        try:
            found = pickle.loads(self._pipe.recv_bytes())
        except EOFError as error:
            found = error
        self.process.join()
        return found


def start(function: Callable[..., Any], world: int, folder: Path, *args: Any) -> list[Rank]:
    """`world` ranks that run function(*args)."""
    rendezvous = folder / f"rendezvous{len(list(folder.glob('rendezvous*')))}"
    rendezvous.touch()  # so that the next one has another number
    return [Rank(function, rank, world, rendezvous, args) for rank in range(world)]


def on_ranks(function: Callable[..., Any], world: int, folder: Path, *args: Any) -> list[Any]:
    """What function(*args) returns on each of `world` ranks; an error that others merely follow comes last."""
    found = outcomes(function, world, folder, *args)
    errors = sorted((one for one in found if isinstance(one, BaseException)), key=lambda one: isinstance(one, RankLeft))
    if errors:
        raise errors[0]
    return found


def outcomes(function: Callable[..., Any], world: int, folder: Path, *args: Any) -> list[Any]:
    """What function(*args) returns, or raises, on each of `world` ranks."""
    return [rank.outcome() for rank in start(function, world, folder, *args)]


def _run(function: Callable[..., Any], rank: int, world: int, rendezvous: Path, pipe: Connection, args: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    try:
        found = function(*args)
    except BaseException as error:  # it is told in the process that waits
        error.add_note(traceback.format_exc())
        found = error
    pipe.send_bytes(pickle.dumps(found))  # tensors as they are, not by files of a process that is about to end
    dist.destroy_process_group()


def commands(
    world: int, folder: Path, *arguments: str, before: Callable[[], None] | None = None
) -> list[tuple[int, str]]:
    """Exit code and output of the command `gsat` in `world` processes, as torchrun starts it; `before` runs in each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(world):
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        args = ({name: str(value) for name, value in names.items()}, folder / f"output{rank}", arguments, before)
        processes.append(FORKS.Process(target=_command, args=args))
        processes[-1].start()
    found = []
    for rank, process in enumerate(processes):
        process.join()
        found.append((process.exitcode, (folder / f"output{rank}").read_text()))
    return found


def _command(
    environment: dict[str, str], output: Path, arguments: tuple[str, ...], before: Callable[[], None] | None
) -> None:
    os.environ.update(environment)
    if before is not None:
        before()
    with output.open("w", encoding="utf-8") as sys.stdout:
        sys.stderr, sys.argv = sys.stdout, ["gsat", *arguments]
        main()
