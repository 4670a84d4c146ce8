"""How many samples share a structure in training: the group size m."""

from __future__ import annotations

import pandas as pd

from gsat.experiments.judging import judged, of_seed, paired_differences, training_in_words
from gsat.experiments.pictures import Panel, curves, lines
from gsat.experiments.plan import Experiment, Outcome, Piece, Place
from gsat.experiments.setting import STRUCTURES, Arena, Scale, elu_on, number_of_seeds

USUAL = 200  # the paper's m
ATTACKS = ("group-sparse:50@0.1", "low-rank:5@0.1")
DEFENCES = ("pgd", "unstructured", *STRUCTURES)
SIZES: dict[str, tuple[int, ...]] = {"quick": (25, 50)}
ALL_SIZES = (25, 50, 100, 200, 400)
SECONDS = 8.0  # of one model at cpu scale, on average over m


def sweep(place: Place, arena: Arena, defence: str, seed: int, sizes: list[int]) -> pd.DataFrame:
    """One model for each m, trained on as many samples; the attacks are always on groups of 200."""
    train, _, test, _ = arena.rows(place.data_dir, seed)
    seen = arena.plan.n_outer * USUAL
    frames = []
    for m in sizes:
        plan = of_seed(arena.plan, defence, seed, group_size=m, n_outer=max(1, seen // m))
        found = judged(place, plan, train, test, ATTACKS, steps=arena.steps)
        frames.append(found.assign(m=m, steps=plan.n_outer))
    return pd.concat(frames, ignore_index=True).assign(data=arena.data)


def pieces(scale: Scale, seeds: int | None) -> list[Piece]:
    """One for each defence and seed."""
    arena, sizes = elu_on(scale), SIZES.get(scale.name, ALL_SIZES)
    return [
        Piece(
            f"group size, {defence}, seed {seed}",
            sweep,
            {"arena": arena, "defence": defence, "seed": seed, "sizes": list(sizes)},
            effort=SECONDS * arena.plan.n_outer / 200 * len(sizes),
        )
        for seed in range(number_of_seeds(scale, seeds))
        for defence in DEFENCES
    ]


def finish(found: pd.DataFrame, scale: Scale) -> Outcome:
    """The rows, and the paired differences to PGD with groups of the same size."""
    means = found.groupby(["defence", "attack", "m"], sort=False)[["accuracy", "used"]].mean().reset_index()
    panels = [
        Panel("without attack" if attack == "none" else f"{attack} attack", "group size m", lines(rows, "m"), True)
        for attack, rows in found.groupby("attack", sort=False)
    ]
    return Outcome(
        tables={
            "results": found,
            "means": means.round(4),
            "differences": paired_differences(found, ["attack", "m"]).assign(
                case=lambda frame: frame["attack"] + ", m = " + frame["m"].astype(str)
            ),
        },
        headline="; ".join(_curve(means, structure) for structure in STRUCTURES if structure in set(found["defence"])),
        config={
            "protocol": training_in_words(elu_on(scale).plan, found["seed"].nunique()).replace(
                f" of {elu_on(scale).plan.group_size},", " where m = 200,"
            )
            + " Every m sees the same number of samples, so that small groups make more steps: the work is the "
            "same. The budget is 0.05·E‖X‖, and the eps of PGD the same; nothing was chosen. Attacks are on groups "
            f"of 200 whatever m was: {', '.join(ATTACKS)}, {scale.elu.steps} gradients.",
            "notes": [
                "In Algorithm 1 the group is also the batch of the descent step, so that m changes both. PGD, whose "
                "samples move each on their own, shows what the batch alone does: differences.csv has GSAT - PGD at "
                "the same m.",
                "The paper takes m = 200 and shows no other.",
            ],
            "report": {
                "x": "m",
                "x_scale": "log",
                "x_label": "group size m",
                "series": "defence",
                "facets": [],
                "title": "Group size",
            },
        },
        pictures={"group-size.png": curves(panels)},
    )


def _curve(means: pd.DataFrame, structure: str) -> str:
    """Accuracy under the structure's own attack over m, of GSAT and of PGD."""
    rows = means[means["attack"] == structure].pivot_table(index="m", columns="defence", values="accuracy")
    cells = [f"m = {m} {100 * row[structure]:.1f} (PGD {100 * row['pgd']:.1f})" for m, row in rows.iterrows()]
    return f"GSAT {structure} under its own attack: {', '.join(cells)}"


EXPERIMENT = Experiment(
    "group-size",
    "Clean and robust accuracy over the group size",
    "m = 200 throughout; no other is shown",
    pieces,
    finish,
)
