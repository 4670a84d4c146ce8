"""Iterated elimination: what the group-sparse adversary spends its effort on, among ever fewer features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from gsat._arrays.norms import mean_norm
from gsat._arrays.standardise import Standardised, mean_and_scale
from gsat.costs import GroupSparse
from gsat.data.rows import StoredRows
from gsat.defences import GSAT
from gsat.models import ELUNet, seeded
from gsat.training import Step, gdadmm

SMALL = 0.1  # the first weights, in units of the usual ones: a feature must earn its effort
MOMENTUM = 0.9
BUMP_MEAN, BUMP_SCALE = 0.5**0.5, (3**-0.5 - 0.5) ** 0.5  # of exp(−x²/2) for a standard normal x


def n_rounds(n_blocks: int, k: int) -> int:
    """How many rounds there are, the last of them with 2k blocks or fewer."""
    return 1 if n_blocks <= 2 * k else 1 + n_rounds(_half(n_blocks, k), k)


def _half(n_blocks: int, k: int) -> int:
    return max(n_blocks // 2, 2 * k)


@dataclass(frozen=True)
class Elimination:
    """Rounds of training against the group-sparse adversary, each with half of the blocks of the one before.

    A block's effort is the norm of its columns of Δ over the last n_groups groups of a round, times its weight. The
    half with more effort goes on, until 2k are left, and the next network sees each block times the square root of
    its effort. The adversary moves what the network sees, at one price: a block of little weight is cheap to move far,
    so that the network gives it up. This is how reweighted ridge regression becomes sparse.

    Parameters
    ----------
    budget, alpha, n_inner, group_size, hidden
        As in `GSATClassifier`.
    n_outer, n_groups
        Groups in a round, and those at its end in which the effort is counted.
    eta0
        The learning rate, in units of 1/E‖x‖²; plain gradient descent, since Adam's steps are as long for a feature
        without an effect as for any other.
    curved
        The network also sees exp(−x²/2) of every feature, without which effects that have no slope, as that of
        (x − mean)², are found late or never.
    """

    budget: float
    alpha: float
    n_inner: int
    n_outer: int
    n_groups: int
    group_size: int
    hidden: int
    eta0: float
    curved: bool

    def shares(
        self,
        X: Any,
        y: NDArray[np.int64],
        blocks: NDArray[np.int64],
        k: int,
        seed: int,
        after_round: Callable[[], object] = lambda: None,
    ) -> NDArray[np.float64]:
        """Each block's share of the effort: the mean over the rounds, each counting twice the last.

        Parameters
        ----------
        X, y
            Samples (n, features), dense, sparse or `StoredRows`, and the numbers of their classes (n,).
        blocks
            The number of each feature's block, (features,).
        k
            Blocks to be kept; the last round has 2k or fewer.
        seed
            Of weights and groups.
        after_round
            Called after each round.

        Returns
        -------
        array
            Shares (n_blocks,), which sum to 1.
        """
        samples = Standardised(X, *mean_and_scale(X))
        n_blocks = int(blocks.max()) + 1
        alive, weight, total = np.arange(n_blocks), np.ones(n_blocks), np.zeros(n_blocks)
        n_done = 0
        while True:
            effort = self._effort(samples, y, blocks, alive, weight, seed + n_done) * weight[alive]
            total /= 2
            total[alive] += effort / (effort.sum() or 1.0)
            n_done += 1
            after_round()
            if len(alive) <= 2 * k:
                return total / (total.sum() or 1.0)
            weight[alive] = np.sqrt(effort / (effort.max() or 1.0) + 1e-12)
            most = np.argsort(-effort, kind="stable")[: _half(len(alive), k)]
            alive = np.sort(alive[most])

    def _effort(
        self,
        samples: Standardised,
        y: NDArray[np.int64],
        blocks: NDArray[np.int64],
        alive: NDArray[np.int64],
        weight: NDArray[np.float64],
        seed: int,
    ) -> NDArray[np.float64]:
        """The norm of what the adversary of one round does to each block that is alive."""
        columns = np.flatnonzero(np.isin(blocks, alive))
        own = np.searchsorted(alive, blocks[columns])
        scale = weight[blocks[columns]]
        rows = _Weighted(samples, columns, (scale / np.sqrt(np.mean(scale**2))).astype(np.float32))
        with seeded(seed):
            model = self._network(rows.weight, int(y.max()) + 1)
        groups = None if len(columns) == len(alive) else own.tolist()
        defence = GSAT(GroupSparse(self.alpha, feature_groups=groups), solver="linearised", n_inner=self.n_inner)
        square = np.zeros(len(columns))

        def listen(step: Step, _: nn.Module) -> None:
            if step.t >= self.n_outer - self.n_groups and defence.delta is not None:
                np.add(square, defence.delta.double().square().sum(0).numpy(), out=square)

        gdadmm(
            model,
            rows,
            y,
            defence,
            n_outer=self.n_outer,
            group_size=self.group_size,
            optimizer=torch.optim.SGD(model.parameters(), lr=self.eta0 / (rows.mean_norm**2 or 1.0), momentum=MOMENTUM),
            budget=self.budget,
            generator=Generator().manual_seed(seed),
            callbacks=(listen,),
        )
        return np.sqrt(np.bincount(own, square, minlength=len(alive)))

    def _network(self, weight: NDArray[np.float32], n_classes: int) -> nn.Module:
        """An ELU net on the weighted features, and on their bumps."""
        net = ELUNet(len(weight) * (2 if self.curved else 1), n_classes, self.hidden)
        with torch.no_grad():
            net[1].weight.mul_(SMALL)  # type: ignore[operator]
        return nn.Sequential(_Bumps(weight), net) if self.curved else net


def bump(x: Tensor) -> Tensor:
    """exp(−x²/2) in standard units, for standardised x: an even function that outliers do not upset."""
    curved: Tensor = (torch.exp(-0.5 * x.square()) - BUMP_MEAN) / BUMP_SCALE
    return curved


class _Bumps(nn.Module):
    """w·x to (w·x, w·bump(x))."""

    weight: Tensor

    def __init__(self, weight: NDArray[np.float32]) -> None:
        super().__init__()
        self.register_buffer("weight", torch.from_numpy(weight))

    def forward(self, weighted: Tensor) -> Tensor:
        """(m, d) to (m, 2d)."""
        return torch.cat([weighted, bump(weighted / self.weight) * self.weight], dim=1)


class _Weighted:
    """Some columns of standardised samples, times their weights; made when they are asked for."""

    def __init__(self, samples: Standardised, columns: NDArray[np.int64], weight: NDArray[np.float32]) -> None:
        if isinstance(samples.X, StoredRows):  # no more columns become dense than are asked for
            X = samples.X.with_columns(columns)
            samples = Standardised(X, samples.mean[columns], samples.scale[columns])
            columns = np.arange(len(columns))
        self.samples, self.columns, self.weight = samples, columns, weight
        self.shape = (len(samples), len(columns))
        self.mean_norm = mean_norm(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        return np.asarray(self.samples[rows][:, self.columns] * self.weight)
