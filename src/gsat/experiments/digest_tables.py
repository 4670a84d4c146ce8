"""The tables of the documentation for experiments that are no figure under attack, made of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pandas as pd

from gsat.experiments.paired import in_words, signed
from gsat.experiments.pictures import SETS, shown, where

Text = Iterator[str]  # sentences and tables, one after the other
DIRECTIONS = 3  # of a basis, in its tables
KINDS = ("own", "transferred")  # of attacks on a group
MEANING = {"linear": "linear subspace", "curved": "curved subspace"}


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table."""
    head = list(head)
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines])


def _percent(value: float) -> str:
    return "" if value != value else f"{100 * value:.1f}"


def selection(folder: Path) -> Text:
    """For each label: accuracy on the largest number of features, and the lead of our selector over all numbers."""
    found, gaps, own = (pd.read_csv(folder / f"{name}.csv") for name in ("results", "differences", "own_number"))
    ranked = found[~found["method"].isin(own["method"]) & (found["k"] > 0)]
    most, numbers = ranked["k"].max(), sorted(ranked["k"].unique())
    yield (
        f"Accuracy in percent of a network retrained on {most} features. *Lead*: by how many points "
        f"`GroupSparseSelector` is ahead of the method, the mean over {', '.join(map(str, numbers[:-1]))} and {most} "
        "features."
    )
    for label, rows in found.groupby("label", sort=False):
        kinds = list(dict.fromkeys(rows["counted"]))
        at = rows[rows["k"] == most].groupby(["method", "counted"], sort=False)["accuracy"].mean()
        leads = {kind: gaps[gaps["case"].str.match(rf"{label}, \d+ {kind}$")] for kind in kinds}
        lead = {kind: part.groupby("baseline")["difference"].mean() for kind, part in leads.items()}
        names = list(dict.fromkeys(ranked["method"]))
        table = [
            [name, *(cell for kind in kinds for cell in (_percent(at[name, kind]), _lead(lead[kind].get(name))))]
            for name in names
        ]
        for name, mine in own[own["label"] == label].groupby("method", sort=False):
            several = [mine[mine["counted"] == kind] for kind in kinds]
            size = " and ".join(f"{part['k'].mean():.0f}" for part in several)
            cells = (cell for part in several for cell in (_percent(part["accuracy"].mean()), ""))
            table.append([f"{name}: {size}", *cells])
        whole = rows[rows["k"] == 0].groupby("counted")["accuracy"].mean()
        table.append(["all features", *(cell for kind in kinds for cell in (_percent(whole[kind]), ""))])
        yield markdown((f"{label}s", *(cell for kind in kinds for cell in (f"{most} {kind}", "lead"))), table)


def _lead(value: float | None) -> str:
    return "" if value is None else signed(value)


def basis(folder: Path) -> Text:
    """What three directions of each method keep of the labels, and how far ours are ahead."""
    means, gaps = (pd.read_csv(folder / f"{name}.csv") for name in ("means", "differences"))
    kept = means[means["k"] == DIRECTIONS].pivot_table(index="method", columns="data", values="kept", sort=False)
    gaps = gaps[(gaps["k"] == DIRECTIONS) & (gaps["what"] == "kept")].set_index(["baseline", "data"])
    heads = [SETS.get(str(data), MEANING.get(str(data), str(data))) for data in kept]
    yield (
        f"Percent of the labels' variance that {DIRECTIONS} directions keep on samples that were not used to find them "
        "(below zero: worse than the mean)."
    )
    yield markdown(("method", *heads), ([name, *(f"{value:.1f}" for value in row)] for name, row in kept.iterrows()))
    ours = gaps["ours"].iloc[0]
    yield f"{ours} less the others, in points, with Student's 95 % interval:"
    others = [name for name in kept.index if name != ours]
    yield markdown(("less", *heads), ([name, *(in_words(gaps.loc[(name, data)]) for data in kept)] for name in others))


def tcga_clean(folder: Path) -> Text:
    """Accuracy of each defence without attack, and of GSAT less ERM."""
    means, gaps = (pd.read_csv(folder / f"{name}.csv") for name in ("means", "differences"))
    gaps = gaps[gaps["baseline"] == "erm"].set_index(["ours", "data"])
    means = means.set_index(["defence", "data"])
    defences, sets = (list(means.index.unique(level)) for level in ("defence", "data"))
    yield (
        "Accuracy in percent, mean ± standard deviation over the splits; and less ERM, in points, with Student's 95 % "
        "interval."
    )
    rows = []
    for name in defences:
        cells = []
        for data in sets:
            at = means.loc[(name, data)]
            gap = in_words(gaps.loc[(name, data)]) if (name, data) in gaps.index else ""
            cells += [f"{at['mean']:.1f} ± {at['std']:.1f}", gap]
        rows.append([shown(name), *cells])
    yield markdown(("defence", *(cell for data in sets for cell in (data, "less ERM"))), rows)


def speed(folder: Path) -> Text:
    """Seconds of an iteration in units of those of PGD, beside the paper's."""
    ratios = pd.read_csv(folder / "ratios.csv").set_index(["what", "defence"])
    structures = ("group-sparse", "low-rank")
    yield "Seconds of an iteration, PGD = 1, medians. *As trained*: the ascent may end early."
    rows = []
    for what in ratios.index.unique("what"):
        cells = []
        for name in structures:
            exact, trained = ratios.loc[(what, name)], ratios.loc[(what, f"{name}, as trained")]
            paper = "" if exact["paper"] != exact["paper"] else f"{exact['paper']:.2f}"
            cells += [f"{exact['ratio']:.2f}", f"{trained['ratio']:.2f}", paper]
        rows.append([what, *cells])
    heads = (cell for name in structures for cell in (name, "as trained", "paper"))
    yield markdown(("", *heads), rows)


def lam_alpha(folder: Path) -> Text:
    """Accuracy without attack and under the structure's own: over λ at the middle α, and over α at the paper's λ."""
    means = pd.read_csv(folder / "means.csv")
    alphas = sorted(means["alpha"].unique())
    alpha = 0.5 if 0.5 in alphas else alphas[len(alphas) // 2]
    yield f"Accuracy in percent at α = {alpha:g}; λ in units of the paper's 0.25·E‖X‖; *attacked*: by its own attack."
    yield _over(means[means["alpha"] == alpha], "multiple", "λ")
    if len(alphas) > 1 and (means["multiple"] == 1).any():
        yield "The same at the paper's λ, over α:"
        yield _over(means[means["multiple"] == 1], "alpha", "α")


def _over(means: pd.DataFrame, by: str, symbol: str) -> str:
    """A row for each value of λ or α, the largest first; for each structure the two accuracies."""
    structures = list(dict.fromkeys(means["defence"]))
    at = means.set_index(["defence", "attack", by])["accuracy"]
    rows = [
        [f"{value:g}", *(_percent(at[name, attack, value]) for name in structures for attack in ("none", name))]
        for value in sorted(means[by].unique(), reverse=True)
    ]
    return markdown((symbol, *(cell for name in structures for cell in (f"{name}, clean", "attacked"))), rows)


def lam_norm(folder: Path) -> Text:
    """The exponent of E‖X‖ by which the proper λ grows."""
    fits = pd.read_csv(folder / "exponents.csv")
    yield "The exponent p in proper λ ~ E‖X‖^p, ± standard error over the seeds."
    yield markdown(
        ("defence", "λ is read off at", "p"),
        ([shown(r.defence), r.reading, f"{r.exponent:+.2f} ± {r.standard_error:.2f}"] for r in fits.itertuples()),
    )


def group_size(folder: Path) -> Text:
    """Accuracy under the attack of the structure over the group size, beside PGD."""
    means = pd.read_csv(folder / "means.csv").set_index(["defence", "attack", "m"])["accuracy"]
    structures = [name for name in means.index.unique("defence") if name in means.index.unique("attack")]
    yield "Accuracy in percent under the attack of the structure, of GSAT and of PGD training on groups of m samples."
    rows = [
        [str(m), *(_percent(means[who, name, m]) for name in structures for who in (name, "pgd"))]
        for m in sorted(means.index.unique("m"))
    ]
    yield markdown(("m", *(cell for name in structures for cell in (f"GSAT {name}", "PGD"))), rows)


def transfer(folder: Path) -> Text:
    """At the largest eps: accuracy under each attack made for the group, and under the one that was carried over."""
    shares = pd.read_csv(folder / "shares.csv")
    for data, rows in shares.groupby("data", sort=False):
        at = rows[rows["label"] == rows["label"].max()].set_index(["defence", "attack"])
        defences, attacks = (list(at.index.unique(level)) for level in ("defence", "attack"))
        yield (
            f"{SETS.get(str(data), str(data))}, eps {at['label'].iloc[0]:g}: accuracy in percent under an attack made "
            "for the group, and, *carried*, under what was found on the group before it. The last row has the share of "
            "the harm that is carried over, the mean over the defences."
        )
        table = [
            [shown(name), *(_percent(at.loc[(name, attack), kind]) for attack in attacks for kind in KINDS)]
            for name in defences
        ]
        means = at.groupby("attack", sort=False)["share"].mean()
        table.append(["share of the harm", *(c for attack in attacks for c in ("", f"{100 * means[attack]:.0f} %"))])
        yield markdown(("trained with", *(cell for attack in attacks for cell in (attack, "carried"))), table)


def algorithm(folder: Path) -> Text:
    """At the largest eps: accuracy of models trained in each way, and what the solvers reach of the inner value."""
    found, inner = (pd.read_csv(folder / f"{name}.csv") for name in ("results", "inner_means"))
    keys = ["data", "model", "cost"]
    ways = list(dict.fromkeys(found["way"]))
    rows, reached = [], []
    for values, own in found.groupby(keys, sort=False):
        at = own[own["eps"] == own["eps"].max()].groupby("way")["accuracy"].mean()
        about = [where(str(values[0]), str(values[1])), str(values[2]), f"{own['eps'].max():g}"]
        rows.append([*about, *(_percent(at.get(way, float("nan"))) for way in ways)])
        mine = inner[(inner[keys] == list(values)).all(axis=1) & (inner["way"] == ways[0])].set_index("solver")["share"]
        reached.append([*about[:2], *(_percent(mine.get(name, float("nan"))) for name in inner["solver"].unique())])
    yield "Accuracy in percent under the attack of its own structure, of models trained with each solver."
    yield markdown(("", "cost", "eps", *ways), rows)
    yield (
        f"On the models of the first way ({ways[0]}): the gain that each solver finds in the inner problem, in percent "
        "of the best that was found with many more gradients. Empty where no perturbation at all is the best."
    )
    yield markdown(("", "cost", *inner["solver"].unique()), reached)


TABLES: dict[str, Callable[[Path], Text]] = {
    "selection": selection, "basis": basis, "tcga-clean": tcga_clean, "speed": speed, "lam-alpha": lam_alpha,
    "lam-norm": lam_norm, "group-size": group_size, "transfer": transfer, "algorithm": algorithm,
}  # fmt: skip
