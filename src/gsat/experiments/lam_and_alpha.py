"""Clean and robust accuracy over λ and α: what the paper says of them in prose."""

from __future__ import annotations

import pandas as pd
import torch

from gsat._arrays.norms import mean_norm
from gsat.experiments.judging import judged, of_seed, training_in_words
from gsat.experiments.pictures import Panel, curves, lines
from gsat.experiments.plan import Experiment, Outcome, Piece, Place
from gsat.experiments.setting import STRUCTURES, Arena, Scale, elu_on, number_of_seeds

PAPER_LAM = 0.25  # times E‖X‖
ATTACKS = ("group-sparse:50@0.1", "low-rank:5@0.1")
GRIDS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {  # multiples of the paper's λ, and α
    "quick": ((0.01, 10), (0.5,)),
    "cpu": ((0.01, 0.1, 1, 10), (0.1, 0.5, 0.9)),
    "overnight": ((0.01, 0.03, 0.1, 0.3, 1, 10), (0.1, 0.3, 0.5, 0.9)),
    "paper": ((0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10), (0.1, 0.3, 0.5, 0.7, 0.9)),
}
SECONDS = 6.0  # of one model at cpu scale


def sweep(
    place: Place, arena: Arena, defence: str, seed: int, multiples: list[float], alphas: list[float]
) -> pd.DataFrame:
    """One model for each λ and α: a row for each of them and each attack."""
    train, _, test, _ = arena.rows(place.data_dir, seed)
    price = PAPER_LAM * mean_norm(torch.from_numpy(train.X))
    frames = []
    for alpha in alphas:
        for multiple in multiples:
            plan = of_seed(arena.plan, defence, seed, lam=multiple * price, alpha=alpha)
            found = judged(place, plan, train, test, ATTACKS, steps=arena.steps)
            frames.append(found.assign(alpha=alpha, multiple=multiple))
    return pd.concat(frames, ignore_index=True).assign(data=arena.data)


def pieces(scale: Scale, seeds: int | None) -> list[Piece]:
    """One for each structure and seed."""
    arena, (multiples, alphas) = elu_on(scale), GRIDS[scale.name]
    return [
        Piece(
            f"λ and α, {defence}, seed {seed}",
            sweep,
            {"arena": arena, "defence": defence, "seed": seed, "multiples": list(multiples), "alphas": list(alphas)},
            effort=SECONDS * arena.plan.n_outer / 200 * len(multiples) * len(alphas),
        )
        for seed in range(number_of_seeds(scale, seeds))
        for defence in STRUCTURES
    ]


def finish(found: pd.DataFrame, scale: Scale) -> Outcome:
    """The rows, their means, and what happens at the ends of both ranges."""
    found = found.assign(
        weight=[f"α = {alpha:g}" for alpha in found["alpha"]],
        trained=[f"GSAT {defence}" for defence in found["defence"]],
    )
    keys = ["defence", "attack", "alpha", "multiple"]
    means = found.groupby(keys, sort=False)[["accuracy", "used"]].mean().reset_index()
    panels = [
        Panel(
            f"GSAT {defence}: {_case(str(attack))}", "λ / (0.25·E‖X‖)", lines(rows, "multiple", series="weight"), True
        )
        for (defence, attack), rows in found.groupby(["defence", "attack"], sort=False)
    ]
    return Outcome(
        tables={"results": found, "means": means.round(4)},
        headline="; ".join(_ends(means, str(defence)) for defence in dict.fromkeys(found["defence"])),
        config={
            "protocol": training_in_words(elu_on(scale).plan, found["seed"].nunique())
            + " Nothing was chosen: every λ and α is shown. λ is a fixed multiple of the paper's 0.25·E‖X‖ and the "
            f"cost is the paper's, not in units of a budget. Attacks: {', '.join(ATTACKS)} of {scale.elu.steps} "
            "gradients.",
            "notes": [
                "The paper says it in one sentence, without figures, of its AlexNet; this is the ELU net on MNIST. The "
                "attacks have eps 0.1·E‖X‖, twice the paper's, where the models are further apart.",
                "α also divides the cost between a norm (α) and a square (1 − α): with α near 1 a small "
                "perturbation is dear and a large one cheap, so that α is not a second λ.",
            ],
            "report": {
                "x": "multiple",
                "x_scale": "log",
                "x_label": "λ / (0.25·E‖X‖)",
                "series": "weight",
                "facets": ["trained"],
                "title": "λ and α",
            },
        },
        pictures={"lam-alpha.png": curves(panels, columns=3)},
    )


def _ends(means: pd.DataFrame, defence: str) -> str:
    """Accuracy without attack and under the structure's own, from the largest λ to the smallest, at the middle α."""
    own = means[means["defence"] == defence]
    alphas = sorted(own["alpha"].unique())
    alpha = 0.5 if 0.5 in alphas else alphas[len(alphas) // 2]
    table = 100 * own.pivot_table(index=["alpha", "multiple"], columns="attack", values="accuracy")
    cells = [
        f"{multiple:g}x λ: {at['none']:.1f} and {at[defence]:.1f}"
        for multiple, at in table.loc[alpha].sort_index(ascending=False).iterrows()
    ]
    text = f"GSAT {defence}, α = {alpha:g}, clean and attacked: {', '.join(cells)}"
    if len(alphas) > 1 and 1 in set(own["multiple"]):
        few, much = (table.loc[(end, 1), defence] for end in (alphas[0], alphas[-1]))
        text += f"; at 1x λ attacked {few:.1f} with α = {alphas[0]:g}, {much:.1f} with α = {alphas[-1]:g}"
    return text


def _case(attack: str) -> str:
    return "without attack" if attack == "none" else f"{attack} attack"


EXPERIMENT = Experiment(
    "lam-alpha",
    "Clean and robust accuracy over λ and α",
    "in prose: large α and λ gave too little robustness, extremely small ones cost clean accuracy",
    pieces,
    finish,
)
