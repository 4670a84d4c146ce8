"""The next group of samples that lie on disk, read in a thread while the weights are trained on the present one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from gsat._arrays.chunks import on_disk, take
from gsat.training.groups import draw

if TYPE_CHECKING:
    from gsat.training.state import Run


class Ahead:
    """One thread, and one group ahead.

    The rows of the next group are drawn with a copy of the generator, and drawn again when their turn comes: a run with
    a thread has the groups, the checkpoints and the bits of one without. Rows that were not foreseen are read at once.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool
        self.rows: Tensor | None = None  # that are being read, or were
        self.found: Future[Tensor] | None = None

    def take(self, X: Any, rows: Tensor) -> Tensor:
        """These rows of X, as `chunks.take`; an error of the thread is raised here."""
        found, foreseen = self.found, self.rows is not None and torch.equal(self.rows, rows)
        self.rows = self.found = None  # what was read may be large
        return found.result() if found is not None and foreseen else take(X, rows)

    def begin(self, X: Any, m: int, generator: Generator, run: int) -> None:
        """Begin to read the m rows that the generator draws next; it is left as it is."""
        twin = Generator(generator.device)
        twin.set_state(generator.get_state())
        self.rows = draw(len(X), m, twin, run)
        self.found = self.pool.submit(take, X, self.rows)


@contextmanager
def reading_ahead(run: Run) -> Iterator[None]:
    """A block in which groups of samples on disk are read one ahead; the thread ends with it."""
    if not on_disk(run.X):
        yield
        return
    with ThreadPoolExecutor(1, "gsat-reads") as pool:
        run.ahead = Ahead(pool)
        try:
            yield
        finally:
            run.ahead = None
            pool.shutdown(cancel_futures=True)
