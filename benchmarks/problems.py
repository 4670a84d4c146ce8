"""Synthetic groups in the shapes of the paper's data, models that have learnt them a little, and training runs."""

import math
import statistics
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, interpolate

import gsat
from gsat.defences import GSAT, Defence
from gsat.models import layout
from gsat.registry import structure_cost
from gsat.training.budget import Control, control_for
from gsat.training.groups import draw
from gsat.training.loop import iterate
from gsat.training.state import Run, adam
from timing import Job

CLASSES, BUDGET, N_INNER = 10, 0.05, 20
LEARNT, MOST_LESSONS = 0.5, 100
STRUCTURES = ("universal", "group-sparse", "low-rank", "unstructured")


class Opaque(nn.Module):
    """The same function in a shape that no short-cut recognises."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


@dataclass(frozen=True, eq=False)
class Problem:
    """A model, the samples it was trained on, the size of a group, and the learning rate."""

    name: str
    model: nn.Module
    X: Tensor
    y: Tensor
    m: int
    eta0: float

    @cached_property
    def eps(self) -> float:
        """The norm bound of the baselines."""
        return BUDGET * gsat.mean_norm(self.X)

    def fresh(self, *, plain: bool = False) -> nn.Module:
        """A copy of the model, in train mode; with `plain` one that takes no short-cut."""
        model = deepcopy(self.model).train()
        return Opaque(model) if plain else model

    def as_given(self) -> "Problem":
        """The same with a model that gets images in the layout in which they come."""
        model = deepcopy(self.model)
        model.channels_last = False
        return replace(self, model=model)

    def groups(self, seed: int = 0) -> "Groups":
        """The groups that a run with this seed draws."""
        return Groups(self, Generator().manual_seed(seed))

    def run(self, defence: Defence, *, plain: bool = False, control: Control | None = None, m: int = 0) -> Run:
        """What `gsat.gdadmm` sets up for this model, these samples and lam="auto"; `control` goes on with its λ."""
        model = self.fresh(plain=plain)
        return Run(
            model=model,
            X=self.X,
            y=self.y,
            defence=defence,
            n_outer=1000,
            group_size=m or self.m,
            optimizer=adam(model, self.eta0),
            control=replace(control) if control else control_for(defence, self.X, "auto", BUDGET, 1000),
        )


class Groups:
    """An endless sequence of groups."""

    def __init__(self, problem: Problem, generator: Generator) -> None:
        self.problem, self.generator = problem, generator

    def next(self) -> tuple[Tensor, Tensor]:
        rows = draw(len(self.problem.X), self.problem.m, self.generator)
        return self.problem.X[rows], self.problem.y[rows]


def alexnet(name: str, shape: tuple[int, int, int], m: int = 200, width: float = 0.25) -> Problem:
    """Images in [0, 1], a smooth pattern for each class and smooth noise; the AlexNet."""
    generator = Generator().manual_seed(0)
    y = torch.arange(2 * m) % CLASSES
    patterns, noise = _smooth(CLASSES, shape, generator), _smooth(len(y), shape, generator)
    X = (0.5 + 0.2 * patterns[y] + 0.2 * noise).clamp(0, 1)
    model = gsat.models.build("alexnet", shape, CLASSES, seed=0, width=width)
    return _taught(Problem(f"AlexNet, {name} shape", model, X, y, m, eta0=1e-4))


def elu(d: int, m: int = 200, n: int | None = None) -> Problem:
    """Standardised features of which few tell the classes apart well and many a little; the ELU net, 100 units."""
    generator = Generator().manual_seed(0)
    y = torch.arange(2 * m if n is None else n) % CLASSES
    weight = torch.empty(d).exponential_(generator=generator)
    means = torch.randn(CLASSES, d, generator=generator).mul_(0.1 * weight)
    X = torch.randn(len(y), d, generator=generator).add_(means[y])
    model = gsat.models.build("elu", (d,), CLASSES, seed=0)
    return _taught(Problem(f"ELU net, d = {d:,}", model, X, y, m, eta0=0.1 / d))


def gsat_of(structure: str, m: int, *, tol: float | None = 0.0, n_inner: int = N_INNER) -> GSAT:
    """The defence with n_inner gradients, whatever they gain; with tol=None as training has it by default."""
    solver = "proximal" if tol is None else gsat.Proximal(tol=tol)
    return GSAT(structure_cost(structure, group_size=m), solver=solver, n_inner=n_inner)


def of_columns(share: float, d: int) -> GSAT:
    """Group-sparse with 20 gradients, where that share of the d columns moves: by their number, or all by a small α."""
    cost = structure_cost("group-sparse", k=round(share * d)) if share < 1 else gsat.GroupSparse(1e-4)
    return GSAT(cost, solver=gsat.Proximal(), n_inner=N_INNER)


def settled(problem: Problem, structure: str, *, steps: int, m: int) -> tuple[Problem, Control]:
    """Model and λ after some steps of training; in the units of lam="auto" λ does not depend on the size of a group."""
    m = min(m, problem.m)
    run = problem.run(gsat_of(structure, m, tol=None), m=m)
    for _ in range(steps):
        iterate(run)
    return replace(problem, model=run.model), run.control


class Iteration:
    """One iteration of training, as a job: draw, perturb, descend, and record what happened."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.gradients: list[int] = []
        self.measures: list[float] = []

    def __call__(self) -> None:
        step = iterate(self.run)
        last = self.run.defence.solution if isinstance(self.run.defence, GSAT) else None
        self.gradients += [last.n_gradients] if last else []
        self.measures += [step.measure] if step.measure is not None else []

    @property
    def note(self) -> str:
        """Gradients a group, and columns that move or rank: the median, and the range where there is one."""
        kinds = {"gradients": self.gradients, "columns or rank": self.measures}
        return ", ".join(f"{_spread(found)} {kind}" for kind, found in kinds.items() if found)


def input_gradients(problem: Problem, n: int, model: nn.Module | None = None) -> Job:
    """`n` bare gradients in the input: nothing else can be done for less in that many gradients."""
    model, groups = (model or problem.fresh()).requires_grad_(False), problem.groups()

    def job() -> None:
        x, y = groups.next()
        for _ in range(n):
            point = x.detach().requires_grad_()
            torch.autograd.grad(cross_entropy(layout.outputs(model, point), y, reduction="sum"), point)

    return job


def floor(problem: Problem, n: int = N_INNER) -> Job:
    """`n` bare gradients in the input and one in the weights."""
    model, groups, inner = problem.fresh(), problem.groups(), input_gradients(problem, n)

    def job() -> None:
        inner()
        x, y = groups.next()
        model.zero_grad()
        cross_entropy(layout.outputs(model, x), y).backward()

    return job


def _spread(found: Sequence[float]) -> str:
    middle = f"{statistics.median(found):g}"
    return middle if min(found) == max(found) else f"{middle} ({min(found):g} to {max(found):g})"


def _smooth(n: int, shape: tuple[int, int, int], generator: Generator) -> Tensor:
    coarse = torch.randn(n, shape[0], *(math.ceil(side / 4) for side in shape[1:]), generator=generator)
    return interpolate(coarse, size=shape[1:], mode="bilinear")


def _taught(problem: Problem) -> Problem:
    """The model in the middle of its training: where it errs never or always, no adversary has anything to do."""
    model, groups = problem.model, replace(problem, m=min(50, problem.m)).groups()
    optimizer = torch.optim.Adam(model.parameters(), lr=10 * problem.eta0)
    for _ in range(MOST_LESSONS):
        x, y = groups.next()
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        if loss.item() < LEARNT:
            break
        loss.backward()
        optimizer.step()
    return problem
