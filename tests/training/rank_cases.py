"""What test_parallel.py runs on several ranks, and the same steps in one process."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn

import gsat
from gsat import defences
from gsat.attacks import Attack
from gsat.models import seeded
from gsat.training.budget import control_for
from gsat.training.groups import draw
from gsat.training.loop import gdadmm, iterate
from gsat.training.state import Run

Outcome = tuple[Tensor, float | None, float]  # the weights, λ and the mean ‖δ_i‖ over the last steps
N, D, CLASSES, STEPS, GROUP = 131, 12, 3, 20, 41  # neither divides by 2 or 4


class Plain(nn.Module):
    """A network of which it is not known that it begins with a linear layer."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


@dataclass(frozen=True)
class Case:
    """One training run, against the adversary of a cost or against an attack; float64."""

    cost: Any
    solver: Any = "proximal"
    n_inner: int = 3
    plain: bool = False
    metric: bool = False
    lam: Any = 0.3
    group: str = "shared"
    batches: bool = False

    def model(self) -> nn.Module:
        with seeded(1):
            net = nn.Sequential(nn.Linear(D, 7), nn.ELU(), nn.Linear(7, CLASSES)).double()
        return Plain(net) if self.plain else net

    def defence(self) -> Any:
        if isinstance(self.cost, Attack):
            return defences.Structured(self.cost)
        metric = gsat.Metric.from_batches(samples()[0], samples()[1]) if self.metric else None
        return defences.GSAT(self.cost, solver=self.solver, n_inner=self.n_inner, metric=metric)


def samples() -> tuple[Tensor, Tensor, list[str]]:
    """Shifted classes; the batches are of unequal sizes, and one of them is not on every rank."""
    generator = Generator().manual_seed(0)
    y = torch.randint(CLASSES, (N,), generator=generator)
    X = torch.randn(N, D, generator=generator, dtype=torch.float64) * (1 + torch.arange(D) / 4)
    X[:, :CLASSES] += 2 * nn.functional.one_hot(y, CLASSES)
    return X, y, ["rare" if i % 40 == 4 else "ab"[i % 7 < 3] for i in range(N)]


def weights(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().reshape(-1) for value in model.parameters()])


def trained(case: Case) -> Outcome:
    """What the run on the ranks of this process group ends with."""
    X, y, batch = samples()
    if dist.get_rank() > 0:
        with torch.no_grad():
            weights(model := case.model())  # other weights than those of rank 0, which all get
            for value in model.parameters():
                value.add_(1.0)
    else:
        model = case.model()
    history = gdadmm(
        model,
        X,
        y,
        case.defence(),
        n_outer=STEPS,
        group_size=GROUP,
        eta0=1e-2,
        lam=case.lam,
        group=case.group,
        batch=batch if case.batches else None,
        generator=Generator().manual_seed(5),
    )
    return weights(model), history.lam, history.mean_norm


def all_trained(cases: list[Case]) -> list[Outcome]:
    return [trained(case) for case in cases]


class Whole(Run):
    """A run of one process whose groups are those of all ranks, one after the other."""

    draws: list[Callable[[], Tensor]]

    def group(self) -> tuple[Tensor, Tensor, Any]:
        rows = torch.cat([draw_rows() for draw_rows in self.draws])
        return self.X[rows], self.y[rows], None if self.batch is None else [self.batch[i] for i in rows]


def draws(case: Case, world: int) -> Iterator[Callable[[], Tensor]]:
    """What each rank draws, as row numbers."""
    seed = int(torch.randint(2**62, (1,), generator=Generator().manual_seed(5)))
    for rank in range(world):
        own, generator = torch.arange(rank, N, world), Generator().manual_seed(seed + rank)
        size = len(range(rank, GROUP, world)) if case.group == "shared" else min(GROUP, len(own))
        yield lambda own=own, size=size, generator=generator: own[draw(len(own), size, generator)]


def expected(case: Case, world: int) -> Outcome:
    """What one process ends with after the same steps."""
    X, y, batch = samples()
    model, defence = case.model(), case.defence()
    run = Whole(model, X, y, defence, STEPS, GROUP, torch.optim.Adam(model.parameters(), lr=1e-2))
    run.control, run.draws = control_for(defence, X, case.lam, 0.05, STEPS), list(draws(case, world))
    run.batch = batch if case.batches else None
    model.train()
    if case.group == "shared":
        for _ in range(STEPS):
            iterate(run)
    else:
        _averaging(run, [deepcopy(defence) for _ in range(world)])
    mean_norm, lam = run.control.averages([])
    return weights(model), lam, mean_norm


def _averaging(run: Whole, own: list[Any]) -> None:
    """One process that averages the gradients of the groups of all ranks."""
    for t in range(STEPS):
        groups = [rows() for rows in run.draws]
        x, y = run.X[torch.cat(groups)], run.y[torch.cat(groups)]
        run.optimizer.zero_grad()
        run.control.price(run.defence, run.model, x, y)
        for rows, defence in zip(groups, own, strict=True):
            run.control.price(defence, run.model, x, y)
            batch = None if run.batch is None else [run.batch[i] for i in rows]
            moved = defence(run.model, run.X[rows], run.y[rows], batch)
            (defence.objective(run.model, moved, run.y[rows], run.loss, batch) / len(own)).backward()
        run.optimizer.step()
        run.control.update(t, torch.cat([defence.norms for defence in own]), y)
