"""How long `GSATClassifier().fit` takes, as a multiple of `ERMClassifier().fit`, and how robust the model is.

For each data set and structure, and for each number of inner gradients asked for: the mean over seeds with Student's
95 % interval of the ratio of CPU times, of the accuracy on test rows without attack, and of that under attacks of eps =
0.1·E‖X‖ and 50 gradients. All else is as the estimators have it; MNIST has 5,000 rows to train on. One thread.
With --early-stopping each is fitted with early_stopping=True besides, and the paired difference to without is told.

    python benchmarks/fit_time.py --data digits --n-inner 20 5
    python benchmarks/fit_time.py --data digits --n-inner 5 --early-stopping
"""

import argparse
import itertools
import time
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

import gsat
from gsat import _defaults, registry
from gsat.theory.intervals import student

ATTACKS = ("low-rank:5@0.1", "group-sparse:50@0.1", "universal@0.1", "pgd@0.1")
MOST_TRAIN, STEPS = 5000, 50


def rows(part: Any, most: int) -> tuple[Any, Any]:
    """The first rows, images as vectors, and their labels."""
    return part.X[:most].reshape(min(most, len(part.y)), -1), part.y[:most]


def fitted(classifier: Any, table: Any) -> tuple[Any, float]:
    """The classifier, and the seconds of CPU time that its fit takes."""
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(*rows(table.train, MOST_TRAIN))
    return classifier, time.process_time() - begin


def accuracies(classifier: Any, test: tuple[Any, Any]) -> list[float]:
    """In percent: without attack, then under each of the attacks."""
    attacks = [registry.parse_attack(text, classifier.mean_norm_, steps=STEPS) for text in ATTACKS]
    found = gsat.evaluate(classifier, *test, attacks)
    return list(100 * found.loc[found["attack"] != "universal-all", "accuracy"])


def cells(values: Any, sign: str = "") -> str:
    """The columns of a table's row: mean ± half of the interval, over seeds; sign="+" for differences."""
    found = []
    for column in np.transpose(values):
        low, high = student(column, 0.95) if len(column) > 1 else (column[0], column[0])
        found.append(f"{column.mean():{sign}.1f} ± {(high - low) / 2:.1f}")
    return " | ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["digits", "mnist", "tcga"])
    parser.add_argument("--structures", nargs="+", default=[_defaults.STRUCTURE])
    parser.add_argument("--n-inner", nargs="+", type=int, default=[20, 5])
    parser.add_argument("--n-outer", type=int, default=_defaults.N_OUTER)
    parser.add_argument("--early-stopping", action="store_true")
    parser.add_argument("--n-test", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    n_outer, seeds = asked.n_outer, range(asked.seeds)
    torch.set_num_threads(1)
    print(f"| data | trained with | T₁ | time | clean | {' | '.join(ATTACKS)} |")
    print("|---" * (5 + len(ATTACKS)) + "|")
    for name in asked.data:
        table = gsat.data.load(name)
        test = rows(table.test, asked.n_test)
        plain = [fitted(gsat.ERMClassifier(n_outer=n_outer, random_state=seed), table)[0] for seed in seeds]
        print(
            f"| {name} | ERM | | {cells([[1.0, *accuracies(classifier, test)] for classifier in plain])} |", flush=True
        )
        for structure, n_inner in itertools.product(asked.structures, asked.n_inner):
            found: dict[bool, list[list[float]]] = {False: []} | ({True: []} if asked.early_stopping else {})
            for seed in seeds:  # the times of a ratio side by side
                _, unit = fitted(gsat.ERMClassifier(n_outer=n_outer, random_state=seed), table)
                for early, values in found.items():
                    options = {"n_outer": n_outer, "early_stopping": early, "random_state": seed}
                    classifier, took = fitted(gsat.GSATClassifier(structure, n_inner=n_inner, **options), table)
                    values.append([took / unit, *accuracies(classifier, test)])
            for early, values in found.items():
                kind = "stopped early" if early else structure
                print(f"| {name} | {kind} | {n_inner} | {cells(values)} |", flush=True)
            if asked.early_stopping:
                whole, short = found.values()
                print(f"| {name} | difference | {n_inner} | {cells(np.subtract(short, whole), '+')} |", flush=True)


if __name__ == "__main__":
    main()
