"""Recall of the ten relevant features among the ten ranked first, for GroupSparseSelector and other methods.

The three problems are those of selection_problems.py: 600 samples, 2,000 features, two classes. "LASSO + bumps" is the
LASSO on every feature and exp(−x²/2) of it, which is also what GroupSparseSelector's network sees: it tells how much
of the difference is due to that. What a method has to choose was chosen on the seeds 100 to 104, not on those reported.
"""

import argparse
import time

import numpy as np
import torch
from numpy.typing import NDArray

from gsat.experiments.selection import Adversary, Gradient, Lasso, Once
from gsat.experiments.selection_rivals import MRMR, Boruta, Forest, LassoKnockoffs
from gsat.selectors.elimination import bump
from selection_problems import INTERACTIONS, PROBLEMS, RELEVANT, Problem


def lasso_with_bumps(X: NDArray, y: NDArray, blocks: NDArray, seed: int) -> NDArray:
    Z = (X - X.mean(0)) / X.std(0)
    curved = bump(torch.from_numpy(Z)).numpy()
    return Lasso()(np.concatenate([Z, curved], axis=1), y, np.tile(blocks, 2), seed)


def lassonet(X: NDArray, y: NDArray, blocks: NDArray, seed: int) -> NDArray:
    """The penalty at which LassoNet drops a feature, on a path from dense to sparse."""
    from lassonet import LassoNetClassifier

    Z = (X - X.mean(0)) / X.std(0)
    model = LassoNetClassifier(
        hidden_dims=(100,), M=100, lambda_start=200.0, path_multiplier=1.05, n_iters=(200, 20), verbose=0,
        random_state=seed, torch_seed=seed,
    )  # fmt: skip
    model.path(Z, y)
    return model.feature_importances_.numpy()


METHODS = {
    "GroupSparseSelector": Adversary(k=RELEVANT),
    "LASSO": Lasso(),
    "LASSO + bumps": lasso_with_bumps,
    "gradient": Gradient(),
    "LassoNet": lassonet,
    "GSAT, trained once": Once(),
    "random forest": Forest(),
    "mRMR": MRMR(),
    "Boruta": Boruta(),
    "knockoffs, LASSO": LassoKnockoffs(),
}


def recall(scores: NDArray, problem: Problem) -> float:
    k = len(problem.relevant)
    first = np.argsort(-scores, kind="stable")[:k]
    return len(np.intersect1d(first, problem.relevant)) / k


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--interactions", action="store_true", help="the problems of pure interaction instead")
    options = parser.parse_args()
    problems = INTERACTIONS if options.interactions else PROBLEMS
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # LassoNet is ten times slower without
    heads = [*problems, "mean", "seconds"]
    print(f"recall in percent, mean ± standard deviation over the seeds {options.seeds}")
    print(f"{'':<20}" + "".join(f"{head:>20}" for head in heads))
    for name in options.methods:
        begin = time.process_time()
        found = np.array(
            [
                [
                    100 * recall(METHODS[name](p.X, p.y, np.arange(p.X.shape[1]), seed), p)
                    for seed in options.seeds
                    for p in [make(seed)]
                ]
                for make in problems.values()
            ]
        )
        each = (time.process_time() - begin) / found.size
        spread = found.std(axis=1, ddof=1) if found.shape[1] > 1 else np.zeros(len(found))
        cells = [f"{m:.0f} ± {s:.0f}" for m, s in zip(found.mean(axis=1), spread, strict=True)]
        print(
            f"{name:<20}" + "".join(f"{cell:>20}" for cell in [*cells, f"{found.mean():.1f}", f"{each:.1f}"]),
            flush=True,
        )


if __name__ == "__main__":
    main()
