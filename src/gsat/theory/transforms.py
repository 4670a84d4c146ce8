"""The c_m-transforms max_Δ S(Δ)/m of a model's loss on groups of data, from above wherever S is known to be concave."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsat import _checks
from gsat._arrays.chunks import at_a_time, take, take_labels
from gsat._arrays.norms import norm, rows, total
from gsat.attacks import Attack
from gsat.costs import GroupCost, Penalised, PerBatch, Unstructured, bound
from gsat.losses import SampleLoss
from gsat.models import layout
from gsat.solvers import maximise
from gsat.solvers.base import start
from gsat.solvers.oracle import Loss, Oracle
from gsat.theory.dual import concave_maximum
from gsat.theory.unchanged import plain_cost

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Maxima:
    """What was found for each group: arrays (n_groups,), all of them divided by m.

    values: of the transform, from above where S is known to be concave, else what the solver reached
    gaps:   what was added for that to the value at Δ; clean, moved: the loss at 0 and at Δ; costs: c(Δ)
    """

    values: Array
    gaps: Array
    clean: Array
    moved: Array
    costs: Array


@dataclass(frozen=True, eq=False)
class Transforms:
    """max_Δ (1/m)(Σ_i ℓ(x_i + δ_i) − λ·c(Δ)) for groups of the samples X, y, in float64 and eval mode.

    beta: bound of the largest eigenvalue of ∇²ℓ in x, None where it is not known
    """

    model: nn.Module
    X: Any
    y: Any
    cost: GroupCost | PerBatch
    loss: SampleLoss
    beta: float | None
    n_inner: int
    feature_mask: Any
    batch: Tensor | None

    @classmethod
    def of(
        cls,
        model: nn.Module,
        X: Any,
        y: Any,
        cost: GroupCost | PerBatch,
        *,
        loss: SampleLoss,
        beta: float | None,
        n_inner: int,
        feature_mask: Any = None,
        batch: Any = None,
    ) -> Transforms:
        """The problem, its inputs checked, on a copy of the model.

        β is of no use with a cost that is not convex, or that is not one of gsat's: a subclass may say one thing by its
        value and another by its prox.
        """
        if len(X) == 0 or len(y) != len(X):
            raise ValueError(f"y must have one label per sample of X ({len(X)}, at least 1), got {len(y)}")
        one = cost.cost if isinstance(cost, PerBatch) else cost
        if not isinstance(one, Penalised) or one.ridge == 0:
            raise ValueError(f"cost must have a quadratic term, got {cost!r}; take a cost of gsat with alpha < 1")
        if isinstance(cost, PerBatch) and batch is None:
            raise ValueError(f"{cost!r} needs batch= (one id per sample); or take the cost of one batch, {one!r}")
        codes = None if batch is None else _checks.batch_codes(batch, len(X))
        known = beta if one.convex and plain_cost(cost) else None
        n_inner = _checks.count("n_inner", n_inner, least=2)
        copy = deepcopy(model).double().eval().requires_grad_(False)
        return cls(copy, X, y, cost, loss, known, n_inner, feature_mask, codes)

    @property
    def ridge(self) -> float:
        """The weight of ‖Δ‖²_F in the cost."""
        return cast(Penalised, self.cost.cost if isinstance(self.cost, PerBatch) else self.cost).ridge

    def modulus(self, lam: float) -> float:
        """How concave S is known to be at this price: 2λ·ridge − β, rigorous where it is positive."""
        return -math.inf if self.beta is None else 2 * lam * self.ridge - self.beta

    @cached_property
    def at_rest(self) -> tuple[Array, Array]:
        """ℓ(x_i) and ‖∇ℓ(x_i)‖² for every sample."""
        losses, squares = [], []
        for oracle in self._everybody():
            point = start(oracle)
            losses.append(point.losses)
            squares.append(norm(rows(point.gradient), dim=1).square())
        return _array(losses), _array(squares)

    def ceilings(self, lam: float) -> Array:
        """max_δ ℓ(x_i + δ) − λ·ridge·‖δ‖² for every sample, from above: their mean over a group is above its transform.

        Structure only makes moving dearer: c(Δ) ≥ ridge·‖Δ‖²_F.
        """
        price, modulus, found = lam * self.ridge, self.modulus(lam), []
        for oracle in self._everybody():
            top = concave_maximum(oracle, Unstructured(), lam=price, modulus=modulus, n_inner=self.n_inner)
            found.append(top.losses - price * norm(rows(top.delta), dim=1).square() + top.gaps(modulus))
        return _array(found)

    def maxima(self, lam: float, groups: Tensor) -> Maxima:
        """The transforms of the groups (n_groups, m), whose samples are given by their numbers."""
        found = np.array([self._maximum(lam, group) for group in groups])
        return Maxima(*(found.T / groups.shape[1]))

    def attacked(self, attack: Attack, groups: Tensor) -> Maxima:
        """The groups under an attack; it has no value of the transform, and c = inf where it moves what it may not."""
        found = []
        for group in groups:
            x, y, loss = self._samples(group)
            delta = attack.perturb(self.model, x, y, None if self.batch is None else self.batch[group])
            mask = _checks.feature_mask(self.feature_mask, x)
            allowed = mask is None or not bool(delta.abs().masked_fill(mask, 0).any())
            paid = float(self._cost(group).value(delta)) if allowed else math.inf
            found.append((math.nan, math.nan, float(total(loss(x))), float(total(loss(x + delta))), paid))
        return Maxima(*(np.array(found).T / groups.shape[1]))

    def _maximum(self, lam: float, group: Tensor) -> tuple[float, ...]:
        """The entries of `Maxima` for one group, not yet divided by m."""
        x, _, loss = self._samples(group)
        cost, modulus = self._cost(group), self.modulus(lam)
        if modulus > 0:
            top = concave_maximum(self._oracle(group), cost, lam=lam, modulus=modulus, n_inner=self.n_inner)
            delta, gap = top.delta, top.gap(modulus)
        else:
            delta = maximise(loss, x, cost, lam=lam, n_inner=self.n_inner, feature_mask=self.feature_mask).delta
            gap = 0.0
        clean, moved, paid = float(total(loss(x))), float(total(loss(x + delta))), float(cost.value(delta))
        return moved - lam * paid + gap, gap, clean, moved, paid

    def _cost(self, group: Tensor) -> Penalised:
        return bound(self.cost, len(group), None if self.batch is None else self.batch[group])

    def _samples(self, chosen: Tensor) -> tuple[Tensor, Tensor, Loss]:
        """These samples, their labels, and the loss of each as a function of where it is."""
        like = next(self.model.parameters(), torch.zeros((), dtype=torch.float64))
        x, y = take(self.X, chosen).to(like), take_labels(self.y, chosen).to(like.device)
        return x, y, lambda z: self.loss(layout.outputs(self.model, z), y)

    def _oracle(self, chosen: Tensor) -> Oracle:
        x, _, loss = self._samples(chosen)
        return Oracle(loss, x, _checks.feature_mask(self.feature_mask, x))

    def _everybody(self) -> Iterator[Oracle]:
        step = at_a_time(math.prod(self.X.shape[1:]))
        for part in torch.split(torch.arange(len(self.X)), step):
            yield self._oracle(part)


def _array(parts: list[Tensor]) -> Array:
    return torch.cat(parts).double().cpu().numpy()
