"""Training loops of users on the ranks of a process group, for test_adversary_ranks.py."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import gsat
from gsat import attacks, defences
from gsat.models import seeded
from gsat.solvers import Proximal

D, CLASSES = 10, 3


def part(rank: int, m: int = 17) -> tuple[Tensor, Tensor]:
    """The samples of a rank; those of rank 1 are easier."""
    generator = Generator().manual_seed(rank)
    y = torch.randint(CLASSES, (m + rank,), generator=generator)
    x = torch.randn(m + rank, D, generator=generator, dtype=torch.float64)
    return x + (2 + 3 * rank) * nn.functional.one_hot(y, D), y


def net(*, norm: bool = False) -> nn.Sequential:
    with seeded(1):
        return nn.Sequential(
            nn.Linear(D, 6), nn.BatchNorm1d(6) if norm else nn.Identity(), nn.ELU(), nn.Linear(6, CLASSES)
        ).double()


def loop(adversary: gsat.Adversary, steps: int = 12) -> dict[str, Any]:
    """A loop of DistributedDataParallel with BatchNorm; how many gradients the adversary took, and the weights."""
    model = DistributedDataParallel(net(norm=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = part(dist.get_rank())
    gradients = []
    for _ in range(steps):
        x_adv = adversary(model, x, y)
        gradients.append(adversary.last.n_gradients if adversary.last else 0)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x_adv), y).backward()
        optimizer.step()
    weights = torch.cat([value.detach().reshape(-1) for value in model.parameters()])
    return {"gradients": gradients, "weights": weights}


def trained(*, wrapped: bool) -> list[float]:
    """The losses of a run of gdadmm on a model with BatchNorm."""
    model = net(norm=True)
    defence = defences.GSAT(gsat.LowRank(), n_inner=4)
    given = DistributedDataParallel(model) if wrapped else model
    history = gsat.gdadmm(given, *part(0, 40), defence, n_outer=5, group_size=10, eta0=1e-2, group="shared")
    return [step.loss for step in history]


def perturbation(cost: Any, batch: list[str] | None = None) -> Tensor:
    """Δ of this rank's part of a group that all ranks share."""
    x, y = part(dist.get_rank())
    mine = None if batch is None else batch[: len(x)] if dist.get_rank() == 0 else batch[-len(x) :]
    adversary = gsat.Adversary(cost, lam=0.05, group="shared")
    return adversary(net(), x, y, mine) - x


def loops(costs: list[Any], batch: list[str]) -> dict[str, Any]:
    """Everything that is looked at, in one process group."""
    model, (x, y) = DistributedDataParallel(net(norm=True)), part(dist.get_rank())
    attack = attacks.LowRank(0.5, rank=2, steps=5 + 10 * dist.get_rank())
    return {
        "own": loop(gsat.Adversary(gsat.LowRank(), lam=0.3, solver=Proximal(tol=1e-3))),
        "shared": loop(gsat.Adversary(gsat.LowRank(), lam=0.3, solver=Proximal(tol=1e-3), group="shared")),
        "runs": [trained(wrapped=wrapped) for wrapped in (False, True)],
        "attack": float(attack(model, x, y).norm(dim=1).max()),
        "table": len(gsat.evaluate(model, x, y, [attack])),
        "deltas": [perturbation(cost, batch) for cost in costs],
    }
