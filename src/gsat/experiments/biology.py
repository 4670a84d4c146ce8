"""Genotypes under group-sparse attacks and gene expression under low-rank ones: Figure 4."""

from __future__ import annotations

from dataclasses import replace

from gsat.experiments.curve_figures import Finish, figure
from gsat.experiments.curves import Stage
from gsat.experiments.own_data import HAPMAP, TCGA, used
from gsat.experiments.setting import Scale, any_price, arena
from gsat.experiments.strengths import by_columns, by_rank


def stages(scale: Scale) -> list[Stage]:
    """The ELU net on HapMap3, three continents, and on TCGA, five tumour types; on the user's own where there are."""
    # fewer than 800 samples: a third of the groups makes as many passes as are needed
    shorter = {} if scale.name == "paper" else {"n_outer": scale.elu.plan.n_outer // 3}
    ((people, about),) = used(scale, HAPMAP, "hapmap").items()
    hapmap = arena(
        scale, scale.elu, f"{people}-elu", people, plan=shorter, **about,
        test_share=0.25, structures=("group-sparse",), counts=(0.05, 0.2), blocks="SNPs", gradient=0.012,
    )  # fmt: skip
    genes = {**shorter, "standardize": True, "solver": any_price(scale.elu.plan.solver)}
    ((tumours, about),) = used(scale, TCGA, "tcga").items()
    tcga = arena(
        scale, scale.elu, f"{tumours}-elu", tumours, plan=genes, **about,
        test_share=0.375, structures=("low-rank",), counts=(0.05, 0.2), gradient=0.005,
    )  # fmt: skip
    hapmap, tcga = (replace(a, n_test=min(a.n_test, n)) for a, n in ((hapmap, 400), (tcga, 300)))  # no more are there
    return [
        (hapmap, by_columns(scale, hapmap), ("group-sparse", "low-rank")),
        (tcga, by_rank(scale, tcga), ("low-rank",)),
    ]


EXPERIMENT = figure(
    "biology",
    "HapMap under group-sparse, TCGA under low-rank attacks",
    "Fig. 4: GSAT above PGD and FGSM on HapMap (sparsity) and TCGA (rank)",
    stages,
    Finish(
        {
            **dict.fromkeys(("hapmap", HAPMAP), ("group-sparse", "group-sparse, SNPs")),
            **dict.fromkeys(("tcga", TCGA), ("low-rank", "low-rank")),
        },
        eps=0.2,
        of_data={
            "hapmap": "HapMap3 (773 people, 1,129 SNPs of chromosome 1, one-hot: 3,387 columns) takes the place of the "
            "paper's 1,600 x 3,475 SNPs.",
            HAPMAP: "The genotypes are the user's own files, hapmap-paper in --data-dir.",
            "tcga": "335 samples of TCGA with 3,341 genes, standardised, take the place of UCI's 801 x 20,531 genes.",
            TCGA: "UCI's 801 tumours x 20,531 genes, standardised, from the user's own file.",
        },
        notes=(
            "At the paper's eps, 0.05·E‖X‖, all defences are near the ceiling on these two sets, so that eps 0.2·E‖X‖ "
            "is shown beside it.",
            "Where GSAT is trained with ADMM its step follows the curvature on TCGA: the paper's 0.1 is too long for "
            "λ = 0.25·E‖X‖ of thousands of standardised genes, and ends in no perturbation at all.",
            "HapMap is attacked in columns and in SNPs, whose three columns move together; GSAT was trained on SNPs.",
        ),
    ),
)
