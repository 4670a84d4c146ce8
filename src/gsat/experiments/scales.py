"""How large the experiments are: on two cores, over night, with the paper's own numbers, or tiny."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gsat.estimators.from_table import Plan

Name = Literal["quick", "cpu", "overnight", "paper"]


@dataclass(frozen=True)
class Size:
    """What is done with one network: how it is trained, on how many seeds, and how hard it is attacked."""

    plan: Plan
    seeds: int
    n_test: int
    n_validation: int
    steps: int  # gradients of an attack
    n_train: int | None = None  # rows to train on; None: all
    short: float = 1.0  # by how much the sizes tried are smaller: a short training from scratch cannot bear large ones


@dataclass(frozen=True)
class Scale:
    """The two networks of the paper and how finely curves are drawn.

    strengths: points of a curve besides strength 0
    grid:      sizes that are tried for every defence where baselines are tuned
    """

    name: Name
    alexnet: Size
    elu: Size
    strengths: int
    grid: int

    def pick(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """At most `strengths` of the values, evenly, the first and the last among them."""
        return evenly(values, self.strengths)


def evenly(values: Sequence[Any], n: int) -> tuple[Any, ...]:
    """At most n of the values, as evenly as can be, the first and the last among them; of one, the first."""
    if n >= len(values):
        return tuple(values)
    return tuple(values[round(i * (len(values) - 1) / max(n - 1, 1))] for i in range(n))


def _narrow(**changes: Any) -> Plan:
    """The AlexNet on two cores: one sixteenth of the width."""
    layout = {"width": 1 / 16, "channels_last": True}
    return Plan(
        "erm", **{"model": "alexnet", "options": layout, "n_outer": 150, "eta0": 5e-3, "schedule": "cosine", **changes}
    )


def _elu(**changes: Any) -> Plan:
    return Plan("erm", schedule="cosine", eta0=2e-3, **changes)


PAPER: dict[str, Any] = {"n_outer": 10_000, "eta0": 1e-4, "alpha": 0.5, "lam": "paper", "device": "auto"}

SCALES: dict[str, Scale] = {
    "quick": Scale(
        "quick",
        alexnet=Size(
            _narrow(options={"width": 1 / 24, "channels_last": True}, n_outer=3, n_inner=3, group_size=20),
            seeds=1, n_test=40, n_validation=20, steps=3, n_train=300,
        ),
        elu=Size(
            Plan("erm", n_outer=6, n_inner=4, group_size=50), seeds=2, n_test=60, n_validation=40, steps=4, n_train=600
        ),
        strengths=2,
        grid=2,
    ),
    "cpu": Scale(
        "cpu",
        alexnet=Size(_narrow(), seeds=1, n_test=400, n_validation=200, steps=50, short=0.25),
        elu=Size(_elu(n_outer=600), seeds=3, n_test=1000, n_validation=400, steps=50),
        strengths=4,
        grid=3,
    ),
    "overnight": Scale(
        "overnight",
        alexnet=Size(_narrow(n_outer=300), seeds=2, n_test=400, n_validation=200, steps=50, short=0.25),
        elu=Size(_elu(n_outer=1200), seeds=5, n_test=1000, n_validation=400, steps=100),
        strengths=6,
        grid=3,
    ),
    "paper": Scale(
        "paper",
        alexnet=Size(Plan("erm", model="alexnet", **PAPER), seeds=3, n_test=10_000, n_validation=2_000, steps=100),
        elu=Size(Plan("erm", **PAPER), seeds=5, n_test=10_000, n_validation=2_000, steps=100),
        strengths=20,
        grid=5,
    ),
}  # fmt: skip
