"""What `GSATClassifierCV` chooses from on real shifts: with and without LDA, the best one and the average.

The candidates of the method "GSAT all" of `gsat reproduce shifts --scale cpu` alone, with the same folds, numbers and
seed, on the first held-out batches of some tasks: balanced accuracy in percent on the batch that is held out.

    python benchmarks/choosing.py --tasks bladderbatch stemcells gas-drift --held-out 2

Of a run of that experiment, what is taken with and without LDA, and differences over the sets with Student's 95 %
interval; nothing is trained, and averages, which need the probabilities, are not there:

    python benchmarks/choosing.py --results results/shifts/results.csv
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gsat.experiments.shift_choice import GSAT_ALL, METHODS, PREPARED, Methods, chosen, over_seeds
from gsat.experiments.shift_folds import averaged, fold
from gsat.experiments.shift_tasks import chosen_tasks, loaded
from gsat.experiments.shifts import SETTINGS
from gsat.theory.intervals import student

OURS = METHODS[GSAT_ALL + PREPARED]
SHOWN = Methods(
    (
        METHODS["logistic" + PREPARED],
        METHODS["LDA" + PREPARED],
        replace(OURS, name="without LDA", families=tuple(one for one in OURS.families if one != "lda")),
        replace(OURS, name="with LDA"),
    )
)


def measured(task: Any, held_out: str) -> pd.DataFrame:
    """Balanced accuracy of each method, of the one that it takes and of its average, in percent."""
    table = loaded(task, None)
    rows, shares = fold(table, task, held_out, SETTINGS["cpu"], OURS.families)
    known = np.asarray(table.batch) == held_out
    y, others = np.asarray(table.y)[known], np.unique(np.asarray(table.y)[~known])
    means = averaged(rows, shares, others, y[np.isin(y, others)], SHOWN).set_index("defence")
    taken = chosen(over_seeds(rows), SHOWN.all).set_index("defence")
    found = pd.DataFrame({"best": taken["balanced_accuracy"], "average": means["balanced_accuracy"]})
    about = {"set": task.name, "held out": held_out, "candidates": taken["candidates"], "averaged": means["averaged"]}
    return (100 * found).assign(**about, hindsight=100 * taken["hindsight"])


def of_run(path: Path) -> None:
    """Print what is taken of the candidates of a run, set by set, and the gain of LDA."""
    candidates = over_seeds(pd.read_csv(path))
    taken = chosen(candidates, SHOWN.all)
    by_set = taken.pivot_table(index="data", columns="defence", values="balanced_accuracy", sort=False)
    print((100 * by_set).round(1).to_string())
    print((100 * by_set.mean()).round(1).to_string())
    for other in ("without LDA", SHOWN.all[0].name, SHOWN.all[1].name):
        gain = 100 * (by_set["with LDA"] - by_set[other])
        low, high = student(gain.to_numpy(), 0.95)
        print(f"with LDA less {other}: {gain.mean():+.1f} ({low:.1f} to {high:.1f}), better on {(gain > 0).sum()} sets")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["bladderbatch", "stemcells", "gas-drift"])
    parser.add_argument("--held-out", type=int, default=2, help="batches of a task")
    parser.add_argument("--out", type=Path, help="a file that gets the rows of each batch when it is done")
    parser.add_argument("--results", type=Path, help="results.csv of a run of the experiment: nothing is trained")
    asked = parser.parse_args()
    if asked.results is not None:
        of_run(asked.results)
        return
    torch.set_num_threads(1)
    found = []
    for task in chosen_tasks(tuple(asked.tasks)):
        for held_out in task.held_out[: asked.held_out]:
            found.append(measured(task, held_out).reset_index())
            if asked.out is not None:
                pd.concat(found).to_csv(asked.out, index=False)
            print(found[-1].round(1).to_string(index=False), flush=True)
    numbers = ["best", "average", "hindsight"]
    by_set = pd.concat(found).groupby(["set", "defence"], sort=False)[numbers].mean()
    print(by_set.round(1).to_string())
    print(by_set.groupby("defence", sort=False).mean().round(1).to_string())


if __name__ == "__main__":
    main()
