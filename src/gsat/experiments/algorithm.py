"""GSAT trained with Algorithm 2 of the paper, ADMM, beside the proximal solver: inner value, time, robust accuracy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gsat.defences import GSAT
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.from_table import samples
from gsat.experiments.judging import judged, of_seed, trained, training_in_words
from gsat.experiments.paired import in_words, summed_up, with_wins
from gsat.experiments.pictures import Panel, curves, lines, where
from gsat.experiments.plan import Experiment, Outcome, Piece, Place
from gsat.experiments.setting import ADAPTIVE, PRINTED, Arena, Scale, elu_on, image_arenas, number_of_seeds
from gsat.registry import structure_cost

COSTS = ("universal-one", "universal", "group-sparse", "low-rank")
OWN = {
    "universal-one": "universal",
    "universal": "universal",
    "group-sparse": "group-sparse:50",
    "low-rank": "low-rank:5",
}
DATA = ("mnist", "cifar10")
EPS = (0.05, 0.1, 0.2)  # of the attacks, as fractions of E‖X‖; shrunk as the sizes of training are
GROUPS = 4  # of test samples, on which the solvers are compared
LONG = 20  # times as many gradients have the runs that say what could have been reached
ROUNDING = 1e-6  # of a mean loss in float32: what changes it by less gains nothing
SOLVERS = ("proximal", PRINTED, ADAPTIVE)
SECONDS = 12.0  # of one model on MNIST at cpu scale


@dataclass(frozen=True)
class Way:
    """How GSAT is trained: the solver of the inner problem, and where λ comes from."""

    name: str
    solver: str
    changes: dict[str, Any]

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


PRICED: dict[str, Any] = {"lam": "paper", "alpha": 0.5}  # λ = 0.25·E‖X‖
BUDGETED: dict[str, Any] = {"lam": "auto", "alpha": None}  # ours
WAYS = (
    Way("ADMM, the paper's λ", PRINTED, PRICED),
    Way("proximal, the paper's λ", "proximal", PRICED),
    Way("ADMM, budget", ADAPTIVE, BUDGETED),
    Way("proximal, budget", "proximal", BUDGETED),
)
PAIRS = ((WAYS[0], WAYS[1]), (WAYS[2], WAYS[3]))  # ADMM and what it is compared with


def compared(place: Place, arena: Arena, cost: str, way: Way, seed: int) -> pd.DataFrame:
    """Train once: rows of part "test" with accuracies, of part "inner" with what each solver reaches on the model."""
    train, _, test, _ = arena.rows(place.data_dir, seed)
    plan = of_seed(arena.plan, cost, seed, solver=way.solver, size=arena.budget, **way.changes)
    attacks = [f"{OWN[cost]}@{arena.shrunk * eps:g}" for eps in EPS]
    found = judged(place, plan, train, test, attacks, steps=arena.steps, group_size=plan.group_size)
    model = trained(train, plan, place.work)
    inner = _inner(model, cost, samples(test), test.y, plan.inner, plan.group_size)
    rows = pd.concat([found.assign(part="test"), inner.assign(part="inner", seed=seed)], ignore_index=True)
    about = {"data": arena.data, "model": arena.plan.model, "cost": cost, "defence": cost, "way": way.name}
    return rows.assign(**about)


def _inner(model: TorchClassifier, cost: str, X: Any, y: Any, n_inner: int, group_size: int) -> pd.DataFrame:
    """What each solver reaches with n_inner gradients on groups of test samples: a row each, means over the groups.

    gain:      (S(Δ) − S(0))/m, the inner value above that of no perturbation
    share:     the sum of the gains, as a share of the sum of the best that any solver reaches with LONG times as many;
               none where the best perturbation is none
    residual:  ‖δ − z‖_F of ADMM, the length of the next step of the proximal solver
    structure: columns that move, or rank
    seconds:   of one group, the median
    """
    module = model.module_
    like = next(module.parameters())
    x = torch.from_numpy(model.module_input(X)).to(like)
    codes = torch.from_numpy(np.searchsorted(model.classes_, np.asarray(y))).to(like.device)
    groups = list(zip(torch.split(x, group_size), torch.split(codes, group_size), strict=True))[:GROUPS]
    unit = model.mean_norm_ * model.budget if model.lam == "auto" else None
    about = (model.lam_, unit, model.alpha)
    found = {name: [_solved(module, cost, about, name, n_inner, *group) for group in groups] for name in SOLVERS}
    best = np.zeros(len(groups))
    for name in ("proximal", ADAPTIVE):
        longer = [_solved(module, cost, about, name, LONG * n_inner, *group)["gain"] for group in groups]
        best = np.maximum(best, longer)
    rows = []
    for name, solved in found.items():
        means = {key: statistics.fmean(one[key] for one in solved) for key in ("gain", "residual", "structure")}
        share = means["gain"] / best.mean() if best.mean() > 0 else np.nan
        rows.append(
            {"solver": name, **means, "share": share, "seconds": statistics.median(one["seconds"] for one in solved)}
        )
    return pd.DataFrame(rows)


def _solved(
    module: torch.nn.Module, cost: str, about: tuple[Any, Any, Any], solver: str, n_inner: int, x: Tensor, y: Tensor
) -> dict[str, float]:
    """One group: gain, residual, structure and seconds; a step that is too long for the problem gains nothing."""
    lam, unit, alpha = about
    defence = GSAT(structure_cost(cost, alpha=alpha, group_size=len(x)), solver=solver, n_inner=n_inner)
    defence.lam, defence.scale = lam, unit
    begin = time.process_time()
    try:
        defence(module, x, y)
    except FloatingPointError:
        return {"gain": 0.0, "residual": np.nan, "structure": 0.0, "seconds": time.process_time() - begin}
    seconds = time.process_time() - begin
    found = defence.solution
    with torch.no_grad():
        zero = float(torch.nn.functional.cross_entropy(module(x), y))
    gain = 0.0 if found is None else found.objective - zero
    gain = gain if abs(gain) > ROUNDING * zero else 0.0
    residual = np.nan if found is None else found.residual
    return {"gain": gain, "residual": residual, "structure": defence.measure() or 0.0, "seconds": seconds}


def arenas(scale: Scale) -> list[Arena]:
    """The ELU net on MNIST and CIFAR-10, on fewer groups; at the larger scales both networks in full."""
    if scale.name in ("overnight", "paper"):
        return [arena for data in DATA for arena in image_arenas(scale, data)]
    return [replace(elu_on(scale, data), shrunk=image_arenas(scale, data)[1].shrunk) for data in DATA]


def pieces(scale: Scale, seeds: int | None) -> list[Piece]:
    """One for each arena, cost, way of training and seed."""
    return [
        Piece(
            f"{arena.name}, {cost}, {way.name}, seed {seed}",
            compared,
            {"arena": arena, "cost": cost, "way": way, "seed": seed},
            effort=SECONDS * arena.plan.n_outer / 200 * arena.gradient / 0.003,
        )
        for arena in arenas(scale)
        for seed in range(number_of_seeds(scale, seeds))
        for cost in COSTS
        for way in WAYS
    ]


def differences(tested: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of ADMM less that of the proximal solver with the same λ or budget, paired over seeds; in points."""
    rows = []
    keys = ["data", "model", "cost", "attack", "eps"]
    for values, own in tested.groupby(keys, sort=False):
        wide = own.pivot_table(index="seed", columns="way", values=["accuracy", "clean"])
        for admm, other in PAIRS:
            gap, clean = (100 * (wide[what, admm.name] - wide[what, other.name]) for what in ("accuracy", "clean"))
            about = {"ours": admm.name, "baseline": other.name, **dict(zip(keys, values, strict=True))}
            rows.append({**about, **summed_up(gap), "clean": clean.mean()})
    return with_wins(rows)


def finish(found: pd.DataFrame, scale: Scale) -> Outcome:
    """Accuracy over eps of each way, the inner values, and ADMM less proximal."""
    tested = found[found["part"] == "test"].drop(columns=["part", "solver", "gain", "share", "residual", "structure"])
    tested = tested.drop(columns="seconds").assign(attack=tested["cost"], strength=tested["eps"])
    inner = found.loc[found["part"] == "inner", [*INNER, "gain", "share", "residual", "structure", "seconds"]]
    attacked = tested[tested["eps"] > 0]
    gaps = differences(attacked)
    panels = [
        Panel(
            f"{where(str(data), str(model))}\ntrained and attacked: {cost}",
            "eps / E‖X‖",
            lines(rows, "eps", series="way"),
        )
        for (data, model, cost), rows in tested.groupby(["data", "model", "cost"], sort=False)
    ]
    return Outcome(
        tables={
            "results": tested.assign(defence=tested["way"]),
            "inner": inner,
            "inner_means": _means(inner),
            "differences": gaps.assign(case=gaps["cost"] + " " + gaps["eps"].map("{:g}".format)),
        },
        headline="; ".join(_lines(tested, inner)),
        config={
            "protocol": training_in_words(arenas(scale)[0].plan, found["seed"].nunique())
            + " ADMM is Algorithm 2 with the signs of docs/paper.md: with the paper's λ = 0.25·E‖X‖ and α = 0.5 it has "
            "the paper's ρ = 1, η₁ = 0.1 and 20 steps; with a budget, which is ours, its step follows the curvature. "
            "Each model is attacked by the attack of its own structure. inner.csv: on every model each solver solves "
            f"the inner problem of {GROUPS} groups of test samples with as many gradients; share is its gain over no "
            f"perturbation in units of the best reached with {LONG} times as many. seconds are of the processor.",
            "notes": [
                "universal-one is the paper's universal cost, one shift for a group; universal has one for every two "
                "samples, drawn at random.",
            ],
            "report": {"series": "defence", "x_label": dict.fromkeys(COSTS, "eps / E‖X‖")},
        },
        pictures={"algorithm.png": curves(panels)},
    )


INNER = ["data", "model", "cost", "way", "seed", "solver"]


def _means(inner: pd.DataFrame) -> pd.DataFrame:
    keys = [name for name in INNER if name != "seed"]
    numbers = ["gain", "share", "residual", "structure", "seconds"]
    return inner.groupby(keys, sort=False)[numbers].mean().round(5).reset_index()


def _lines(tested: pd.DataFrame, inner: pd.DataFrame) -> Sequence[str]:
    """For each network and cost: accuracy at the largest eps of each way, and what ADMM reaches of the inner value."""
    found = []
    for (data, model, cost), rows in tested.groupby(["data", "model", "cost"], sort=False):
        at = rows[rows["eps"] == rows["eps"].max()]
        means = 100 * at.groupby("way", sort=False)["accuracy"].mean()
        cells = ", ".join(f"{way} {mean:.1f}" for way, mean in means.items())
        gaps = differences(at).iloc[0]
        own = inner[(inner["data"] == data) & (inner["model"] == model) & (inner["cost"] == cost)]
        own = own[own["way"] == WAYS[0].name]
        shares = 100 * own.groupby("solver")["share"].mean()
        found.append(
            f"{where(str(data), str(model))}, {cost}, eps {at['eps'].iloc[0]:g}: {cells} (ADMM − proximal at the "
            f"paper's λ {in_words(gaps)}), inner value {_reached(shares)}"
        )
    return found


def _reached(shares: pd.Series) -> str:
    """What ADMM and the proximal solver reach of the best inner value, in percent."""
    if shares[[PRINTED, "proximal"]].isna().any():
        return "0 whatever the solver: at this λ no perturbation is the best"
    return f"ADMM {shares[PRINTED]:.0f} %, proximal {shares['proximal']:.0f} %"


EXPERIMENT = Experiment(
    "algorithm",
    "The paper's Algorithm 2 (ADMM) beside the proximal solver",
    "all results are of ADMM with ρ = 1, η₁ = 0.1, T₁ = 20, λ = 0.25·E‖X‖, α = 0.5; no other solver is tried",
    pieces,
    finish,
)
