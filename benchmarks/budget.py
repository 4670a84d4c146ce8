"""What the adversary uses of its budget over the last tenth of a run, 1 where it meets it, by structure and length.

An ELU net on digits with the defaults of `gsat.gdadmm` but for the learning rate; the mean over seeds, least and most.
"""

import argparse

import numpy as np
import torch

import gsat
from gsat import registry
from gsat.data import load
from gsat.models import build


def used(name: str, n_outer: int, seed: int) -> float:
    table = load("digits")
    X, y = torch.from_numpy(table.train.X).float(), torch.from_numpy(table.train.codes)
    model = build("elu", X.shape[1:], 10, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    defence = registry.named(name, eps=0.0)
    history = gsat.gdadmm(model, X, y, defence, n_outer=n_outer, eta0=1e-3, generator=generator)
    return float("nan") if history.used is None else history.used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", nargs="+", type=int, default=[100, 200, 500, 1000])
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'groups':>6}  {'structure':<14}{'mean':>7}{'least':>7}{'most':>7}")
    for n_outer in asked.lengths:
        for name in registry.STRUCTURES:
            found = [used(name, n_outer, seed) for seed in range(asked.seeds)]
            print(f"{n_outer:>6}  {name:<14}{np.mean(found):>7.3f}{min(found):>7.3f}{max(found):>7.3f}", flush=True)


if __name__ == "__main__":
    main()
