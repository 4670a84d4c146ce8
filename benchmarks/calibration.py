"""How well the probabilities of GSAT are calibrated, plain and with calibrate=True.

The expected calibration error in percent over 15 bins of the largest probability, the cross-entropy and the accuracy in
percent on test rows: mean over seeds with Student's 95 % interval. Logistic regression has no seed. All else is as the
estimators have it; MNIST has 5,000 rows to train on, and 2,000 to test on.

    python benchmarks/calibration.py --data digits mnist
"""

import argparse
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gsat
from gsat.theory.intervals import student

BINS = 15
MOST_TRAIN, MOST_TEST = 5000, 2000


def calibration_error(chances: np.ndarray, right: np.ndarray) -> float:
    """Σ_b |share right − mean probability| over bins of the largest probability, weighted by their samples."""
    sure = chances.max(1)
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [abs((right[bins == b].astype(float) - sure[bins == b]).sum()) for b in range(BINS)]
    return float(np.sum(gaps) / len(right))


def measured(classifier: Any, train: tuple[Any, Any], test: tuple[Any, Any]) -> list[float]:
    """Calibration error, cross-entropy and accuracy of a classifier that is fitted here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(*train)
    chances = classifier.predict_proba(test[0])
    codes = np.searchsorted(classifier.classes_, test[1])
    right = chances.argmax(1) == codes
    entropy = -np.log(np.maximum(chances[np.arange(len(codes)), codes], 1e-12)).mean()
    return [100 * calibration_error(chances, right), float(entropy), 100 * float(right.mean())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["digits", "mnist"])
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    kinds = {
        "logistic regression": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "ERM": lambda seed: gsat.ERMClassifier(random_state=seed),
        "ERM, calibrate=True": lambda seed: gsat.ERMClassifier(random_state=seed, calibrate=True),
        "GSAT low-rank": lambda seed: gsat.GSATClassifier(random_state=seed),
        "GSAT low-rank, calibrate=True": lambda seed: gsat.GSATClassifier(random_state=seed, calibrate=True),
    }
    print("| data | classifier | calibration error | cross-entropy | accuracy |\n|---|---|---|---|---|")
    for name in asked.data:
        table = gsat.data.load(name)
        train, test = (
            (part.X[:most].reshape(min(most, len(part.y)), -1), part.y[:most])
            for part, most in ((table.train, MOST_TRAIN), (table.test, MOST_TEST))
        )
        for kind, make in kinds.items():
            found = [measured(make(seed), train, test) for seed in range(1 if "regression" in kind else asked.seeds)]
            cells = []
            for column, digits in zip(np.transpose(found), (1, 3, 1), strict=True):
                low, high = student(column, 0.95) if len(column) > 1 else (column[0], column[0])
                cells.append(f"{column.mean():.{digits}f} ± {(high - low) / 2:.{digits}f}")
            print(f"| {name} | {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
