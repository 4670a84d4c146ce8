"""Training on several ranks: who has which samples, whose gradients are averaged, and what is decided together.

Under an initialised process group of torch.distributed `gsat.gdadmm` trains on all its ranks. A step has two forms:

- "own": every rank moves a group of its own. The weights descend on Σ_r L_r/R, with L_r the mean loss of the group of
  rank r of R: the step of one process that averages the gradients of R groups.
- "shared": the ranks hold parts of one group, m_r of its m samples. The structure holds across ranks (`_ranks`),
  and the weights descend on Σ_r (m_r/m)·L_r: the step of one process on the whole group.

Either way the gradients are summed in one exchange, and weights, λ and the optimizer's state are equal on all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Generator, Tensor, nn

from gsat import _checks, attacks
from gsat._arrays.chunks import Dealt
from gsat._ranks import ALONE, Ranks, shared
from gsat.defences import Defence, Structured


@dataclass(frozen=True)
class Team:
    """The ranks of a run; by default this process alone, for which nothing below does anything.

    weight: the share of this rank's group in what the weights descend on, 1/R or m_r/m; deals: whether all ranks are
    given the same samples, of which each takes its own
    """

    ranks: Ranks = ALONE
    form: str = "own"
    weight: float = 1.0
    deals: bool = True

    @property
    def is_first(self) -> bool:
        """Whether this rank writes and prints."""
        return self.ranks.rank == 0

    def dealt(self, values: Any) -> Any:
        """Of samples, labels or batches those of this rank: the rows r, r + R, ..."""
        return values if self.ranks.alone or not self.deals else Dealt(values, self.ranks.rank, self.ranks.world)

    def generator(self, given: Generator) -> Generator:
        """That of this rank, which draws other rows than those of the others; the given one for a single process."""
        if self.ranks.alone:
            return given
        seed = self.ranks.first(int(torch.randint(2**62, (1,), generator=given)))
        return Generator().manual_seed(seed + self.ranks.rank)

    def together(self) -> AbstractContextManager[None]:
        """A block in which sums over samples go over the groups of all ranks: what λ follows."""
        return nullcontext() if self.ranks.alone else shared(self.ranks)

    def one_group(self, defence: Defence) -> AbstractContextManager[None]:
        """A block in which sums over samples go over one group: with "shared" that of all ranks.

        Samples that an attack moves share nothing (PGD, FGM): there each rank moves its own.
        """
        alone = isinstance(defence, Structured) and not isinstance(defence.attack, attacks.Structured)
        return nullcontext() if self.form == "own" or alone else self.together()

    def mean(self, value: float) -> float:
        """Σ_r weight_r·value_r."""
        return value if self.ranks.alone else self.ranks.sums(self.weight * value)[0]

    def most(self, number: int) -> int:
        """The largest of the ranks' numbers."""
        return int(self.ranks.most(torch.tensor(float(number), device=self.ranks.device)))

    def wait(self) -> None:
        """Until all ranks are here."""
        self.ranks.any(False)

    def mean_measure(self, value: float | None) -> float | None:
        """The mean over ranks; None where the structure has no such number."""
        return None if value is None else self.mean(value)

    def average(self, model: nn.Module) -> None:
        """Put Σ_r weight_r·gradient_r in place of each gradient, and the mean over ranks for BatchNorm's statistics.

        All are sent as one vector. Where a weight has a gradient on no rank, it has none afterwards.
        """
        if self.ranks.alone:
            return
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        used = torch.tensor([float(weight.grad is not None) for weight in weights])
        for weight in weights:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
        gradients, statistics = [cast(Tensor, weight.grad) for weight in weights], list(_statistics(model))
        shares = [one * self.weight for one in gradients] + [one / self.ranks.world for one in statistics]
        with torch.no_grad():  # in place: a gradient keeps the layout of its weight in memory
            for place, whole in zip([*gradients, *statistics, used], self._summed([*shares, used]), strict=True):
                place.copy_(whole)
        for weight, count in zip(weights, used.tolist(), strict=True):
            weight.grad = weight.grad if count else None

    def _summed(self, parts: list[Tensor]) -> list[Tensor]:
        """The sums over ranks of these tensors, sent as one vector in the widest of their dtypes."""
        dtype, device = torch.float32, parts[0].device
        for part in parts:
            dtype = torch.promote_types(dtype, part.dtype)
        sent = self.ranks.summed(torch.cat([part.reshape(-1).to(device, dtype) for part in parts]))
        pieces = torch.split(sent, [part.numel() for part in parts])
        return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]

    def equal(self, model: nn.Module, defence: Defence) -> None:
        """Give all ranks the weights and buffers of rank 0, and for one group over all ranks its defence's state."""
        if self.ranks.alone:
            return
        for value in model.state_dict().values():
            self.ranks.copy_first(value)
        if self.form == "shared":
            defence.load_state_dict(self.ranks.first(defence.state_dict()))

    def describe(self, samples: Any) -> dict[str, Any]:
        """What must be the same for a checkpoint to fit; `samples` describes those of this rank."""
        if self.ranks.alone:
            return {}
        return {"ranks": self.ranks.world, "group": self.form, "rank_samples": self.ranks.gathered(samples)}


def _statistics(model: nn.Module) -> Iterator[Tensor]:
    """The running means and variances of normalisation layers."""
    for module in model.modules():
        for name in ("running_mean", "running_var"):
            value = getattr(module, name, None)
            if isinstance(value, Tensor) and isinstance(module, nn.modules.batchnorm._NormBase):
                yield value


def team_of(ranks: Ranks, form: str, group_size: int, n: int, defence: Defence, *, deal: bool) -> tuple[Team, int]:
    """The team of a run, and the size of the groups of this rank.

    n: the samples that this rank is given; deal: whether all ranks are given the same, of which each takes its share
    """
    _checks.one_of("group", form, ("own", "shared"))
    if form == "shared" and not defence.spans_ranks:
        raise ValueError(
            f'group="shared" needs a defence that moves a group on several ranks as one (gsat.defences.GSAT, PGD, FGM, '
            f"UniversalAT, ERM, Structured with an attack of gsat.attacks), got {defence.name}; with "
            'group="own" any will do'
        )
    if ranks.alone:
        return Team(), min(group_size, n)
    counts = [int(count) for count in ranks.gathered(n)]
    if deal and len(set(counts)) > 1:
        raise ValueError(
            f"X must be the same on all ranks, which share it out, got {counts} samples; deal=False lets each rank "
            "train on those that it is given"
        )
    rows = [len(Dealt(range(n), rank, ranks.world)) for rank in range(ranks.world)] if deal else counts
    if min(rows) == 0:
        raise ValueError(f"every rank needs at least one sample, got {rows}")
    if form == "own":
        return Team(ranks, form, 1 / ranks.world, deal), min(group_size, rows[ranks.rank])
    if group_size < ranks.world:
        raise ValueError(f"group_size must be at least the number of ranks ({ranks.world}), got {group_size}")
    sizes = [min(len(Dealt(range(group_size), rank, ranks.world)), rows[rank]) for rank in range(ranks.world)]
    return Team(ranks, form, sizes[ranks.rank] / sum(sizes), deal), sizes[ranks.rank]
