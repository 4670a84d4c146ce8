"""What `GSATClassifierCV` chooses from on real shifts: with and without LDA, the best one and the average.

The candidates of the method "GSAT all" of `gsat reproduce shifts --scale cpu` alone, with the same folds, numbers and
seed, on the first held-out batches of some tasks: balanced accuracy in percent on the batch that is held out.

    python benchmarks/choosing.py --tasks bladderbatch stemcells gas-drift --held-out 2
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["bladderbatch", "stemcells", "gas-drift"])
    parser.add_argument("--held-out", type=int, default=2, help="batches of a task")
    parser.add_argument("--out", type=Path, help="a file that gets the rows of each batch when it is done")
    asked = parser.parse_args()
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
