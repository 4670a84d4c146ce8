"""The figures of accuracy against strength: from the rows of `curves` to tables, a headline and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from gsat.experiments.curves import CASE, RULES, Stage, pieces
from gsat.experiments.judging import paired_differences
from gsat.experiments.pictures import AXES, NETWORKS, Panel, at_strength, curves, lines, over_eps, shown, where
from gsat.experiments.plan import Experiment, Outcome
from gsat.experiments.setting import BUDGET, Scale, shrunk

TRAINED = ["data", "model", "defence", "rule", "seed", "size", "lam", "mean_norm_used"]
VALIDATED = ["data", "model", "defence", "rule", "attack", "eps", "strength", "seed", "size", "accuracy", "taken"]


def figure(name: str, title: str, paper: str, stages: Callable[[Scale], list[Stage]], finish: Finish) -> Experiment:
    """The experiment whose pieces are those of its stages at a scale."""
    return Experiment(name, title, paper, lambda scale, seeds: pieces(stages(scale), scale, seeds), finish)


@dataclass(frozen=True)
class Finish:
    """How the rows of a figure become its outcome.

    about: for each data set, or "*" for all, the structure of GSAT and the attack that the headline is about
    eps:   the size at which the headline looks, or the one next to it; on CIFAR-10 a quarter of it but at paper scale
    notes, of_data: what is to be said of all results, and of those on a data set
    """

    about: Mapping[str, tuple[str, str]]
    eps: float = BUDGET
    notes: tuple[str, ...] = ()
    of_data: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, found: pd.DataFrame, scale: Scale) -> Outcome:
        """Results, choices, paired differences and the picture."""
        tested = found[found["part"] == "test"].drop(columns=["part", "taken"], errors="ignore")
        seen = [name for name in VALIDATED if name in found]
        validated = found.loc[(found["part"] == "validation") & (found["rule"] == "tuned"), seen]
        tries = found[found["part"] == "recipe"].dropna(axis=1, how="all").drop_duplicates()
        axes = {name: label for name, label in AXES.items() if name in set(tested["attack"])}
        return Outcome(
            tables={
                "results": tested,
                "validation": validated,
                **({"recipes": tries} if len(tries) else {}),
                "training": found.loc[found["part"] == "training", TRAINED],
                "differences": paired_differences(tested[tested["strength"] > 0], CASE),
            },
            headline=self._headline(tested, scale),
            config={
                "protocol": _protocol(found, scale),
                "notes": [
                    *(self.of_data[data] for data in tested["data"].unique() if data in self.of_data),
                    *self.notes,
                    *_cautions(tested),
                ],
                "report": {"x_label": axes},
            },
            pictures={f"figure-{rule}.png": _picture(tested[tested["rule"] == rule]) for rule in RULES},
        )

    def _headline(self, tested: pd.DataFrame, scale: Scale) -> str:
        """Accuracy at one eps and the middle of the curve, by both rules."""
        parts = []
        for (data, model), rows in tested[tested["strength"] > 0].groupby(["data", "model"], sort=False):
            own, attack = self.about.get(str(data)) or self.about["*"]
            apart = (rows["eps"] - self.eps * shrunk(str(data), scale)).abs()
            near = rows[(rows["attack"] == attack) & (apart == apart[rows["attack"] == attack].min())]
            strengths = sorted(near["strength"].unique())
            at = near[near["strength"] == strengths[(len(strengths) - 1) // 2]]
            means = 100 * at.groupby(["defence", "rule"], sort=False)["accuracy"].mean()
            names = [
                own,
                *(name for name in ("pgd", "unstructured", "fgsm", "fgm", "erm") if name in set(at["defence"])),
            ]
            cells = [
                f"{'GSAT' if name == own else shown(name)} {means[name, 'matched']:.1f}"
                + ("" if name == "erm" else f" (tuned {means[name, 'tuned']:.1f})")
                for name in names
            ]
            strength = at_strength(attack, float(at["eps"].iloc[0]), float(at["strength"].iloc[0]))
            parts.append(f"{where(str(data), str(model))}, {strength}: {', '.join(cells)}")
        return "; ".join(parts)


def _cautions(tested: pd.DataFrame) -> list[str]:
    """What a reader of one seed must know."""
    if tested.loc[tested["model"] == "alexnet", "seed"].nunique() != 1:
        return []
    return [
        "The AlexNet has one seed and a short training, after which PGD has learnt with one seed and not with another "
        "(python benchmarks/short_training.py): its differences to PGD say little, those of the ELU net do."
    ]


def _picture(tested: pd.DataFrame) -> bytes:
    panels = []
    for (data, model, attack), rows in tested.groupby(["data", "model", "attack"], sort=False):
        counted = not over_eps(str(attack))
        for eps, some in rows.groupby("eps", sort=False) if counted else [(None, rows)]:
            at = f", eps {eps:g}·E‖X‖" if counted else ""
            title = f"{where(str(data), str(model))}\n{attack}{at}"
            panels.append(Panel(title, AXES[str(attack)], lines(some, "strength")))
    return curves(panels)


def _protocol(found: pd.DataFrame, scale: Scale) -> str:
    """How models were trained, sizes chosen and attacks run, in words."""
    parts = []
    for name, size in (("alexnet", scale.alexnet), ("elu", scale.elu)):
        rows = found[found["model"] == name]
        if len(rows) == 0:
            continue
        seeds = "1 seed" if rows["seed"].nunique() == 1 else f"{rows['seed'].nunique()} seeds"
        plan, grid = size.plan, sorted(rows.loc[rows["rule"] == "tuned", "size"].unique())
        width = f" of width {plan.options['width']:.3g}" if "width" in plan.options else ""
        parts.append(
            f"{NETWORKS[name]}{width}: {plan.n_outer:,} groups of {plan.group_size}, {plan.inner} inner gradients, "
            f"Adam {plan.eta0:g} ({plan.schedule}), {seeds}; attacks of strength standard, {size.steps} gradients a "
            f"search, on up to {size.n_test:,} test samples, sizes tried {', '.join(f'{s:g}' for s in grid if s)}."
        )
    budgets = " or ".join(dict.fromkeys(f"{BUDGET * shrunk(data, scale):g}" for data in found["data"].unique()))
    return " ".join(
        [
            *parts,
            f"Rule matched: GSAT and the unstructured adversary have the budget {budgets}·E‖X‖, eps of the other "
            "baselines is the mean norm that GSAT used "
            "(the paper's rule). Rule tuned: the recipe (recipes.csv, as many tries for each defence of the ELU net; "
            "the AlexNet has the usual one) and the size that is best under the attack at its reference strength, both "
            "on validation rows held out of the training rows, the same grid for every defence. A seed sets weights, "
            "groups, validation rows and test rows.",
        ]
    )
