"""GSATClassifierCV: preparation, model, structure, budget and metric, chosen on training batches that are left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gsat import _checks, _defaults
from gsat.estimators.baselines import ERMClassifier
from gsat.estimators.candidates import NEEDS_BATCH, alike, beside, chosen, preparations, single_batch, usable
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.gsat import GSATClassifier
from gsat.estimators.leaving_out import Scores, folds_of, scored
from gsat.estimators.linear import LinearClassifier


class FittedCV(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What `fit` leaves; apart, so that these names do not become parameters."""

    best_estimator_: TorchClassifier
    single_estimator_: TorchClassifier | None
    best_params_: dict[str, Any]
    best_score_: float
    best_index_: int
    cv_results_: dict[str, Any]
    n_splits_: int
    classes_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[Any]


@dataclass(eq=False, repr=False, kw_only=True)
class GSATClassifierCV(FittedCV):
    """A GSAT classifier whose settings are chosen where it matters: on training batches that were left out.

    The candidates are linear models (`LinearClassifier`) and ERM networks with every preparation, and GSAT with that
    preparation and width with which ERM does best. The one with the best mean balanced accuracy over the left-out
    batches is taken, of equals the one with the least cross-entropy, and trained again on all samples. Staying with ERM
    and declining the metric (gamma = 0) are always among the candidates. Nothing but training samples is used.

    Parameters
    ----------
    estimator
        A `GSATClassifier` with the parameters that are not chosen; None for its defaults.
    structures, budgets
        Of GSAT, as in `GSATClassifier`.
    gammas
        Of GSAT and of linear models, beside 0, which is the isotropic adversary. With two batches each fold keeps one,
        from which no metric can be learnt: gamma is then 0, with a warning.
    cs
        C of linear models; () for none.
    hidden
        Numbers of hidden units to choose from.
    prepare
        "choose" among "none", "centre" and "zscore", or one of them. Where a batch has a single sample, "centre" is
        left out, with a warning.
    cv
        "batches": batches are left out in turn, the largest first, those that hold two classes of the others. Where fit
        is given fewer than two of them, and for a number, random folds: they say nothing about a next batch.
    n_folds
        Batches that are left out, at the most; the number of random folds otherwise.
    n_jobs
        Candidates that are trained at a time, as in joblib.
    random_state
        Of all trainings, and of random folds.

    Attributes
    ----------
    best_estimator_
        The winner, trained on all samples.
    single_estimator_
        The best that predicts a single sample; the winner itself, unless it is prepared with "centre". None where
        prepare="centre" was asked for.
    best_params_, best_score_, best_index_
        Its parameters, its mean score on the left-out batches, and its place in cv_results_.
    cv_results_
        Of all candidates, as scikit-learn has it: params, split0_test_score, ..., mean_test_score, std_test_score,
        rank_test_score, mean_test_loss, mean_fit_time.
    n_splits_
        Batches or folds that were left out.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(90, 5, n_batches=3)
    >>> template = gsat.GSATClassifier(n_outer=30, eta0=0.01)
    >>> options = {"structures": (), "hidden": (5,), "cs": (0.1,), "n_folds": 2, "prepare": "none"}
    >>> clf = gsat.GSATClassifierCV(template, **options, random_state=0)
    >>> clf.fit(table.X, table.y, batch=table.batch).n_splits_
    2
    """

    estimator: Any = field(default=None, kw_only=False)
    structures: Any = ("low-rank", "universal")
    budgets: Any = (0.01, 0.03, 0.06, 0.15)
    gammas: Any = (0.0, 10.0)
    cs: Any = (0.001, 0.01, 0.1, 1.0)
    hidden: Any = (_defaults.HIDDEN,)
    prepare: str = "choose"
    cv: Any = "batches"
    n_folds: int = 4
    n_jobs: Any = None
    random_state: Any = None

    def fit(self, X: Any, y: Any, *, batch: Any = None) -> GSATClassifierCV:
        """Choose on left-out batches, then train on all samples.

        Parameters
        ----------
        X, y
            Samples (n, features) and labels (n,), as in `GSATClassifier.fit`.
        batch
            One id per sample; None for one batch, with a warning.

        Returns
        -------
        self
            The fitted classifier.
        """
        candidates, found, y = self.search(X, y, batch)
        self._keep(candidates, found, X, y, batch)
        return self

    def search(self, X: Any, y: Any, batch: Any = None) -> tuple[list[Any], Scores, NDArray[Any]]:
        """The choice without the last training.

        Parameters
        ----------
        X, y, batch
            As in `fit`.

        Returns
        -------
        candidates, scores, y
            The unfitted classifiers that were tried, how they did, and the checked labels.
        """
        template = GSATClassifier() if self.estimator is None else self.estimator
        if not isinstance(template, GSATClassifier):
            raise TypeError(f"estimator must be a GSATClassifier or None, got {template!r}")
        template = clone(template)
        if self.random_state is not None:
            template.set_params(random_state=self.random_state)
        _checks.one_of("prepare", self.prepare, (*_defaults.PREPARATIONS, "choose"))
        for name in ("structures", "budgets", "gammas", "cs", "hidden"):
            _checks.several(name, getattr(self, name), empty=name != "hidden")
        X, y = template._checked(X, y)
        check_classification_targets(y)
        if batch is not None:
            _checks.batch_codes(batch, len(y))
            batch = np.asarray(batch)
            batch = batch.astype(str) if batch.dtype == object else batch  # ids of several types have no order
        folds = folds_of(y, batch, cv=self.cv, n_folds=self.n_folds, seed=template.random_state)
        prepares, gammas = preparations(self.prepare, batch, folds), usable(self.gammas, template.metric, batch, folds)
        plain = alike(ERMClassifier, template)
        networks = [
            clone(plain).set_params(prepare=prepare, hidden=hidden)
            for prepare, hidden in product(prepares, self.hidden)
        ]
        linear = [
            alike(LinearClassifier, template, C=C, gamma=gamma, prepare=prepare, hidden=0)
            for prepare, gamma, C in product(prepares, gammas, self.cs if template.module is None else ())
        ]
        first = [*networks, *linear]
        found = scored(first, X, y, batch, folds, self.n_jobs)
        base = networks[found.best(range(len(networks)))]
        second = [
            clone(template).set_params(
                structure=structure, budget=budget, gamma=gamma, prepare=base.prepare, hidden=base.hidden
            )
            for structure, budget, gamma in product(self.structures, self.budgets, gammas)
        ]
        found = found.joined(scored(second, X, y, batch, folds, self.n_jobs)) if second else found
        return [*first, *second], found, y

    def _keep(self, candidates: list[Any], found: Scores, X: Any, y: Any, batch: Any) -> None:
        """Train the winner, and the best of those that need no batch, on all samples."""
        self.best_index_ = found.best()
        alone = [i for i, one in enumerate(candidates) if one.prepare != NEEDS_BATCH]
        single = found.best(alone) if alone else None
        self.cv_results_ = found.table([chosen(one) for one in candidates])
        self.best_params_, self.best_score_ = chosen(candidates[self.best_index_]), float(found.mean[self.best_index_])
        self.best_estimator_ = clone(candidates[self.best_index_]).fit(X, y, batch=batch)
        self.single_estimator_ = self.best_estimator_ if single == self.best_index_ else None
        if single is not None and single != self.best_index_:
            self.single_estimator_ = clone(candidates[single]).fit(X, y, batch=batch)
        self.n_splits_, self.classes_ = found.accuracy.shape[1], self.best_estimator_.classes_
        self.n_features_in_ = self.best_estimator_.n_features_in_
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_

    def predict(self, X: Any, batch: Any = None) -> NDArray[Any]:
        """The most probable class of each sample.

        Parameters
        ----------
        X
            Samples (n, features).
        batch
            One id per sample, for a winner that was prepared with "centre"; None: all samples are of one batch.

        Returns
        -------
        array
            Labels (n,).
        """
        return self._winner(X, batch).predict(X, batch)

    def predict_proba(self, X: Any, batch: Any = None) -> NDArray[np.float64]:
        """The probability of each class.

        Parameters
        ----------
        X, batch
            As in `predict`.

        Returns
        -------
        array
            Probabilities (n, classes), in the order of classes_.
        """
        return self._winner(X, batch).predict_proba(X, batch)

    def decision_function(self, X: Any, batch: Any = None) -> NDArray[np.float64]:
        """The logits of the classes.

        Parameters
        ----------
        X, batch
            As in `predict`.

        Returns
        -------
        array
            As in `GSATClassifier.decision_function`.
        """
        return self._winner(X, batch).decision_function(X, batch)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, batch: Any = None) -> float:
        """The accuracy.

        Parameters
        ----------
        X, y, sample_weight, batch
            As in `GSATClassifier.score`.

        Returns
        -------
        float
            The weighted share of samples whose class is predicted.
        """
        return self._winner(X, batch).score(X, y, sample_weight, batch=batch)

    def save(self, folder: str | Path) -> Path:
        """Write the winner as a folder that `gsat.load` opens.

        Where the winner needs whole batches, the best that predicts single samples is written beside it, as
        FOLDER-single.

        Parameters
        ----------
        folder
            A new folder, or that of a model, which is replaced.

        Returns
        -------
        Path
            The folder.
        """
        check_is_fitted(self, "best_estimator_")
        if self.single_estimator_ is not None and self.single_estimator_ is not self.best_estimator_:
            self.single_estimator_.save(beside(folder))
        return self.best_estimator_.save(folder)

    def _winner(self, X: Any, batch: Any) -> TorchClassifier:
        check_is_fitted(self, "best_estimator_")
        if self.best_estimator_.prepare == NEEDS_BATCH:
            n = np.shape(X)[0] if np.ndim(X) else 0
            alone = single_batch(np.zeros(n) if batch is None else np.asarray(batch))
            if alone is not None:
                got = "one" if batch is None else f"one of {alone!r}"
                raise ValueError(
                    f"X must hold at least two samples of a batch, got {got}: "
                    'the classifier was chosen with prepare="centre", which takes away the mean of the batch'
                    + self._instead()
                )
        return self.best_estimator_

    def _instead(self) -> str:
        """What predicts single samples, in words."""
        if self.single_estimator_ is None:
            return '; a model with prepare="none" or "zscore" predicts single samples'
        place = self.cv_results_["params"].index(chosen(self.single_estimator_))
        score = float(self.cv_results_["mean_test_score"][place])
        return (
            f"; single_estimator_ predicts single samples (left-out batches: {score:.3f} instead of "
            f"{self.best_score_:.3f})"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
