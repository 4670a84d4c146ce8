"""An attack found on one group, applied to new samples: how much of it is shared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from gsat import attacks
from gsat.attacks import Attack
from gsat.estimators.from_table import samples
from gsat.experiments.judging import of_seed, paired_differences, trained, training_in_words
from gsat.experiments.pictures import Panel, curves, lines
from gsat.experiments.plan import Experiment, Outcome, Piece, Place
from gsat.experiments.setting import Arena, Scale, elu_on, number_of_seeds
from gsat.models import layout
from gsat.models.modes import frozen

DEFENCES = ("erm", "pgd", "unstructured", "universal", "group-sparse", "low-rank")
COLUMNS, RANK, GROUP = 50, 5, 200
OWN, MOVED = "own", "transferred"
DATA: dict[str, tuple[str, ...]] = {"overnight": ("mnist", "cifar10"), "paper": ("mnist", "cifar10")}
EPS = {"mnist": (0.05, 0.1, 0.2), "cifar10": (0.0125, 0.025, 0.05)}  # fractions of E‖X‖
FEWER = {"quick": 1, "cpu": 2}  # of these, the largest
SHARED = {"universal": "shift", "group-sparse": f"{COLUMNS} columns", "low-rank": f"rank {RANK}"}
SECONDS = 20.0  # of one defence and seed at cpu scale


def structured(name: str, eps: float, steps: int) -> Attack:
    """The attack of that structure."""
    if name == "universal":
        return attacks.Universal(eps, steps=steps)
    if name == "group-sparse":
        return attacks.GroupSparse(eps, k=COLUMNS, steps=steps)
    return attacks.LowRank(eps, rank=RANK, steps=steps)


def transferred(place: Place, arena: Arena, defence: str, seed: int, sizes: list[float]) -> pd.DataFrame:
    """Accuracy without attack, under the attack made for the samples, and under the one made for the group before."""
    train, _, test, _ = arena.rows(place.data_dir, seed)
    model = trained(train, of_seed(arena.plan, defence, seed), place.work)
    like = next(model.module_.parameters())
    x = torch.from_numpy(model.module_input(samples(test))).to(like)
    y = torch.from_numpy(np.searchsorted(model.classes_, np.asarray(test.y))).to(like.device)
    groups = list(zip(torch.split(x, _size(len(x))), torch.split(y, _size(len(x))), strict=True))
    rows = [{"attack": "none", "kind": "none", "label": 0.0, "accuracy": _hits(model.module_, groups) / len(x)}]
    for name in SHARED:
        for size in sizes:
            attack = structured(name, size * model.mean_norm_, arena.steps)
            for kind, hits in _both(model.module_, groups, attack).items():
                rows.append({"attack": name, "kind": kind, "label": size, "accuracy": hits / len(x)})
    about = {"data": arena.data, "defence": defence, "seed": seed, "n": len(x)}
    return pd.DataFrame(rows).assign(clean=rows[0]["accuracy"], **about)


def _size(n: int) -> int:
    """Of a group: at least two of them are needed."""
    return min(GROUP, (n + 1) // 2)


def _both(module: nn.Module, groups: list[tuple[Tensor, Tensor]], attack: Attack) -> dict[str, int]:
    """Samples that stay right under their own attack, and under the shared part found on the group before theirs."""
    fitted = [attack.fit(module, x, y) for x, y in groups]
    own = [(x + found.found.delta.view_as(x), y) for found, (x, y) in zip(fitted, groups, strict=True)]
    before = fitted[-1:] + fitted[:-1]
    moved = [(x + found.apply(module, x, y), y) for found, (x, y) in zip(before, groups, strict=True)]
    return {OWN: _hits(module, own), MOVED: _hits(module, moved)}


def _hits(module: nn.Module, groups: list[tuple[Tensor, Tensor]]) -> int:
    with frozen(module), torch.no_grad():
        return sum(int((layout.outputs(module, x).argmax(1) == y).sum()) for x, y in groups)


def pieces(scale: Scale, seeds: int | None) -> list[Piece]:
    """One for each data set, defence and seed."""
    found = []
    for data in DATA.get(scale.name, ("mnist",)):
        arena = elu_on(scale, data, full=True)
        sizes = list(EPS[data][-FEWER.get(scale.name, len(EPS[data])) :])
        for seed in range(number_of_seeds(scale, seeds)):
            for defence in DEFENCES:
                found.append(
                    Piece(
                        f"transfer, {data}, {defence}, seed {seed}",
                        transferred,
                        {"arena": arena, "defence": defence, "seed": seed, "sizes": sizes},
                        effort=SECONDS * arena.plan.n_outer / 600 * (4 if data == "cifar10" else 1),
                    )
                )
    return found


def shares(found: pd.DataFrame) -> pd.DataFrame:
    """For each data set, attack, size and defence: mean accuracies and the share of the harm that is carried over.

    share = (clean − transferred)/(clean − own), of the means over the seeds; none where the own attack does no harm.
    """
    keys = ["data", "attack", "label", "defence"]
    attacked = found[found["attack"] != "none"]
    wide = attacked.pivot_table(index=keys, columns="kind", values="accuracy", sort=False)
    wide["clean"] = attacked.groupby(keys, sort=False)["clean"].mean()
    harm = wide["clean"] - wide[OWN]
    wide["share"] = ((wide["clean"] - wide[MOVED]) / harm).where(harm > 0)
    return wide[["clean", MOVED, OWN, "share"]].reset_index()


def finish(found: pd.DataFrame, scale: Scale) -> Outcome:
    """Curves for both kinds of attack, the shares of the harm that are carried over, and the paired differences."""
    drawn = found.assign(
        attack=[row.attack if row.kind != MOVED else f"{row.attack}, transferred" for row in found.itertuples()]
    )
    carried = shares(found)
    attacked = found[found["attack"] != "none"]
    gaps = paired_differences(attacked, ["data", "attack", "kind", "label"])
    gaps["case"] = gaps["attack"] + " " + gaps["label"].astype(str) + ", " + gaps["kind"]
    names = dict.fromkeys(drawn.loc[drawn["attack"] != "none", "attack"])
    seeds = found["seed"].nunique()
    return Outcome(
        tables={
            "results": drawn.drop(columns="kind"),
            "shares": carried.round(4),
            "differences": gaps.drop(columns=["attack", "kind", "label"]),
        },
        headline="; ".join(_line(carried, str(data)) for data in dict.fromkeys(found["data"])),
        config={
            "protocol": training_in_words(elu_on(scale, full=True).plan, seeds)
            + " Budget and eps of all defences but ERM: 0.05·E‖X‖; nothing was chosen. The test samples are dealt "
            f"into groups of {_size(int(found['n'].iloc[0]))}. Own: the attack made for the group. Transferred: the "
            f"shift, the columns or the subspace found on the group before. {scale.elu.steps} gradients each.",
            "notes": [
                f"Transferred means: of universal the shift itself; of group-sparse the {COLUMNS} columns and of "
                f"low-rank the {RANK} directions, inside which the perturbation is made anew for the new samples.",
                "The paper speaks of shared structure but does not try an attack on new samples.",
            ],
            "report": {"x_label": dict.fromkeys(names, "eps / E‖X‖")},
        },
        pictures={"transfer.png": curves(_panels(found), columns=3)},
    )


def _panels(found: pd.DataFrame) -> list[Panel]:
    panels = []
    for data, rows in found.groupby("data", sort=False):
        start = rows[rows["attack"] == "none"]
        for kind in (OWN, MOVED):
            for name, shared in SHARED.items():
                some = pd.concat([start, rows[(rows["attack"] == name) & (rows["kind"] == kind)]])
                panels.append(Panel(f"{data}: {name} ({shared}), {kind}", "eps / E‖X‖", lines(some, "label")))
    return panels


def _line(carried: pd.DataFrame, data: str) -> str:
    """At the largest eps: which share carries over for each structure, and the accuracies under it."""
    rows = carried[
        (carried["data"] == data) & (carried["label"] == carried.loc[carried["data"] == data, "label"].max())
    ]
    parts = []
    for name, own in rows.groupby("attack", sort=False):
        cells = ", ".join(f"{row.defence} {100 * row.transferred:.1f}" for row in own.itertuples())
        parts.append(f"{name} {100 * own['share'].mean():.0f} % ({cells})")
    where = f"{data.upper()}, eps {rows['label'].iloc[0]:g}"
    return f"{where}, share of the harm carried over to new samples: {'; '.join(parts)}"


EXPERIMENT = Experiment(
    "transfer",
    "An attack found on one group, applied to new samples",
    "not tried: the paper speaks of perturbations that share their structure across samples",
    pieces,
    finish,
)
