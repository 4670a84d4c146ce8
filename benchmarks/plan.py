"""The sizes of a run of the benchmark, and the problems that several of its parts share."""

from dataclasses import dataclass
from functools import cache

import problems
from gsat.training.budget import Control
from problems import Problem

alexnet, elu, settled = cache(problems.alexnet), cache(problems.elu), cache(problems.settled)


@dataclass(frozen=True)
class Plan:
    """How large the problems are, and how often they are run."""

    m: int = 200
    shapes: tuple[tuple[str, tuple[int, int, int]], ...] = (("MNIST", (1, 28, 28)), ("CIFAR-10", (3, 32, 32)))
    widths: tuple[int, ...] = (784, 10_425, 20_531)
    growth_d: tuple[int, ...] = (1_000, 5_000, 20_000, 100_000)
    growth_m: tuple[int, ...] = (50, 200, 800)
    image_rounds: int = 4
    rounds: int = 7
    image_settling: tuple[int, int] = (25, 25)  # steps and group size with which λ settles; here a gradient is dear
    settling: tuple[int, int] = (40, 50)
    strengths: int = 20
    attack_steps: int = 100
    sweep_rounds: int = 3
    marks: int = 2  # groups on which the value of ADMM is to be reached
    clock: str = "wall"

    def alexnets(self) -> list[Problem]:
        """The AlexNet on images of each shape."""
        return [alexnet(name, shape, self.m) for name, shape in self.shapes]

    def elus(self) -> list[Problem]:
        """The ELU net on vectors of each width."""
        return [elu(d, self.m) for d in self.widths]

    def settled(self, problem: Problem, structure: str) -> tuple[Problem, Control]:
        """Model and λ in the middle of training with that structure."""
        steps, m = self.image_settling if problem.X.ndim > 2 else self.settling
        return settled(problem, structure, steps=steps, m=m)


QUICK = Plan(
    m=10,
    shapes=(("tiny", (1, 8, 8)),),
    widths=(150, 200, 300),
    growth_d=(150, 600, 1_200),
    growth_m=(10, 20),
    image_rounds=1,
    rounds=2,
    image_settling=(2, 10),
    settling=(2, 10),
    strengths=2,
    attack_steps=10,
    sweep_rounds=1,
    marks=1,
)
