"""Rankings by other people's methods: random forest, mRMR, Boruta, and knockoffs with the LASSO (hidimstat)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import f_classif
from sklearn.linear_model import LassoCV
from sklearn.utils import check_random_state

from gsat.experiments.selection import Scores, by_block


@dataclass(frozen=True)
class Forest:
    """How much the splits of a random forest on a feature lower the impurity, on average."""

    n_trees: int = 500

    def __call__(self, X: NDArray[Any], y: NDArray[Any], blocks: NDArray[np.int64], seed: int) -> Scores:
        """The sum over the columns of a block."""
        forest = RandomForestClassifier(self.n_trees, random_state=seed).fit(X, y)
        return by_block(forest.feature_importances_, blocks, np.add)


@dataclass(frozen=True)
class MRMR:
    """Minimum redundancy, maximum relevance (Peng et al.; the F-test correlation quotient of Zhao et al.).

    The next feature is the one with the largest F/mean |correlation with those that are in|; n_ranked are put in order
    so, the others follow by F alone. A block has the F and the correlations of its column with the largest F.
    """

    n_ranked: int = 100

    def __call__(self, X: NDArray[Any], y: NDArray[Any], blocks: NDArray[np.int64], seed: int) -> Scores:
        """The place in the order, the first having the most."""
        moving = X.std(0) > 0
        relevance = np.zeros(X.shape[1])
        relevance[moving] = np.nan_to_num(f_classif(X[:, moving], y)[0], posinf=1e12)
        best = _best_column(relevance, blocks)
        Z = X[:, best] - X[:, best].mean(0)
        Z = Z / np.where(Z.std(0) > 0, Z.std(0), 1)
        value = relevance[best]
        scores: Scores = value / (value.max() + 1) - 1
        together, left = np.zeros(len(best)), np.ones(len(best), bool)
        for place in range(min(self.n_ranked, len(best))):
            quotient = np.where(left, value / np.maximum(together / max(place, 1), 1e-3) if place else value, -1.0)
            taken = int(quotient.argmax())
            left[taken], scores[taken] = False, self.n_ranked - place
            together += np.abs(Z.T @ Z[:, taken]) / len(Z)
        return scores


@dataclass(frozen=True)
class Boruta:
    """Boruta: in how many of its rounds a feature beats the best of shuffled copies, for a random forest."""

    max_iter: int = 50

    def __call__(self, X: NDArray[Any], y: NDArray[Any], blocks: NDArray[np.int64], seed: int) -> Scores:
        """Minus Boruta's rank (1: confirmed, 2: tentative), ordered within by the median importance."""
        boruta = installed("boruta", "Boruta")
        forest = RandomForestClassifier(max_depth=5, n_jobs=1)
        state = check_random_state(seed)
        found = boruta.BorutaPy(forest, n_estimators="auto", max_iter=self.max_iter, random_state=state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy, where a feature was rejected at once
            found.fit(X.astype(np.float64), y)
            history = np.nanmedian(np.nan_to_num(found.importance_history_[1:], nan=0.0), axis=0)
        return by_block(-found.ranking_ + history / (1 + history.max()), blocks, np.maximum)


@dataclass(frozen=True)
class LassoKnockoffs:
    """Model-X knockoffs with the LASSO (hidimstat): a weight less that of the knockoff."""

    n_folds: int = 5

    def __call__(self, X: NDArray[Any], y: NDArray[Any], blocks: NDArray[np.int64], seed: int) -> Scores:
        """The largest difference over the classes, and over the columns of a block."""
        classes = np.unique(y)
        found = [self._of(X, y == label, seed) for label in (classes[1:] if len(classes) == 2 else classes)]
        return by_block(np.max(found, axis=0), blocks, np.maximum)

    def _of(self, X: NDArray[Any], y: NDArray[np.bool_], seed: int) -> Scores:
        hidimstat = installed("hidimstat", "hidimstat")
        Z = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1)
        lasso = LassoCV(cv=self.n_folds, max_iter=2000, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of paths that have not converged
            knockoff = hidimstat.ModelXKnockoff(estimator=lasso, random_state=seed)
            return np.asarray(knockoff.fit_importance(Z.astype(np.float64), y.astype(np.float64)), np.float64).ravel()


def installed(module: str, package: str) -> Any:
    """The module, or an error that says what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"this ranking needs {package}: pip install {package}") from error


def _best_column(relevance: Scores, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The column of each block with the largest relevance."""
    order = np.lexsort((-relevance, blocks))
    first: NDArray[np.int64] = np.unique(blocks[order], return_index=True)[1]
    return order[first]
