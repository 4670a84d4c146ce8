"""Samples that move on their own, which GSAT was not trained for: Figure 3."""

from __future__ import annotations

from gsat.experiments.curve_figures import Finish, figure
from gsat.experiments.curves import Stage
from gsat.experiments.setting import Scale, all_images
from gsat.experiments.strengths import by_eps


def stages(scale: Scale) -> list[Stage]:
    """Both networks on both data sets."""
    return [(arena, by_eps("pgd", scale, arena), ("group-sparse", "low-rank")) for arena in all_images(scale)]


EXPERIMENT = figure(
    "pgd",
    "Plain PGD attack",
    "Fig. 3: GSAT-LR and GSAT-GS close to PGD and FGSM, better at small norms, marginally worse at large ones",
    stages,
    Finish({"*": ("low-rank", "pgd")}),
)
