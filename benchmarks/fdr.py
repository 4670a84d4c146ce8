"""False discoveries of `GroupSparseSelector(fdr=...)` and of the LASSO with the same knockoffs, and the rate asked for.

1,000 samples of 300 normal features, two classes, 30 features that count. Three laws of the features (independent; one
factor behind all, so that any two have the correlation 0.2; chains with 0.5 between neighbours) and two of the label
(a sum of the features; a sum of squares and sines, half each). Nothing was tuned on these problems.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t
from sklearn.linear_model import LassoCV

import gsat
from gsat.selectors.knockoffs import knockoffs, threshold

N, D, RELEVANT = 1000, 300, 30
FACTOR, CHAIN = 0.2, 0.5  # correlations
Chosen = NDArray[np.bool_]


@dataclass(frozen=True)
class Problem:
    """X (1000, 300), y (1000,) in {0, 1}, and which columns the label depends on (300,)."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    relevant: Chosen


def problem(law: str, effect: str, seed: int) -> Problem:
    """A draw of that law of the features and of the label, split at its median."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    if law == "one factor":
        X = np.sqrt(1 - FACTOR) * X + np.sqrt(FACTOR) * rng.normal(size=(N, 1))
    elif law == "chains":
        for j in range(1, D):
            X[:, j] = CHAIN * X[:, j - 1] + np.sqrt(1 - CHAIN**2) * X[:, j]
    relevant = np.zeros(D, bool)
    relevant[rng.choice(D, RELEVANT, replace=False)] = True
    x = X[:, relevant]
    if effect == "linear":
        target = x @ rng.choice([-1.0, 1.0], RELEVANT)
    else:
        half = RELEVANT // 2
        target = ((x[:, :half] ** 2 - 1) / np.sqrt(2)).sum(1) + (np.sqrt(2) * np.sin(np.pi * x[:, half:] / 2)).sum(1)
    target = target + rng.normal(size=N)
    return Problem(X, (target > np.median(target)).astype(np.int64), relevant)


def ours(p: Problem, fdr: float, seed: int) -> Chosen:
    found: Chosen = gsat.GroupSparseSelector(RELEVANT, fdr=fdr, random_state=seed).fit(p.X, p.y).get_support()
    return found


def lasso(p: Problem, fdr: float, seed: int) -> Chosen:
    """|β_j| less that of the knockoff, of a LASSO whose penalty is chosen by cross-validation; the same knockoffs."""
    Z = (p.X - p.X.mean(0)) / p.X.std(0)
    both = np.concatenate([Z, knockoffs(Z, np.arange(D), np.random.default_rng(seed))], axis=1)
    weight = np.abs(LassoCV(cv=5, max_iter=2000, tol=1e-3, random_state=seed).fit(both, p.y).coef_)
    statistic = weight[:D] - weight[D:]
    return np.asarray(statistic >= threshold(statistic, fdr))


METHODS: dict[str, Callable[[Problem, float, int], Chosen]] = {"GroupSparseSelector": ours, "LASSO, knockoffs": lasso}


def rates(chosen: Chosen, relevant: Chosen) -> tuple[float, float]:
    """The share of false features among those chosen (0 of none), and the share of the relevant ones that is chosen."""
    return float((chosen & ~relevant).sum() / max(chosen.sum(), 1)), float((chosen & relevant).sum() / relevant.sum())


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--fdr", type=float, nargs="+", default=[0.1, 0.2])
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f"percent, mean over {options.seeds} seeds and half of Student's 95 % interval")
    print("| features | label | method | asked | false among chosen | found of 30 | seconds |")
    print("|---|---|---|---|---|---|---|")
    for law in ("independent", "one factor", "chains"):
        for effect in ("linear", "squares and sines"):
            for name, method in METHODS.items():
                for fdr in options.fdr:
                    begin, found = time.process_time(), []
                    for seed in range(options.seeds):
                        p = problem(law, effect, seed)
                        found.append(rates(method(p, fdr, 1000 + seed), p.relevant))
                    seconds = (time.process_time() - begin) / options.seeds
                    mean = 100 * np.mean(found, axis=0)
                    error = 100 * np.std(found, axis=0, ddof=1) / np.sqrt(len(found)) * t.ppf(0.975, len(found) - 1)
                    rest = " | ".join(f"{a:.1f} ± {b:.1f}" for a, b in zip(mean, error, strict=True))
                    print(f"| {law} | {effect} | {name} | {100 * fdr:g} | {rest} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
