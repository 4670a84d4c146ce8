"""Clean accuracy of the narrow AlexNet on MNIST after few groups, where PGD of the same mean norm lags behind GSAT.

Width 1/16 and the training of `gsat reproduce --scale cpu`; the mean norm of all defences but ERM is 0.05·E‖X‖. Needs
the data (GSAT_DATA or the cache).
"""

import argparse
import statistics
from dataclasses import replace

import gsat
from gsat.estimators.from_table import samples, train
from gsat.experiments.setting import SCALES

DEFENCES = ("pgd", "unstructured", "low-rank")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--groups", type=int, nargs="+", default=[150, 300])
    asked = parser.parse_args()
    table = gsat.data.load("mnist")
    for groups in asked.groups:
        for name in DEFENCES:
            plan = replace(SCALES["cpu"].alexnet.plan, defence=name, size=0.05, n_outer=groups)
            models = [train(table.train, replace(plan, seed=seed)).classifier for seed in range(asked.seeds)]
            clean = [100 * model.score(samples(table.test), table.test.y) for model in models]
            each = ", ".join(f"{value:.1f}" for value in clean)
            print(f"{groups} groups, {name}: clean {statistics.fmean(clean):.1f} ({each})", flush=True)


if __name__ == "__main__":
    main()
