"""A few columns that move in every sample: Figure 1."""

from __future__ import annotations

from gsat.experiments.curve_figures import Finish, figure
from gsat.experiments.curves import Stage
from gsat.experiments.setting import Scale, all_images
from gsat.experiments.strengths import by_columns


def stages(scale: Scale) -> list[Stage]:
    """Both networks on both data sets."""
    return [(arena, by_columns(scale, arena), ("group-sparse", "low-rank")) for arena in all_images(scale)]


EXPERIMENT = figure(
    "group-sparse",
    "Group-sparse attack",
    "Fig. 1, sparsity 0 to 200: GSAT above PGD and FGSM on MNIST and CIFAR-10 throughout",
    stages,
    Finish(
        {"*": ("group-sparse", "group-sparse")},
        notes=(
            "A column is one of 784 or 3,072 coordinates; on CIFAR-10 the attack is also run on pixels, whose three "
            "colours move together. GSAT was trained on coordinates.",
            "The paper attacks with eps 0.05·E‖X‖; a larger one on MNIST and a smaller one on CIFAR-10 are there too, "
            "where the defences are further apart. On two cores the AlexNet is attacked with one of them.",
        ),
    ),
)
