"""The directions that the low-rank adversary uses: what it moves along is what the model leans on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gsat import _checks, _defaults
from gsat._arrays.chunks import pieces
from gsat._arrays.standardise import Standardised
from gsat._arrays.svd import right_singular_vectors
from gsat.estimators import GSATClassifier
from gsat.estimators.given import labelled, unlabelled
from gsat.selectors.common import FromAdversary, cut


@dataclass(eq=False, repr=False, kw_only=True)
class LowRankBasis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FromAdversary):  # type: ignore[misc]
    """The directions that the low-rank adversary uses across groups, and the samples' coordinates along them.

    Parameters
    ----------
    n_components
        The number of directions.
    n_groups
        Random groups of training samples on which the trained adversary is watched.
    budget, alpha, n_outer, group_size, hidden, eta0, random_state
        As in `GSATClassifier`.
    n_inner
        Gradients for a group at the most: more than in `GSATClassifier`, for the directions themselves are wanted.

    Attributes
    ----------
    components_
        The directions (n_components, features), orthonormal in units of each column's deviation.
    explained_effort_ratio_
        The share of ‖Δ‖² along each.
    agreement_
        How well the subspaces of single groups agree with it, from n_components/features (no better than chance) to 1.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(200, 20)
    >>> basis = gsat.LowRankBasis(n_components=2, n_outer=20, eta0=0.01, n_groups=2, random_state=0)
    >>> _ = basis.fit(table.X, table.y)
    >>> basis.components_.shape, basis.transform(table.X).shape
    ((2, 20), (200, 2))
    """

    n_components: int = field(default=5, kw_only=False)
    n_groups: int = 20
    budget: float = _defaults.BUDGET
    alpha: float | None = None
    n_inner: int = _defaults.N_INNER
    n_outer: int = 500
    group_size: int = _defaults.GROUP_SIZE
    hidden: int = _defaults.HIDDEN
    eta0: float = _defaults.ETA0
    random_state: Any = None

    def fit(self, X: Any, y: Any) -> LowRankBasis:
        """Find the directions.

        Parameters
        ----------
        X, y
            Samples (n, features), dense, sparse or `StoredRows`, and labels (n,).

        Returns
        -------
        self
            The fitted basis.
        """
        _checks.count("n_groups", self.n_groups, least=1)
        _checks.not_anndata("X", X, "LowRankBasis.fit(adata.X, adata.obs[key])")
        X, y = labelled(self, X, y, reset=True, ensure_min_samples=2)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options = ("budget", "alpha", "n_inner", "n_outer", "group_size", "hidden", "eta0")
        classifier = GSATClassifier("low-rank", random_state=seed, **{name: getattr(self, name) for name in options})
        k = cut("n_components", self.n_components, X.shape[1])
        classifier.fit(X, y)
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
        """The coordinates of the standardised samples along the directions.

        Parameters
        ----------
        X
            Samples (n, features).

        Returns
        -------
        array
            Coordinates (n, n_components).
        """
        check_is_fitted(self, "components_")
        X = unlabelled(self, X)
        rows = Standardised(X, self.mean_, self.scale_)
        return np.concatenate([rows[part].astype(np.float64) @ self.components_.T for part in pieces(*X.shape)])

    def inverse_transform(self, Z: Any) -> NDArray[np.float64]:
        """The samples of the subspace with these coordinates.

        Parameters
        ----------
        Z
            Coordinates (n, n_components).

        Returns
        -------
        array
            Samples (n, features), in the units of X.
        """
        check_is_fitted(self, "components_")
        return np.asarray(np.asarray(Z) @ self.components_ * self.scale_ + self.mean_)


def _leading(delta: torch.Tensor, k: int) -> torch.Tensor:
    """K leading right singular vectors; where Δ has fewer, the basis is filled up with other directions."""
    basis = right_singular_vectors(delta, min(k, *delta.shape))
    if len(basis) < k:
        basis = torch.linalg.qr(torch.cat([basis, torch.eye(delta.shape[1])]).T).Q.T[:k]
    return basis


def _overlap(a: torch.Tensor, b: torch.Tensor) -> float:
    """The mean squared cosine of the angles between two subspaces."""
    return float((a @ b.T).square().sum() / len(a))
