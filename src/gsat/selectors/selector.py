"""Feature selection by the adversary: what it moves most is what the model leans on most."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from tqdm.auto import tqdm

from gsat import _checks, _defaults
from gsat._arrays.standardise import Standardised, mean_and_scale
from gsat.costs import block_numbers, flat_labels
from gsat.data.memory import room
from gsat.data.rows import StoredRows, some_rows
from gsat.estimators.given import labelled, unlabelled
from gsat.selectors.common import FromAdversary, cut
from gsat.selectors.elimination import Elimination, n_rounds
from gsat.selectors.knockoffs import knockoffs, threshold

COPIES = 8  # of the samples in float64, of which knockoffs are made by a singular value decomposition


@dataclass(eq=False, repr=False, kw_only=True)
class GroupSparseSelector(SelectorMixin, FromAdversary):  # type: ignore[misc]
    """The k features that the group-sparse adversary spends most of its effort on.

    Networks are trained against the group-sparse adversary in rounds (`gsat.selectors.elimination` says how and why):
    after each the half of the features with less effort is left out, until 2k are left. A feature's score is its share
    of the effort, the norm of its column of Δ over the last `n_groups` groups of a round, later rounds counting more.

    Parameters
    ----------
    k
        Features to keep; with feature_groups, blocks.
    feature_groups
        One block for each feature; blocks are then ranked.
    fdr
        The share of false features among those that are chosen, in expectation: None keeps k; a number, such as 0.1,
        keeps as many as a threshold finds that knockoffs calibrate (`gsat.selectors.knockoffs`), none where it finds
        none. k is then how many the rounds are meant for. Fewer than 1/fdr features are never chosen. It holds as far
        as the features are normal and their covariance is known, not for features that repeat each other.
    n_resamples
        Above 0, all is repeated on that many random halves of the samples, classes in proportion.
    n_groups
        Groups at the end of a round in which the effort is counted.
    budget, alpha, n_inner, group_size, hidden
        As in `GSATClassifier`, with numbers of its own; the inner solver is the linearised one.
    n_outer
        Groups per round.
    eta0
        Learning rate in units of 1/E‖X‖².
    curved
        Also find effects without a slope; of no use for one-hot columns, where it only costs time.
    random_state
        Of weights, groups and halves.
    verbose
        Above 0, a bar of the rounds.

    Attributes
    ----------
    scores_
        Each feature's share of the effort; with resamples the mean.
    ranking_
        1 for the best feature.
    statistic_, threshold_
        With fdr: each feature's share of the effort less that of its knockoff, and the least with which it is chosen.
    scores_interval_, selection_frequency_
        With resamples: a 95 % interval by Student's t, (features, 2), and the share of halves in which the feature was
        chosen. The interval is of the mean score over all random halves of these samples, NaN with one resample. The
        halves share samples: for other samples of the same kind it is too narrow.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(200, 20)
    >>> selector = gsat.GroupSparseSelector(k=5, n_outer=20, random_state=0).fit(table.X, table.y)
    >>> int(selector.get_support().sum()), selector.transform(table.X).shape
    (5, (200, 5))
    """

    k: int = field(default=100, kw_only=False)
    feature_groups: Any = None
    fdr: float | None = None
    n_resamples: int = 0
    n_groups: int = 20
    budget: float = 0.03
    alpha: float = 0.05
    n_inner: int = 1
    n_outer: int = 40
    group_size: int = 400
    hidden: int = _defaults.HIDDEN
    eta0: float = 2.0
    curved: bool = True
    random_state: Any = None
    verbose: int = 0

    def fit(self, X: Any, y: Any) -> GroupSparseSelector:
        """Rank the features.

        Parameters
        ----------
        X, y
            Samples (n, features), dense, sparse or `StoredRows`, and labels (n,). With fdr they must fit into memory.

        Returns
        -------
        self
            The fitted selector.
        """
        self._check_numbers()
        _checks.not_anndata("X", X, "GroupSparseSelector.fit(adata.X, adata.obs[key])")
        X, y = labelled(self, X, y, reset=True, ensure_min_samples=2)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes, got one class: {classes[0]!r}")
        rng = check_random_state(self.random_state)
        d = X.shape[1]
        blocks = np.arange(d)
        if self.feature_groups is not None:
            labels = flat_labels(self.feature_groups)
            if len(labels) != d:
                raise ValueError(f"feature_groups must have one entry per feature ({d}), got {len(labels)}")
            blocks = block_numbers(labels).numpy()
        n_blocks = int(blocks.max()) + 1
        k = cut("k", self.k, n_blocks, taken=self.fdr is None)  # with fdr, what the rounds are meant for
        columns = blocks
        if self.fdr is not None:  # the adversary is offered a knockoff of each feature too
            X, columns = _beside_knockoffs(X, blocks, int(rng.randint(2**31 - 1)))
        halves: list[Any] = [_half(y, rng) for _ in range(self.n_resamples)] or [slice(None)]  # a slice is no copy
        names = ("budget", "alpha", "n_inner", "n_outer", "n_groups", "group_size", "hidden", "eta0", "curved")
        elimination = Elimination(**{name: getattr(self, name) for name in names})
        seeds = [int(rng.randint(2**31 - 1)) for _ in halves]
        each = 1 if self.fdr is None else 2
        total = len(halves) * n_rounds(each * n_blocks, each * k)
        with tqdm(total=total, disable=not self.verbose, desc="group-sparse", unit="round") as bar:
            rounds = np.array(
                [
                    elimination.shares(some_rows(X, rows), codes[rows], columns, each * k, seed, bar.update)
                    for rows, seed in zip(halves, seeds, strict=True)
                ]
            )
        statistic: NDArray[np.float64] | None = None
        if self.fdr is not None:
            differences = rounds[:, :n_blocks] - rounds[:, n_blocks:]
            rounds, statistic = rounds[:, :n_blocks], differences.mean(0)
            self.threshold_ = threshold(statistic, self.fdr)
            self.statistic_ = statistic[blocks]
        mean = rounds.mean(0)
        order = np.argsort(-(mean if statistic is None else statistic), kind="stable")
        rank = np.empty(n_blocks, dtype=np.int64)
        rank[order] = np.arange(1, n_blocks + 1)
        self.scores_, self.ranking_ = mean[blocks], rank[blocks]
        if self.n_resamples > 0:
            chosen = np.argsort(np.argsort(-rounds, axis=1, kind="stable"), axis=1) < k
            self.selection_frequency_ = chosen.mean(0)[blocks]
            self.scores_interval_ = _interval(rounds)[blocks]
        self.k_ = k if statistic is None else int((statistic >= self.threshold_).sum())
        return self

    def transform(self, X: Any) -> Any:
        """The samples with the chosen features alone.

        Parameters
        ----------
        X
            Samples (n, features), dense, sparse or `StoredRows`.

        Returns
        -------
        array, csr_array or StoredRows
            Samples (n, chosen features).
        """
        if isinstance(X, StoredRows):
            return unlabelled(self, X).with_columns(self.get_support(indices=True))
        return super().transform(X)

    def _check_numbers(self) -> None:
        """Raise for a number that would rank nothing."""
        _checks.count("n_resamples", self.n_resamples)
        for name in ("n_groups", "n_inner", "n_outer", "group_size", "hidden"):
            _checks.count(name, getattr(self, name), least=1)
        if self.fdr is not None:
            _checks.number("fdr", self.fdr, above=0, below=1)
        for name in ("eta0", "budget"):
            _checks.number(name, getattr(self, name), above=0)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self, "ranking_")
        return np.asarray(self.ranking_ <= self.k_)


def _beside_knockoffs(X: Any, blocks: NDArray[np.int64], seed: int) -> tuple[Any, NDArray[np.int64]]:
    """Standardised samples with knockoffs of all columns on their right, and the block of each of both."""
    n, d = X.shape
    remedy = "without fdr samples that stay in their file are read a few at a time; or take fewer samples or features"
    room(f"fdr with {n:,} samples of {d:,} features", COPIES * 8 * n * d, remedy)
    Z = Standardised(X, *mean_and_scale(X))[:].astype(np.float64)
    copies = knockoffs(Z, blocks, np.random.default_rng(seed))
    return np.hstack([Z, copies]).astype(np.float32), np.concatenate([blocks, blocks + int(blocks.max()) + 1])


def _half(y: NDArray[Any], rng: Any) -> NDArray[np.int64]:
    """Half of the samples of each class, at least one of each."""
    parts = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    return np.sort(np.concatenate([part[: max(1, (len(part) + 1) // 2)] for part in parts]))


def _interval(rounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """95 % limits of the mean score of each block, (blocks, 2), from the scores (resamples, blocks); NaN from one."""
    n, mean = len(rounds), rounds.mean(0)
    if n < 2:
        return np.full((len(mean), 2), np.nan)
    half = stats.t.ppf(0.975, n - 1) * rounds.std(0, ddof=1) / np.sqrt(n)
    return np.stack([mean - half, mean + half], axis=1)
