"""Feature and basis selection by the adversary: what it moves most is what the model leans on most."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm.auto import tqdm

from gsat._arrays.chunks import pieces
from gsat._arrays.standardise import Standardised
from gsat._arrays.svd import right_singular_vectors
from gsat.costs import block_numbers, flat_labels
from gsat.estimators.gsat import GSATClassifier
from gsat.selectors.elimination import Elimination, n_rounds


class _FromAdversary(BaseEstimator):  # type: ignore[misc]
    """What both ask of their samples."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.classifier_tags = None
        return tags


class GroupSparseSelector(SelectorMixin, _FromAdversary):  # type: ignore[misc]
    """The k features that the group-sparse adversary spends most of its effort on.

    Networks are trained against the group-sparse adversary in rounds (`gsat.elimination` says how and why): after each
    the half of the features with less effort is left out, until 2k are left. A feature's score is its share of the
    effort, the norm of its column of Δ over the last `n_groups` groups of a round, later rounds counting more. With
    `feature_groups` blocks are ranked, and k counts blocks. With n_resamples > 0 this is repeated on random halves of
    the samples, classes in proportion: scores_ is then the mean, scores_interval_ a 95 % interval of it,
    selection_frequency_ the share of halves in which the feature was chosen.

    budget, alpha, n_inner, group_size, hidden: as in GSATClassifier; the inner solver is the linearised one
    n_outer:  groups per round
    eta0:     learning rate in units of 1/E‖X‖²
    curved:   also find effects without a slope; of no use for one-hot columns, where it only costs time
    verbose:  above 0, a bar of the rounds
    """

    def __init__(
        self,
        k: int = 100,
        *,
        feature_groups: Any = None,
        n_resamples: int = 0,
        n_groups: int = 20,
        budget: float = 0.03,
        alpha: float = 0.05,
        n_inner: int = 1,
        n_outer: int = 40,
        group_size: int = 400,
        hidden: int = 100,
        eta0: float = 2.0,
        curved: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.k = k
        self.feature_groups = feature_groups
        self.n_resamples = n_resamples
        self.n_groups = n_groups
        self.budget = budget
        self.alpha = alpha
        self.n_inner = n_inner
        self.n_outer = n_outer
        self.group_size = group_size
        self.hidden = hidden
        self.eta0 = eta0
        self.curved = curved
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> GroupSparseSelector:
        """Rank the features of X (n, features) for the labels y."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float32, np.float64], ensure_min_samples=2)
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
        k = _cut("k", self.k, n_blocks)
        halves: list[Any] = [_half(y, rng) for _ in range(self.n_resamples)] or [slice(None)]  # a slice is no copy
        names = ("budget", "alpha", "n_inner", "n_outer", "n_groups", "group_size", "hidden", "eta0", "curved")
        elimination = Elimination(**{name: getattr(self, name) for name in names})
        seeds = [int(rng.randint(2**31 - 1)) for _ in halves]
        total = len(halves) * n_rounds(n_blocks, k)
        with tqdm(total=total, disable=not self.verbose, desc="group-sparse", unit="round") as bar:
            rounds = np.array(
                [
                    elimination.shares(X[rows], codes[rows], blocks, k, seed, bar.update)
                    for rows, seed in zip(halves, seeds, strict=True)
                ]
            )
        mean = rounds.mean(0)
        order = np.argsort(-mean, kind="stable")
        rank = np.empty(n_blocks, dtype=np.int64)
        rank[order] = np.arange(1, n_blocks + 1)
        self.scores_, self.ranking_ = mean[blocks], rank[blocks]
        if self.n_resamples > 0:
            chosen = np.argsort(np.argsort(-rounds, axis=1, kind="stable"), axis=1) < k
            spread = 1.96 * rounds.std(0, ddof=1 if len(rounds) > 1 else 0) / np.sqrt(len(rounds))
            self.selection_frequency_ = chosen.mean(0)[blocks]
            self.scores_interval_ = np.stack([mean - spread, mean + spread], axis=1)[blocks]
        self.k_ = k
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self, "ranking_")
        return np.asarray(self.ranking_ <= self.k_)


class LowRankBasis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _FromAdversary):  # type: ignore[misc]
    """The directions that the low-rank adversary uses across groups, and the samples' coordinates along them.

    components_ (n_components, features) is orthonormal in units of each column's deviation; explained_effort_ratio_ is
    the share of ‖Δ‖² along each; agreement_ says how well the subspaces of single groups agree with it, from
    n_components/features (no better than chance) to 1.
    """

    def __init__(
        self,
        n_components: int = 5,
        *,
        n_groups: int = 20,
        budget: float = 0.05,
        alpha: float = 0.2,
        n_inner: int = 20,
        n_outer: int = 500,
        group_size: int = 200,
        hidden: int = 100,
        eta0: float = 1e-3,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_groups = n_groups
        self.budget = budget
        self.alpha = alpha
        self.n_inner = n_inner
        self.n_outer = n_outer
        self.group_size = group_size
        self.hidden = hidden
        self.eta0 = eta0
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> LowRankBasis:
        """Find the directions for X (n, features) and the labels y."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float32, np.float64], ensure_min_samples=2)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options = ("budget", "alpha", "n_inner", "n_outer", "group_size", "hidden", "eta0")
        classifier = GSATClassifier("low-rank", random_state=seed, **{name: getattr(self, name) for name in options})
        classifier.fit(X, y)
        k = _cut("n_components", self.n_components, X.shape[1])
        deltas = [torch.from_numpy(delta) for delta in self._perturbations(classifier, X, y, seed)]
        together = torch.cat(deltas)
        basis = _leading(together, k)
        effort = float(together.double().square().sum()) or 1.0
        self.components_ = basis.numpy().astype(np.float64)
        self.explained_effort_ratio_ = ((together @ basis.T).double().square().sum(0) / effort).numpy()
        self.agreement_ = float(np.mean([_overlap(_leading(delta, k), basis) for delta in deltas]))
        self.mean_, self.scale_ = classifier.mean_, classifier.scale_
        self._n_features_out = k
        return self

    def _perturbations(self, classifier: GSATClassifier, X: Any, y: Any, seed: int) -> list[NDArray[np.float32]]:
        """The adversary's Δ on n_groups random groups, in units of each column's deviation."""
        rng = np.random.default_rng(seed)
        m = min(self.group_size, X.shape[0])
        groups = (np.sort(rng.choice(X.shape[0], m, replace=False)) for _ in range(self.n_groups))
        return [classifier.perturb(X[rows], y[rows]) / classifier.scale_ for rows in groups]

    def transform(self, X: Any) -> NDArray[np.float64]:
        """The coordinates of the standardised samples along the directions, (n, n_components)."""
        check_is_fitted(self, "components_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        rows = Standardised(X, self.mean_, self.scale_)
        return np.concatenate([rows[part].astype(np.float64) @ self.components_.T for part in pieces(*X.shape)])

    def inverse_transform(self, Z: Any) -> NDArray[np.float64]:
        """The samples of the subspace with these coordinates, in the units of X."""
        check_is_fitted(self, "components_")
        return np.asarray(np.asarray(Z) @ self.components_ * self.scale_ + self.mean_)


def _cut(name: str, wanted: int, there: int) -> int:
    if not isinstance(wanted, int | np.integer) or wanted < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {wanted!r}")
    if wanted > there:
        warnings.warn(f"{name} = {wanted} is more than there are ({there}); all are taken", UserWarning, stacklevel=3)
    return min(int(wanted), there)


def _half(y: NDArray[Any], rng: Any) -> NDArray[np.int64]:
    """Half of the samples of each class, at least one of each."""
    parts = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    return np.sort(np.concatenate([part[: max(1, (len(part) + 1) // 2)] for part in parts]))


def _leading(delta: torch.Tensor, k: int) -> torch.Tensor:
    """K leading right singular vectors; where Δ has fewer, the basis is filled up with other directions."""
    basis = right_singular_vectors(delta, min(k, *delta.shape))
    if len(basis) < k:
        basis = torch.linalg.qr(torch.cat([basis, torch.eye(delta.shape[1])]).T).Q.T[:k]
    return basis


def _overlap(a: torch.Tensor, b: torch.Tensor) -> float:
    """The mean squared cosine of the angles between two subspaces."""
    return float((a @ b.T).square().sum() / len(a))
