"""What test_attack_ranks.py runs on several ranks, and in one process."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn

import gsat
from gsat._ranks import Ranks, shared
from gsat.attacks import Attack
from gsat.models import seeded

N, D, CLASSES = 45, 12, 3


class Plain(nn.Module):
    """A network of which it is not known that it begins with a linear layer."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


@dataclass(frozen=True)
class Case:
    """One attack; float64."""

    attack: Attack
    plain: bool = False
    surrogate: bool = False

    def model(self, seed: int = 1) -> nn.Module:
        with seeded(seed):
            net = nn.Sequential(nn.Linear(D, 7), nn.ELU(), nn.Linear(7, CLASSES)).double().eval()
        return Plain(net) if self.plain else net

    def perturbation(self, x: Tensor, y: Tensor) -> Tensor:
        options = {"surrogate": self.model(2)} if self.surrogate else {}
        return self.attack.perturb(self.model(), x, y, **options)


def samples() -> tuple[Tensor, Tensor]:
    """Classes that overlap; the last samples have a class that no others have."""
    generator = Generator().manual_seed(0)
    y = torch.randint(CLASSES - 1, (N,), generator=generator)
    y[-5:] = CLASSES - 1
    X = torch.randn(N, D, generator=generator, dtype=torch.float64) * (1 + torch.arange(D) / 8)
    X[:, :CLASSES] += nn.functional.one_hot(y, CLASSES)
    return X, y


def perturbations(cases: list[Case]) -> list[Tensor]:
    """Those of the rows of this rank, in a group that all ranks share."""
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = (torch.tensor_split(whole, world)[rank] for whole in samples())
    with shared(Ranks.of()):
        return [case.perturbation(x, y) for case in cases]


def evaluated(cases: list[Case], group: Any, **options: Any) -> pd.DataFrame:
    """The table of all attacks on the model of the first case."""
    X, y = samples()
    attacks = {str(i): case.attack for i, case in enumerate(cases)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of gradients that vanish: only rank 0 gives them
        return gsat.evaluate(cases[0].model(), X, y, attacks, group=group, **options).drop(columns="seconds")


def tables(cases: list[Case], folder: Path) -> dict[str, Any]:
    """Tables, and what the file of finished rows holds after each."""
    out = folder / "rows.jsonl"
    batch = [f"b{i % 7 // 3}" for i in range(N)]
    found: dict[str, Any] = {
        "groups": evaluated(cases, "shared", group_size=22),  # the last group has one sample
        "batches": evaluated(cases, "shared", batch=batch),
        "kept": evaluated(cases[:2], "shared", out=out),
    }
    dist.barrier()
    found["lines"] = len(out.read_text().splitlines())
    found["again"] = evaluated(cases[:2], "shared", out=out)
    dist.barrier()
    found["lines again"] = len(out.read_text().splitlines())
    return found


def fails(kind: str) -> None:
    """Calls that cannot go on."""
    X, y = samples()
    model, attack = Case(gsat.attacks.FGM(0.1)).model(), gsat.attacks.LowRank(0.3, rank=2, steps=5)
    if kind == "sizes":
        n = N - dist.get_rank()
        gsat.evaluate(model, X[:n], y[:n], attack, group="shared")
    if kind == "leaves":
        if dist.get_rank():
            y = y[:-1]
        gsat.evaluate(model, X, y, attack, group="shared")
    if kind == "overflow":
        X[0] = 1e6  # a sample of one of the ranks
        gsat.evaluate(model, X, y, replace(attack, loss=overflowing), group="shared")


def overflowing(outputs: Tensor, y: Tensor) -> Tensor:
    """The cross-entropy, but NaN for large logits."""
    losses = nn.functional.cross_entropy(outputs, y, reduction="none")
    return torch.where(outputs.abs().amax(1) > 1e4, torch.nan, losses)
