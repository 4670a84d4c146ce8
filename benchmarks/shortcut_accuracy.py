"""Accuracy with the row-space short-cut and without it: the same training runs twice, and paired differences.

An ELU net on MNIST, `--n-outer` groups of 200, lam="auto" with budget 0.05; attacks of eps = 0.2·E‖X‖ and `--steps`
gradients on the first `--n-test` test images, through the short-cut for both. Without it the model is wrapped in a
module that no short-cut recognises. Figures are in percent, differences with the standard error over the seeds.
"""

import argparse
import math
import statistics

import torch

import gsat
from gsat.data import load
from gsat.models import build
from gsat.registry import structure_cost
from problems import BUDGET, Opaque

DEFENCES = ("low-rank", "universal", "group-sparse", "PGD")
COLUMNS = ("clean", "universal", "50 columns", "rank 3", "PGD")


def accuracies(name: str, seed: int, plain: bool, options: argparse.Namespace) -> list[float]:
    """Accuracy without attack and under each attack, in percent."""
    table = load("mnist")
    X, y = torch.from_numpy(table.train.X), torch.from_numpy(table.train.codes)
    unit = gsat.mean_norm(X)
    if name == "PGD":
        defence = gsat.defences.PGD(BUDGET * unit)
    else:
        defence = gsat.defences.GSAT(
            structure_cost(name, alpha=0.2), n_inner=20, generator=torch.Generator().manual_seed(seed)
        )
    model = build("elu", X.shape[1:], 10, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    trained = Opaque(model) if plain else model
    gsat.gdadmm(trained, X, y, defence, n_outer=options.n_outer, eta0=1e-3, budget=BUDGET, generator=generator)
    eps, n = 0.2 * unit, options.n_test
    attacks = [
        gsat.attacks.Universal(eps, steps=options.steps),
        gsat.attacks.GroupSparse(eps, k=50, steps=options.steps),
        gsat.attacks.LowRank(eps, rank=3, steps=options.steps),
        gsat.attacks.PGD(eps, steps=options.steps),
    ]
    found = gsat.evaluate(model.eval(), table.test.X[:n], table.test.codes[:n], attacks)
    return list(100 * found[found["attack"] != "universal-all"]["accuracy"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--n-outer", type=int, default=300)
    parser.add_argument("--n-test", type=int, default=400)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    print(f"{'trained with':<14}{'short-cut':<12}" + "".join(f"{column:>14}" for column in COLUMNS))
    for name in DEFENCES:
        on, off = ([accuracies(name, seed, plain, options) for seed in range(options.seeds)] for plain in (False, True))
        for title, runs in (("on", on), ("off", off)):
            cells = [f"{statistics.fmean(column):.2f}" for column in zip(*runs, strict=True)]
            print(f"{name:<14}{title:<12}" + "".join(f"{cell:>14}" for cell in cells))
        apart = [[a - b for a, b in zip(*pair, strict=True)] for pair in zip(on, off, strict=True)]
        cells = [mean_and_error(column) for column in zip(*apart, strict=True)]
        print(f"{'':<14}{'difference':<12}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


def mean_and_error(values: tuple[float, ...]) -> str:
    """The mean and its standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):+.2f} ± {error:.2f}"


if __name__ == "__main__":
    main()
