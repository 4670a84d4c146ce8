"""Sums over samples that are spread over processes: what every rank holds is reduced by torch.distributed.

A group of samples may lie on several ranks, some rows on each. What depends on all of it are sums over samples (norms
of columns, the mean row, inner products) and largest entries. The functions that take such sums ask `sharing()` for the
ranks that share the present group: by default this process alone, whose sums are its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class RankLeft(ConnectionError):  # noqa: N818
    """Another rank has left the run, so that nothing can be summed over all of them any more."""


@dataclass(eq=False)
class Link:
    """The only reference to a process group: without it the connections close, which the other ranks notice."""

    group: Any = None

    def close(self) -> None:
        """Leave the process group."""
        group, self.group = self.group, None
        dist.destroy_process_group(group)


@dataclass(frozen=True)
class Ranks:
    """The processes that sum together.

    rank: the number of this one; world: how many there are; link: to their process group
    """

    rank: int = 0
    world: int = 1
    link: Link = field(default_factory=Link)

    @classmethod
    def of(cls, group: Any = None) -> Ranks:
        """All ranks of the process group, by default of the whole; this process alone where there is none."""
        if not (dist.is_available() and dist.is_initialized()):
            return ALONE
        group = dist.group.WORLD if group is None else group
        return cls(dist.get_rank(group), dist.get_world_size(group), Link(group))

    @property
    def group(self) -> Any:
        """The process group; None for this process alone."""
        return self.link.group

    @property
    def alone(self) -> bool:
        """Whether there is one rank only, so that nothing is sent."""
        return self.world == 1

    @property
    def device(self) -> torch.device:
        """Where numbers must be to be sent."""
        if self.alone or dist.get_backend(self.group) != "nccl":
            return torch.device("cpu")
        return torch.device("cuda", torch.cuda.current_device())

    def summed(self, v: Tensor) -> Tensor:
        """Σ_r v_r, of the shape of v; the same bits on every rank."""
        return v if self.alone else self._reduced(v, dist.ReduceOp.SUM)

    def sums(self, *numbers: float) -> list[float]:
        """The sum over ranks of each number, in float64."""
        if self.alone:
            return list(numbers)
        return self.summed(torch.tensor(numbers, dtype=torch.float64, device=self.device)).tolist()

    def most(self, v: Tensor) -> Tensor:
        """The largest of the ranks' entries, of the shape of v; NaN where one of them is."""
        if self.alone:
            return v
        missing = v.isnan()  # comparisons pass over NaN
        found = self._reduced(torch.stack([torch.where(missing, -torch.inf, v), missing.to(v)]), dist.ReduceOp.MAX)
        return torch.where(found[1] > 0, torch.nan, found[0])

    def any(self, found: bool) -> bool:
        """Whether it is so on any rank."""
        return found if self.alone else self.sums(float(found))[0] > 0

    def places(self, m: int) -> tuple[int, int]:
        """Where the m rows of this rank begin in the group of all ranks, rank after rank, and how many there are."""
        if self.alone:
            return 0, m
        counts = self.sums(*(float(m) if rank == self.rank else 0.0 for rank in range(self.world)))
        return int(sum(counts[: self.rank])), int(sum(counts))

    def gathered(self, value: Any) -> list[Any]:
        """What each rank has, in their order."""
        if self.alone:
            return [value]
        found: list[Any] = [None] * self.world
        with _told():
            dist.all_gather_object(found, value, group=self.group)
        return found

    def first(self, value: Any) -> Any:
        """What rank 0 has."""
        if self.alone:
            return value
        found = [value if self.rank == 0 else None]
        with _told():
            dist.broadcast_object_list(found, group_src=0, group=self.group)
        return found[0]

    def copy_first(self, v: Tensor) -> None:
        """Overwrite v by what rank 0 has."""
        if not self.alone:
            sent = v.detach().clone(memory_format=torch.contiguous_format)
            with _told():
                dist.broadcast(sent, group_src=0, group=self.group)
            v.copy_(sent)

    def _reduced(self, v: Tensor, how: Any) -> Tensor:
        found = v.detach().clone(memory_format=torch.contiguous_format)
        with _told():
            dist.all_reduce(found, op=how, group=self.group)
        return found


ALONE = Ranks()
_SHARING: ContextVar[Ranks] = ContextVar("sharing", default=ALONE)


def sharing() -> Ranks:
    """The ranks over which the present group of samples is spread; this process alone outside `shared`."""
    return _SHARING.get()


@contextmanager
def shared(ranks: Ranks) -> Iterator[None]:
    """A block in which sums over samples are taken over these ranks, all of which have to enter it."""
    before = _SHARING.set(ranks)
    try:
        yield
    finally:
        _SHARING.reset(before)


@contextmanager
def joined(patience: timedelta | None = None) -> Iterator[Ranks]:
    """A block with all ranks in a process group of its own: whoever leaves it closes the connection.

    The others, which wait for a sum, then get `RankLeft` and leave too, instead of waiting for ever. One that is silent
    for longer than `patience`, by default that of torch.distributed, counts as one that has left.
    """
    if Ranks.of().alone:
        yield ALONE
        return
    with _told():
        ranks = Ranks.of(dist.new_group(timeout=patience))
    Ranks.of().any(False)  # all are connected: one that leaves at once is not taken for one that never came
    try:
        yield ranks
    finally:
        ranks.link.close()


@contextmanager
def _told() -> Iterator[None]:
    """A failed exchange becomes `RankLeft`."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # ValueError: of a process group that is closed
        raise RankLeft(
            "another process has left the run, which cannot go on without it; the message of that process says why, "
            "unless it was killed, or was silent for longer than the process group allows"
        ) from error.with_traceback(None)  # whose frames hold the process group, and would keep it open
