"""The best λ against E‖X‖, on data that are multiplied by a factor."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from gsat._arrays.norms import mean_norm
from gsat.experiments.judging import judged, of_seed, training_in_words
from gsat.experiments.lam_and_alpha import PAPER_LAM
from gsat.experiments.pictures import Panel, curves, lines
from gsat.experiments.plan import Experiment, Outcome, Piece, Place
from gsat.experiments.setting import STRUCTURES, Arena, Scale, elu_on, number_of_seeds

ALPHA = 0.5  # the paper's
EPS = 0.05  # of the attack, and of the perturbations in training that the second reading of "proper" asks for
OWN = {"group-sparse": f"group-sparse:50@{EPS}", "low-rank": f"low-rank:5@{EPS}"}
GRIDS: dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[str, ...]]] = {  # factors, multiples, structures
    "quick": ((0.5, 2), (0.1, 10), ("low-rank",)),
    "cpu": ((0.25, 1, 4), tuple(8.0 ** (j / 2) for j in range(-5, 4, 2)), ("low-rank",)),
    "overnight": ((0.25, 0.5, 1, 2, 4), tuple(8.0 ** (j / 2) for j in range(-5, 4, 2)), STRUCTURES),
    "paper": ((0.25, 0.5, 1, 2, 4), tuple(8.0 ** (j / 2) for j in range(-7, 5)), STRUCTURES),
}
SECONDS = 5.5  # of one model at cpu scale
AXIS = "λ / (0.25·E‖X‖ of X times 1)"
BEST, REACHED = "best accuracy", "norm reached"  # the two readings of a proper λ


def sweep(
    place: Place, arena: Arena, defence: str, seed: int, factors: list[float], multiples: list[float]
) -> pd.DataFrame:
    """One model for each factor and λ, judged on validation rows under the structure's own attack."""
    train, validation, _, _ = arena.rows(place.data_dir, seed)
    price = PAPER_LAM * mean_norm(torch.from_numpy(train.X))
    frames = []
    for factor in factors:
        rows, judges = (
            replace(part, X=part.X * np.float32(factor), checksum=f"{part.checksum} x {factor:g}")
            for part in (train, validation)
        )
        for multiple in multiples:
            plan = of_seed(arena.plan, defence, seed, lam=multiple * price, alpha=ALPHA)
            found = judged(place, plan, rows, judges, [OWN[defence]], steps=arena.steps)
            frames.append(found.assign(factor=factor, multiple=multiple))
    return pd.concat(frames, ignore_index=True).assign(data=arena.data)


def pieces(scale: Scale, seeds: int | None) -> list[Piece]:
    """One for each structure and seed."""
    arena, (factors, multiples, structures) = elu_on(scale), GRIDS[scale.name]
    return [
        Piece(
            f"λ and E‖X‖, {defence}, seed {seed}",
            sweep,
            {"arena": arena, "defence": defence, "seed": seed, "factors": list(factors), "multiples": list(multiples)},
            effort=SECONDS * arena.plan.n_outer / 200 * len(factors) * len(multiples),
        )
        for seed in range(number_of_seeds(scale, seeds))
        for defence in structures
    ]


def proper(found: pd.DataFrame) -> pd.DataFrame:
    """The proper λ for each structure, factor and seed, read in two ways.

    best accuracy: the top of the parabola in log λ through the best λ of the grid and its neighbours, where "best" is
                   the accuracy under attack on validation rows; at an end of the grid, the end
    norm reached:  where the mean ‖δ_i‖ in training is EPS·E‖X‖, with a straight line between logarithms; none where it
                   is not reached within the grid
    """
    attacked = found[found["attack"] != "none"]
    rows = []
    for (defence, factor, seed), own in attacked.groupby(["defence", "factor", "seed"], sort=False):
        own = own.sort_values("lam")
        about = {"defence": defence, "factor": factor, "seed": seed, "unit": own["unit"].iloc[0]}
        price = np.log(own["lam"].to_numpy(float))
        rows.append({**about, "reading": BEST, "lam": _top(price, own["accuracy"].to_numpy(float))})
        rows.append({**about, "reading": REACHED, "lam": _crossing(price, own["used"].to_numpy(float))})
    return pd.DataFrame(rows)


def _top(x: np.ndarray, y: np.ndarray) -> float:
    best = int(np.argmax(y))
    if best in (0, len(x) - 1):
        return math.exp(x[best])
    bend, slope, _ = np.polyfit(x[best - 1 : best + 2] - x[best], y[best - 1 : best + 2], 2)
    return math.exp(x[best] - slope / (2 * bend)) if bend < 0 else math.exp(x[best])


def _crossing(x: np.ndarray, used: np.ndarray) -> float:
    above = np.flatnonzero(used >= EPS)
    if len(above) == 0 or above[-1] == len(x) - 1:
        return math.nan
    left = above[-1]
    high, low = (math.log(max(value, 1e-6)) for value in (used[left], used[left + 1]))  # 0 has no logarithm
    return math.exp(x[left] + (high - math.log(EPS)) / (high - low) * (x[left + 1] - x[left]))


def exponents(chosen: pd.DataFrame) -> pd.DataFrame:
    """The p of λ ~ E‖X‖^p by least squares of logarithms, seed by seed: mean, standard error and number of seeds."""
    rows = []
    for (defence, reading), own in chosen.dropna(subset=["lam"]).groupby(["defence", "reading"], sort=False):
        fits = [
            float(np.polyfit(np.log(seed["unit"]), np.log(seed["lam"]), 1)[0])
            for _, seed in own.groupby("seed")
            if seed["factor"].nunique() > 1
        ]
        error = float(np.std(fits, ddof=1) / math.sqrt(len(fits))) if len(fits) > 1 else math.nan
        if fits:
            mean = float(np.mean(fits))
            rows.append(
                {"defence": defence, "reading": reading, "exponent": mean, "standard_error": error, "seeds": len(fits)}
            )
    return pd.DataFrame(rows, columns=["defence", "reading", "exponent", "standard_error", "seeds"])


def finish(found: pd.DataFrame, scale: Scale) -> Outcome:
    """Accuracy over λ for each factor, the proper λ, and the exponents."""
    found = found.assign(
        data_times=[f"X times {factor:g}" for factor in found["factor"]],
        trained=[f"GSAT {defence}" for defence in found["defence"]],
    )
    attacked = found[found["attack"] != "none"]
    chosen = proper(found)
    fits = exponents(chosen)
    panels = [
        Panel(f"GSAT {defence}", AXIS, lines(own, "multiple", series="data_times"), True)
        for defence, own in attacked.groupby("defence", sort=False)
    ]
    cells = [
        f"{row.defence}: {row.exponent:+.2f} ± {row.standard_error:.2f} ({row.reading})" for row in fits.itertuples()
    ]
    return Outcome(
        tables={"results": found, "proper": chosen, "exponents": fits.round(3)},
        headline="proper λ ~ E‖X‖^p with p = " + "; ".join(cells),
        config={
            "protocol": training_in_words(elu_on(scale).plan, found["seed"].nunique())
            + f" α = {ALPHA:g}, the cost as in the paper. X is multiplied by a factor; one grid of λ for all "
            "factors. The proper λ is read in two ways. Best accuracy: λ with the best accuracy on validation rows "
            f"under the structure's own attack of eps {EPS:g}·E‖X‖ (50 columns, rank 5), refined by a parabola "
            "through three points of the grid. Norm reached: λ at which the mean norm of the perturbations in "
            f"training is {EPS:g}·E‖X‖. The exponent is fitted for each seed; ± is the standard error over seeds.",
            "notes": [
                "The paper says that the proper λ grew almost linearly with E‖X‖ (exponent +1), without saying over "
                "which data. Here the same data are rescaled, so that nothing changes but the unit of length.",
                "What to expect: if the network takes up the factor s, the loss of x + δ is that of s·x + s·δ, and "
                "the adversary is the same if λ·α·g(δ) and λ·(1 − α)·‖δ‖² are. Where the norm decides, λ ~ 1/s "
                "(exponent -1), where the square decides, λ ~ 1/s² (exponent -2): λ must fall as E‖X‖ grows. "
                'lam="auto" needs none of this, since it measures δ in units of budget·E‖X‖.',
            ],
            "report": [
                {
                    "x": "multiple",
                    "x_scale": "log",
                    "x_label": AXIS,
                    "series": "data_times",
                    "facets": ["trained"],
                    "title": "Accuracy over λ on rescaled data",
                },
                {
                    "table": "proper",
                    "x": "unit",
                    "x_scale": "log",
                    "x_label": "E‖X‖",
                    "y": "lam",
                    "y_label": "proper λ",
                    "series": "reading",
                    "facets": ["defence"],
                    "title": "The proper λ",
                },
            ],
        },
        pictures={"lam-norm.png": curves(panels)},
    )


EXPERIMENT = Experiment(
    "lam-norm",
    "The best λ on rescaled data",
    "in prose: the proper λ had an almost linear dependence on E‖X‖ (exponent +1)",
    pieces,
    finish,
)
