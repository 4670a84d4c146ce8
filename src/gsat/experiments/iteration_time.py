"""Seconds per training iteration: GSAT against PGD with the same number of inner gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Generator, Tensor, nn

from gsat import models
from gsat._arrays.norms import mean_norm
from gsat.defences import ERM, GSAT, PGD, Defence
from gsat.estimators.from_table import Plan
from gsat.experiments.plan import Experiment, Outcome, Piece, Place
from gsat.experiments.setting import Scale
from gsat.experiments.timing import Times, alternate
from gsat.registry import structure_cost
from gsat.solvers import Proximal
from gsat.training.budget import control_for
from gsat.training.loop import iterate
from gsat.training.state import Run, adam

CLASSES, BUDGET = 10, 0.05
IMAGES = {"MNIST": (1, 28, 28), "CIFAR-10": (3, 32, 32)}
PAPER = {("MNIST", "group-sparse"): 1.35, ("MNIST", "low-rank"): 1.24}
PAPER |= {("CIFAR-10", "group-sparse"): 1.19, ("CIFAR-10", "low-rank"): 1.65}
WIDTHS = {"quick": (50, 80)}
ALL_WIDTHS = (784, 3_072, 20_531)
ROUNDS = {
    "quick": (1, 1, 1),
    "cpu": (5, 7, 4),
    "overnight": (15, 15, 20),
    "paper": (30, 30, 50),
}  # images, ELU, settling
SECONDS = {"quick": 5.0, "cpu": 150.0, "overnight": 500.0, "paper": 3_000.0}
FULL, TRAINED, ADMM, PLAIN = "", ", as trained", ", ADMM", ", plain path"


class Plain(nn.Module):
    """The same function in a shape that no short-cut recognises."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """What the inner module returns."""
        return self.inner(x)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Bench:
    """A network, the shape of its samples, and the sizes of training."""

    model: str
    shape: tuple[int, ...]
    options: dict[str, Any]
    group_size: int
    n_inner: int
    device: str = "cpu"

    @property
    def samples(self) -> tuple[Tensor, Tensor]:
        """Two groups of samples in [0, 1] or so, whose classes have means of their own."""
        generator = Generator().manual_seed(0)
        y = torch.arange(2 * self.group_size) % CLASSES
        means = torch.randn(CLASSES, *self.shape, generator=generator)
        noise = torch.randn(len(y), *self.shape, generator=generator)
        return 0.5 + 0.2 * means[y] + 0.2 * noise, y

    def run(self, defence: Callable[[float], Defence], *, settling: int, plain: bool = False) -> Run:
        """A training run, as `gsat.gdadmm` sets it up, a little of ERM and some steps of its own into it."""
        X, y = self.samples
        net = models.build(self.model, self.shape, CLASSES, seed=0, **self.options).to(self.device)
        started = self._run(net, ERM(), X, y)
        for _ in range(settling):
            iterate(started)
        run = self._run(Plain(net) if plain else net, defence(BUDGET * mean_norm(X)), X, y)
        for _ in range(settling):
            iterate(run)
        return run

    def _run(self, net: nn.Module, defence: Defence, X: Tensor, y: Tensor) -> Run:
        rate = 1e-3 if self.model == "alexnet" else 0.1 / math.prod(self.shape)
        return Run(
            model=net.train(),
            X=X,
            y=y,
            defence=defence,
            n_outer=1000,
            group_size=self.group_size,
            optimizer=adam(net, rate),
            control=control_for(defence, X, "auto", BUDGET, 1000),
        )


def gsat(structure: str, kind: str, n_inner: int, group_size: int) -> GSAT:
    """GSAT with exactly n_inner gradients, as it is trained (n_inner at most), or with the paper's ADMM."""
    cost = structure_cost(structure, group_size=group_size)
    if kind == TRAINED:
        return GSAT(cost, n_inner=n_inner)
    return GSAT(cost, solver="admm" if kind == ADMM else Proximal(tol=0.0), n_inner=n_inner)


def timed(bench: Bench, rounds: int, settling: int) -> Times:
    """Iterations of PGD and of GSAT in turn."""
    m, n = bench.group_size, bench.n_inner
    runs = {"pgd": bench.run(lambda eps: PGD(eps, steps=n), settling=settling)}
    for structure in ("group-sparse", "low-rank"):
        for kind in (FULL, TRAINED, ADMM):
            runs[structure + kind] = bench.run(
                lambda eps, structure=structure, kind=kind: gsat(structure, kind, n, m),  # type: ignore[misc]
                settling=settling,
            )
    if bench.model == "elu":
        runs["pgd" + PLAIN] = bench.run(lambda eps: PGD(eps, steps=n), settling=settling, plain=True)
    alone = bench.device == "cpu" and torch.get_num_threads() == 1
    return alternate({name: _iteration(run) for name, run in runs.items()}, rounds, clock="cpu" if alone else "wall")


def _iteration(run: Run) -> Callable[[], object]:
    return lambda: iterate(run)


def measure(place: Place, plan: Plan, widths: list[int], rounds: list[int]) -> pd.DataFrame:
    """Every iteration of every round: a row each, with the seconds."""
    device = "cuda" if plan.device == "auto" and torch.cuda.is_available() else "cpu"
    sizes = (plan.group_size, plan.inner, device)
    benches = {name: Bench("alexnet", shape, plan.options, *sizes) for name, shape in IMAGES.items()}
    benches |= {f"ELU net, d = {d:,}": Bench("elu", (d,), {}, *sizes) for d in widths}
    images, vectors, settling = rounds
    rows = []
    for name, bench in benches.items():
        times = timed(bench, images if bench.model == "alexnet" else vectors, settling)
        for defence, seconds in times.seconds.items():
            for seed, took in enumerate(seconds):
                rows.append({"what": name, "defence": defence, "seed": seed, "seconds": took})
    return pd.DataFrame(rows).assign(threads=torch.get_num_threads())


def pieces(scale: Scale, seeds: int | None) -> list[Piece]:
    """One, which is run by itself: two at a time would measure a busy machine."""
    arguments = {
        "plan": scale.alexnet.plan,
        "widths": list(WIDTHS.get(scale.name, ALL_WIDTHS)),
        "rounds": list(ROUNDS[scale.name]),
    }
    return [Piece("seconds per iteration", measure, arguments, effort=SECONDS[scale.name], alone=True)]


def ratios(found: pd.DataFrame) -> pd.DataFrame:
    """For each network and defence: the median of the ratios to PGD within a round, their quartiles, the paper's."""
    rows = []
    for what, own in found.groupby("what", sort=False):
        seconds = {
            str(name): part.sort_values("seed")["seconds"].tolist() for name, part in own.groupby("defence", sort=False)
        }
        times = Times(seconds)
        for name in seconds:
            ratio = times.ratio(name, "pgd")
            rows.append(
                {
                    "what": what,
                    "defence": name,
                    "ratio": ratio.median,
                    "low": ratio.low,
                    "high": ratio.high,
                    "seconds": times.median(name),
                    "paper": PAPER.get((str(what), name)),
                }
            )
    return pd.DataFrame(rows)


def finish(found: pd.DataFrame, scale: Scale) -> Outcome:
    """The seconds, and the ratios to PGD beside the paper's."""
    table = ratios(found)
    plan = scale.alexnet.plan
    width = float(plan.options.get("width", 1.0))
    parts = []
    for what, rows in table.groupby("what", sort=False):
        by_name = rows.set_index("defence")["ratio"]
        cells = [
            f"{structure} {by_name[structure]:.2f}{_paper(str(what), structure)}"
            for structure in ("group-sparse", "low-rank")
        ]
        parts.append(f"{what}: {', '.join(cells)}")
    return Outcome(
        tables={"timing": found[["defence", "what", "seed", "seconds"]], "ratios": table.round(4)},
        headline="seconds of an iteration, PGD = 1: " + "; ".join(parts),
        config={
            "protocol": f"One iteration of training with groups of {plan.group_size}: PGD with {plan.inner} "
            f"gradients, GSAT with exactly as many; as trained, with {plan.inner} at most, and with the paper's "
            "ADMM. All take turns in one process, every other round backwards; a ratio is the median over the "
            f"rounds of the ratio within a round. AlexNet of width {width:.3g}, and the ELU net, on synthetic "
            "samples of the shapes named. Nothing was chosen.",
            "notes": [
                "The measurement runs by itself, on the threads that torch has in one process "
                f"({int(found['threads'].iloc[0])}): it would otherwise be that of a busy machine. The paper's "
                "figures are of a Tesla V100 and the whole AlexNet.",
                "On the ELU net PGD and low-rank GSAT both work in the row space of the first layer, which is "
                "exact; pgd, plain path, is PGD without that.",
                "The column seed is the number of the round.",
            ],
            "names": {
                structure + kind: f"GSAT {structure}{kind}"
                for structure in ("group-sparse", "low-rank")
                for kind in (TRAINED, ADMM)
            },
        },
    )


def _paper(what: str, structure: str) -> str:
    known = PAPER.get((what, structure))
    return "" if known is None else f" (paper {known:.2f})"


EXPERIMENT = Experiment(
    "speed",
    "Seconds per training iteration",
    "PGD = 1: MNIST group-sparse 1.35, low-rank 1.24; CIFAR-10 1.19, 1.65",
    pieces,
    finish,
)
