"""One structure per batch: costs add up over the batches of a group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch import Generator, Tensor

from gsat import _checks
from gsat._arrays.norms import largest, rows
from gsat._ranks import sharing
from gsat.costs.base import Bare, GroupCost, Penalised, Wrapping, indicator, penalised


@dataclass(frozen=True)
class PerBatch:
    """The structure holds inside each batch of the group, and costs add up: Σ_b c(Δ_b).

    For `Universal` this is one shift per batch, the paper's universal set of perturbations.

    Parameters
    ----------
    cost : GroupCost
        The cost c of the samples of one batch.
    n_random : int, optional
        Where no batches are given with the group, this many of equal size are drawn at random.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> cost = gsat.PerBatch(gsat.Universal()).bind(["a", "a", "b"])
    >>> cost.prox(torch.tensor([[2.0], [0.0], [5.0]]), 1.0)  # one shift for each batch
    tensor([[0.5000],
            [0.5000],
            [2.5000]])
    """

    cost: GroupCost
    n_random: int | None = None

    def __post_init__(self) -> None:
        if self.n_random is not None:
            object.__setattr__(self, "n_random", _checks.count("n_random", self.n_random, least=1))

    def bind(self, batch: Any) -> Penalised:
        """The cost of a group whose i-th sample belongs to batch[i]."""
        codes = _checks.batch_codes(batch, len(batch) if hasattr(batch, "__len__") else None)
        if (ranks := sharing()).alone:
            return self._bound(codes)
        ids = list(dict.fromkeys(batch.tolist() if hasattr(batch, "tolist") else batch))  # in the order of the codes
        known: dict[Any, int] = {}
        for one in chain(*ranks.gathered(ids)):
            known.setdefault(one, len(known))
        return self._bound(torch.tensor([known[one] for one in ids])[codes], len(known))

    def draw(self, m: int, generator: Generator | None = None) -> Penalised:
        """The cost of a group of m samples with `n_random` random batches (seed 0 where no generator is given)."""
        if self.n_random is None:
            raise ValueError("PerBatch needs batch= (one id per sample) or n_random=, got neither")
        if generator is None:
            generator = torch.Generator().manual_seed(0)
        generator.set_state(sharing().first(generator.get_state()))  # all ranks draw for the whole group ...
        begin, whole = sharing().places(m)  # ... and take their rows
        place = torch.randperm(whole, generator=generator, device=generator.device)[begin : begin + m]
        n_batches = min(self.n_random, whole)
        return self._bound(place % n_batches, n_batches)

    def _bound(self, code: Tensor, n_batches: int = 0) -> Penalised:
        found = BoundPerBatch(penalised(self.cost), code, n_batches)
        return Bare(found) if isinstance(found.cost, Bare) else found


@dataclass(frozen=True, eq=False)
class BoundPerBatch(Wrapping):
    """Σ_b c(Δ_b) for one group; code: (m,), the number 0, 1, ... of each sample's batch. Squares add up.

    n_batches: where batches may have no sample on this rank, how many there are
    """

    cost: Penalised
    code: Tensor
    n_batches: int = 0

    def _structure(self, delta: Tensor) -> Tensor:
        if self.cost.equal_rows:  # there may be a hundred batches, so none is touched alone
            apart, size = (largest(rows(v), dim=1) for v in (delta - self._means(delta), delta))
            return indicator(self._largest(apart), self._largest(size), delta).sum()
        return torch.stack([self.cost._structure(part) for part in self._parts(delta)]).sum()

    def _shrink(self, v: Tensor, tau: float) -> Tensor:
        if self.cost.equal_rows:
            return self._means(v)
        shrunk = torch.cat([self.cost._shrink(part, tau) for part in self._parts(v)])
        return torch.empty_like(shrunk).index_copy_(0, self._order.to(v.device), shrunk)

    def _parts(self, v: Tensor) -> tuple[Tensor, ...]:
        """The rows of each batch."""
        self._check_length(v)
        return torch.split(v[self._order.to(v.device)], self._sizes.tolist())

    def _means(self, v: Tensor) -> Tensor:
        """Every row becomes the mean row of its batch."""
        self._check_length(v)
        code, sizes = self.code.to(v.device), self._whole_sizes.to(v.device)
        sums = rows(v).new_zeros(len(sizes), rows(v).shape[1]).index_add_(0, code, rows(v))
        return sharing().summed(sums).div_(sizes[:, None])[code].view_as(v)

    def _largest(self, v: Tensor) -> Tensor:
        """The largest of the numbers (m,) in each batch."""
        return sharing().most(v.new_zeros(len(self._sizes)).scatter_reduce_(0, self.code.to(v.device), v, "amax"))

    @cached_property
    def _order(self) -> Tensor:
        """Sorts the samples by batch."""
        return torch.argsort(self.code, stable=True)

    @cached_property
    def _sizes(self) -> Tensor:
        """The number of samples of each batch, here."""
        return torch.bincount(self.code, minlength=self.n_batches)

    @cached_property
    def _whole_sizes(self) -> Tensor:
        """The number of samples of each batch, those of all ranks that share the group."""
        return sharing().summed(self._sizes)

    def _check_length(self, v: Tensor) -> None:
        if len(self.code) != len(v):
            raise ValueError(f"batch must have one id per sample ({len(v)}), got {len(self.code)}")


def bound(cost: GroupCost | PerBatch, m: int, batch: Any = None, generator: Generator | None = None) -> Penalised:
    """The cost of one group of m samples: `PerBatch` gets its batches; a bare cost gets what solvers ask for."""
    codes = None if batch is None else _checks.batch_codes(batch, m)
    if not isinstance(cost, PerBatch):
        found = penalised(cost)
    elif codes is None:
        found, cost = cost.draw(m, generator), cost.cost
    else:
        found, cost = cost.bind(codes if sharing().alone else batch), cost.cost  # ranks agree on ids, not on codes
    if sharing().alone:
        return found
    if not found.spans_ranks:
        raise ValueError(
            f'group="shared" needs a cost whose sums go over all ranks (gsat.Universal, GroupSparse, LowRank, '
            f'Unstructured), got {type(cost).__name__}; with group="own" any cost will do'
        )
    return found.of_rows(sharing().places(m)[1])
