"""How often gsat.diagnose names the structure that gsat.data.make_shift put in, and how well it measures its size."""

from collections import Counter

import numpy as np

import gsat
from gsat.data import make_shift
from gsat.data.synthetic import STRUCTURES

DATA = ((400, 50), (120, 30), (40, 20), (200, 1000))  # samples of both batches, features
SIZES = (0.3, 0.5, 1.0)  # of the shift, in mean norms of the clean samples
SEEDS = range(9000, 9020)  # not those that the constants of the method were chosen on


def verdicts(kind: str, strength: float, n: int, d: int) -> Counter[str]:
    tables = (make_shift(n, d, shift=kind, strength=strength, seed=seed) for seed in SEEDS)
    return Counter(gsat.diagnose(table.X, table.batch, table.y).structure for table in tables)


def size_ratios(kind: str, strength: float) -> list[float]:
    ratios = []
    for seed in SEEDS:
        table = make_shift(shift=kind, strength=strength, seed=seed)
        found = gsat.diagnose(table.X, table.batch, table.y, standardize=False)
        true = np.square(table.test.shift).sum(1).mean() ** 0.5 / found.mean_norm
        ratios.append(found.size / true)
    return ratios


def main() -> None:
    print("size found / root mean square of the shift, mean ± standard deviation over seeds, 400 x 50, size 0.5")
    for kind in STRUCTURES[1:]:
        ratios = size_ratios(kind, 0.5)
        print(f"{kind:<13} {np.mean(ratios):.3f} ± {np.std(ratios):.3f}", flush=True)
    print("\nverdicts that are right, of 20 seeds")
    print("samples features size  " + "  ".join(f"{kind:<13}" for kind in STRUCTURES) + "  mistaken for")
    for n, d in DATA:
        for size in SIZES:
            found = {kind: verdicts(kind, size, n, d) for kind in STRUCTURES}
            right = "  ".join(f"{names[kind]:<13}" for kind, names in found.items())
            wrong = {kind: dict(names - Counter({kind: len(SEEDS)})) for kind, names in found.items()}
            mistakes = "; ".join(f"{kind}: {names}" for kind, names in wrong.items() if names)
            print(f"{n:<7} {d:<8} {size:<5} {right}  {mistakes}", flush=True)


if __name__ == "__main__":
    main()
