"""A few directions that are mixed differently in each sample: Figure 2."""

from __future__ import annotations

from gsat.experiments.curve_figures import Finish, figure
from gsat.experiments.curves import Stage
from gsat.experiments.setting import Scale, all_images
from gsat.experiments.strengths import by_rank


def stages(scale: Scale) -> list[Stage]:
    """Both networks on both data sets."""
    return [(arena, by_rank(scale, arena), ("low-rank",)) for arena in all_images(scale)]


EXPERIMENT = figure(
    "low-rank",
    "Low-rank attack",
    "Fig. 2, rank 0 to 100: GSAT above PGD and FGSM on MNIST and CIFAR-10 throughout",
    stages,
    Finish(
        {"*": ("low-rank", "low-rank")},
        notes=(
            "The paper attacks with eps 0.05·E‖X‖; a larger one on MNIST and a smaller one on CIFAR-10 are there too, "
            "where the defences are further apart. On two cores the AlexNet is attacked with one of them.",
        ),
    ),
)
