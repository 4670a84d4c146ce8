"""Which recipe trains best: how many shifts for the universal cost, and which weight alpha of the structure.

An ELU net on MNIST, `--n-outer` groups of 200, lam="auto" with budget 0.05, one seed; attacks of eps = 0.2·E‖X‖ and 50
gradients on 1,000 test images. `docs/choose.md` has the table that this prints.
"""

import argparse

import joblib
import torch

import gsat
from gsat.data import load
from gsat.models import build

COSTS = {
    "PGD, eps 0.05": None,
    "universal, 1 shift per group": gsat.Universal(),
    "universal, 10 shifts": gsat.PerBatch(gsat.Universal(), n_random=10),
    "universal, 40 shifts": gsat.PerBatch(gsat.Universal(), n_random=40),
    "universal, 100 shifts": gsat.PerBatch(gsat.Universal(), n_random=100),
    "unstructured": gsat.Unstructured(),
    "low-rank, alpha 0.5": gsat.LowRank(0.5),
    "low-rank, alpha 0.2": gsat.LowRank(0.2),
    "group-sparse, alpha 0.5": gsat.GroupSparse(0.5),
    "group-sparse, alpha 0.2": gsat.GroupSparse(0.2),
}


def accuracies(name: str, n_outer: int, threads: int) -> list[float]:
    torch.set_num_threads(threads)
    table = load("mnist")
    X, y = torch.from_numpy(table.train.X), torch.from_numpy(table.train.codes)
    unit = gsat.mean_norm(X)
    cost = COSTS[name]
    defence = gsat.defences.PGD(0.05 * unit) if cost is None else gsat.defences.GSAT(cost, n_inner=20)
    model = build("elu", X.shape[1:], 10, seed=0)
    history = gsat.gdadmm(model, X, y, defence, n_outer=n_outer, eta0=1e-3)
    eps = 0.2 * unit
    attacks = [
        gsat.attacks.Universal(eps, steps=50),
        gsat.attacks.GroupSparse(eps, k=50, steps=50),
        gsat.attacks.LowRank(eps, rank=3, steps=50),
        gsat.attacks.PGD(eps, steps=50),
    ]
    found = gsat.evaluate(model.eval(), table.test.X[:1000], table.test.codes[:1000], attacks)
    rows = found[found["attack"] != "universal-all"]
    return [history.mean_norm / unit, *(100 * rows["accuracy"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-outer", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    calls = [joblib.delayed(accuracies)(name, options.n_outer, 1) for name in COSTS]
    heads = ("mean norm/E‖X‖", "clean", "universal", "50 columns", "rank 3", "PGD")
    print(f"{'trained against':<30}" + "".join(f"{head:>16}" for head in heads))
    for name, found in zip(COSTS, joblib.Parallel(n_jobs=options.jobs)(calls), strict=True):
        print(f"{name:<30}{found[0]:>16.3f}" + "".join(f"{value:>16.1f}" for value in found[1:]))


if __name__ == "__main__":
    main()
