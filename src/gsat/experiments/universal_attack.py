"""One shift for every sample: the paper's figures in the text on MNIST and CIFAR-10."""

from __future__ import annotations

from gsat.experiments.curve_figures import Finish, figure
from gsat.experiments.curves import Stage
from gsat.experiments.setting import Scale, all_images
from gsat.experiments.strengths import by_eps


def stages(scale: Scale) -> list[Stage]:
    """Both networks on both data sets. Low-rank is there because docs/choose.md recommends it against such shifts."""
    structures = ("universal", "universal-one", "low-rank")
    return [(arena, by_eps("universal", scale, arena), structures) for arena in all_images(scale)]


EXPERIMENT = figure(
    "universal",
    "Universal attack",
    "universal attack, eps 0.05: MNIST GSAT 97.6, PGD 96.8, FGSM 96.4; CIFAR-10 75.2, 74.5, 73.2",
    stages,
    Finish(
        {"*": ("universal", "universal-all")},
        notes=(
            "universal-all is one shift for all test samples, as in the paper; universal has one for each group, which "
            "is stronger.",
            "GSAT universal trains with a shift for every two samples, universal-one with the paper's single one.",
            "The paper gives one eps, 0.05·E‖X‖; the curves show more.",
        ),
    ),
)
