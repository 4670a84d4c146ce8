"""Our attacks against those of other libraries and hand-written ones, at the same number of gradients.

Each row: a model, a structure, eps as a fraction of E‖X‖, with or without the box [0, 1]. "fast" is one search with the
cross-entropy and `--steps` gradients, beside the best rival with as many; "standard" the worst of three searches,
beside the best rival with three times as many. Accuracy in percent on `--n` test images in groups of 200, lower is
stronger; the best rival is chosen in hindsight, for each row. Rivals: benchmarks/attack_rivals.py. A row keeps digests
of the weights that ours and the rivals attacked: with --ours the model is trained anew, and where it then has other
weights that is said below the table.

    make .venv/bench.stamp
    GSAT_DATA=... python benchmarks/attack_strength.py --out attack_strength.csv
"""

import argparse
import hashlib
import re
import warnings
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import pandas as pd
import torch
from torch import Generator, Tensor, nn

import gsat
from attack_rivals import Bounds, rivals
from gsat import attacks, defences

SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
RANK, COLUMNS, SEARCHES = 3, 50, 3
Place = tuple[str, float, bool]  # structure, eps as a fraction of E‖X‖, whether there is a box
COUNTS = {"universal": 0, "low-rank": RANK, "group-sparse": COLUMNS, "pgd": 0}


def conv(shape: tuple[int, int, int]) -> nn.Module:
    """Two convolutions of stride 2 with BatchNorm, two dense layers."""
    side = shape[1] // 4
    return nn.Sequential(
        nn.Conv2d(shape[0], 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1, stride=2), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * side * side, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def relu(shape: tuple[int, int, int]) -> nn.Module:
    """Two hidden layers."""
    d = shape[0] * shape[1] * shape[2]
    return nn.Sequential(nn.Flatten(), nn.Linear(d, 200), nn.ReLU(), nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10))


def elu(shape: tuple[int, int, int]) -> nn.Module:
    """The paper's network with one hidden layer."""
    return gsat.models.build("elu", shape, 10, seed=0)


Made = tuple[str, Callable[[tuple[int, int, int]], nn.Module], Callable[[float], defences.Defence], int, float]
MODELS: dict[str, Made] = {  # data set, network, defence by E‖X‖, groups, budget of GSAT
    "MNIST, ELU": ("mnist", elu, lambda unit: defences.ERM(), 1000, 0.0),
    "MNIST, ELU, GSAT low-rank": ("mnist", elu, lambda unit: defences.GSAT(gsat.LowRank(0.2), n_inner=20), 500, 0.1),
    "MNIST, ReLU, PGD": ("mnist", relu, lambda unit: defences.PGD(0.1 * unit, steps=10), 500, 0.0),
    "MNIST, conv": ("mnist", conv, lambda unit: defences.ERM(), 500, 0.0),
    "MNIST, conv, GSAT low-rank": ("mnist", conv, lambda unit: defences.GSAT(gsat.LowRank(0.2), n_inner=8), 150, 0.1),
    "CIFAR-10, conv": ("cifar10", conv, lambda unit: defences.ERM(), 1000, 0.0),
    "CIFAR-10, conv, PGD": ("cifar10", conv, lambda unit: defences.PGD(0.02 * unit, steps=5), 250, 0.0),
}
EPS = {
    "MNIST, ELU": (0.05, 0.1),
    "MNIST, ELU, GSAT low-rank": (0.1, 0.2, 0.3),
    "MNIST, ReLU, PGD": (0.1, 0.2, 0.3),
    "MNIST, conv": (0.1,),
    "MNIST, conv, GSAT low-rank": (0.2,),
    "CIFAR-10, conv": (0.02,),
    "CIFAR-10, conv, PGD": (0.05,),
}


@cache
def images(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    table = gsat.data.load(name)
    X, y = torch.from_numpy(table.train.X), torch.from_numpy(table.train.codes)
    return X, y, torch.from_numpy(table.test.X), torch.from_numpy(table.test.codes), gsat.mean_norm(X[:5000])


def trained(name: str) -> nn.Module:
    """The model, trained from seed 0."""
    data, build, defence, n_outer, budget = MODELS[name]
    X, y, _, _, unit = images(data)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build(SHAPES[data])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gsat.gdadmm(
            model, X, y, defence(unit), n_outer=n_outer, group_size=100, optimizer=optimizer, schedule="cosine",
            budget=budget or 0.05, generator=Generator().manual_seed(0),
        )  # fmt: skip
    return model.eval().requires_grad_(False)


def digest(model: nn.Module) -> str:
    """The first 12 digits of the SHA-256 of all weights and running means."""
    found = hashlib.sha256()
    for name, value in model.state_dict().items():
        found.update(name.encode() + value.cpu().numpy().tobytes())
    return found.hexdigest()[:12]


def ours(structure: str, eps: float, steps: int, bounds: Bounds, strength: str) -> attacks.Attack:
    options = {"steps": steps, "bounds": bounds, "strength": strength}
    if structure == "low-rank":
        return attacks.LowRank(eps, rank=RANK, **options)
    if structure == "group-sparse":
        return attacks.GroupSparse(eps, k=COLUMNS, **options)
    return {"universal": attacks.Universal, "pgd": attacks.PGD}[structure](eps, **options)


def accuracy(
    model: nn.Module, x: Tensor, y: Tensor, bounds: Bounds, attack: Callable[[Tensor, Tensor], Tensor]
) -> float:
    hits = 0
    for group, labels in zip(torch.split(x, 200), torch.split(y, 200), strict=True):
        moved = group + attack(group, labels)
        moved = moved if bounds is None else moved.clamp(*bounds)
        hits += int((model(moved).argmax(1) == labels).sum())
    return 100 * hits / len(x)


def row(name: str, model: nn.Module, place: Place, options: argparse.Namespace, known: dict | None) -> dict:
    """Ours and the best rival, at one and at three times the gradients; the rivals are not run again where known."""
    structure, fraction, box = place
    _, _, x, y, unit = images(MODELS[name][0])
    x, y, eps, bounds = x[: options.n], y[: options.n], fraction * unit, (0.0, 1.0) if box else None
    found = {"model": name, "structure": structure, "eps": fraction, "box": box} | (known or {})
    found["weights"] = digest(model)
    if not known:
        found["weights of rivals"] = found["weights"]
    for strength, times in (("fast", 1), ("standard", SEARCHES)):
        attack, gradients = ours(structure, eps, options.steps, bounds, strength), times * options.steps
        found[strength] = accuracy(model, x, y, bounds, lambda x, y, attack=attack: attack.perturb(model, x, y))
        if known:
            continue
        others = {
            rival: accuracy(
                model, x, y, bounds,
                lambda x, y, made=made, gradients=gradients: made(
                    model, x, y, eps, gradients, bounds, COUNTS[structure]
                ),
            )
            for rival, made in rivals(structure, box)
        }  # fmt: skip
        found[f"best rival, {gradients} gradients"] = min(others.values())
        found[f"which, {gradients}"] = min(others, key=others.__getitem__)
    return found


def markdown(table: pd.DataFrame, steps: int) -> str:
    """The table of docs/guide/attacks.md."""
    many = SEARCHES * steps
    head = ["model", "attack", "eps", "box", f"fast, {steps}", f"best rival, {steps}"]
    head += [f"standard, {many}", f"best rival, {many}", "which"]
    lines = [head, ["---"] * len(head)]
    for entry in table.to_dict("records"):
        figures = (entry["fast"], entry[f"best rival, {steps} gradients"], entry["standard"])
        figures = [f"{figure:.1f}" for figure in (*figures, entry[f"best rival, {many} gradients"])]
        box = "yes" if entry["box"] else "no"
        which = re.sub(r" on [^,]*| columns|, rate .*", "", entry[f"which, {many}"])  # the csv file has it in full
        lines.append([entry["model"], entry["structure"], f"{entry['eps']:g}", box, *figures, which])
    return "\n".join(f"| {' | '.join(line)} |".replace("| --- ", "|---").replace("--- |", "---|") for line in lines)


def other_weights(table: pd.DataFrame) -> list[str]:
    """A line for each model on which rivals attacked other weights than ours, or nobody knows which."""
    columns = table.reindex(columns=["model", "weights", "weights of rivals"])
    apart = columns[columns["weights"] != columns["weights of rivals"]]  # NaN differs from itself
    counts = apart["model"].value_counts()
    return [f"{name}: rivals attacked other or unknown weights, {n} rows" for name, n in counts.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1000, help="test images")
    parser.add_argument("--steps", type=int, default=50, help="gradients of one search")
    parser.add_argument("--models", default=";".join(MODELS), help="names, separated by semicolons")
    parser.add_argument("--structures", default=",".join(COUNTS))
    parser.add_argument("--box", choices=("both", "with", "without"), default="both")
    parser.add_argument("--out", type=Path, help="a csv file; rows that are there are not run again")
    parser.add_argument("--ours", action="store_true", help="run ours again in rows that are there; rivals stay")
    options = parser.parse_args()
    records = pd.read_csv(options.out).to_dict("records") if options.out and options.out.exists() else []
    rows = {(entry["model"], entry["structure"], entry["eps"], entry["box"]): entry for entry in records}
    for name in options.models.split(";"):
        model = None
        for fraction, structure, box in product(EPS[name], options.structures.split(","), (False, True)):
            place = (structure, fraction, box)
            alone = structure == "pgd" and not box  # the other libraries know images in [0, 1] only
            unwanted = options.box == ("without" if box else "with") and structure != "pgd"
            known = rows.get((name, *place))
            if alone or unwanted or (known and not options.ours):
                continue
            model = trained(name) if model is None else model
            rows[(name, *place)] = row(name, model, place, options, known)
            print(rows[(name, *place)], flush=True)
            if options.out:
                pd.DataFrame(rows.values()).to_csv(options.out, index=False)
    table = pd.DataFrame(rows.values()).sort_values(
        "model", key=lambda names: names.map(list(MODELS).index), kind="stable"
    )
    print(markdown(table, options.steps))
    for line in other_weights(table):
        print(line)
    for strength, times in (("fast", 1), ("standard", SEARCHES)):
        gap = table[strength] - table[f"best rival, {times * options.steps} gradients"]
        print(
            f"{strength} − best rival: at most {gap.max():+.1f} points, {gap.mean():+.1f} on average, {len(gap)} rows"
        )


if __name__ == "__main__":
    main()
