"""GSATClassifierCV: preparation, model, structure, budget and metric, chosen on training batches that are left out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gsat import _checks, _defaults
from gsat.estimators.average import AverageClassifier, ByProbability, combined
from gsat.estimators.candidates import (
    adversaries,
    beside,
    chosen,
    needs_batch,
    preparations,
    single_batch,
    solvable,
    usable,
    without_adversary,
)
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.gsat import GSATClassifier
from gsat.estimators.kept import Kept
from gsat.estimators.leaving_out import Scores, folds_of, scored


class FittedCV(ByProbability):
    """What `fit` leaves; apart, so that these names do not become parameters."""

    estimator_: TorchClassifier | AverageClassifier
    best_estimator_: TorchClassifier
    single_estimator_: TorchClassifier | AverageClassifier | None
    single_score_: float | None
    best_params_: dict[str, Any]
    best_score_: float
    best_index_: int
    cv_results_: dict[str, Any]
    n_splits_: int


@dataclass(eq=False, repr=False, kw_only=True)
class GSATClassifierCV(FittedCV):
    """A GSAT classifier whose settings are chosen where it matters: on training batches that were left out.

    The candidates are linear models (`LinearClassifier`, `LDAClassifier`) and ERM networks with every preparation, and
    GSAT with that preparation and width with which ERM does best. They are ordered by the mean balanced accuracy over
    the left-out batches, equals by the cross-entropy; the best of them are trained again on all samples, and their
    probabilities averaged. Staying with ERM and declining the metric (gamma = 0) are always among the candidates.
    Nothing but training samples is used.

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
    shrinkages
        Of LDA; () for none.
    hidden
        Numbers of hidden units to choose from.
    prepare
        "choose" among "none", "centre" and "zscore", or one of them. Where a batch has a single sample, "centre" is
        left out, with a warning.
    cv
        "batches": batches are left out in turn, the largest first, those that hold two classes of the others. Where fit
        is given fewer than two of them, and for a number, random folds: they say nothing about a next batch.
    combine
        "average": the best quarter of the candidates predicts, three at least, by the mean of their probabilities;
        "best": the best one alone. An average takes the memory, the time to predict and the room in a folder of all its
        members; `perturb`, `certificate` and `gsat.evaluate` are for a single model, such as best_estimator_.
    n_folds
        Batches that are left out, at the most; the number of random folds otherwise.
    n_jobs
        Candidates that are trained at a time, as in joblib.
    random_state
        Of all trainings, and of random folds.

    Attributes
    ----------
    estimator_
        What predicts: an `AverageClassifier`, or best_estimator_.
    best_estimator_
        The best candidate, trained on all samples.
    single_estimator_
        What predicts a single sample: estimator_ itself, unless it or a member of it is prepared with "centre"; then
        the best, or the average of the best quarter, of the others. None where prepare="centre" was asked for.
    best_params_, best_score_, best_index_
        Of best_estimator_: its parameters, its mean score on the left-out batches, and its place in cv_results_.
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
    shrinkages: Any = (0.03, 0.1, 0.3, 0.6)
    hidden: Any = (_defaults.HIDDEN,)
    prepare: str = "choose"
    combine: str = _defaults.COMBINE
    cv: Any = "batches"
    n_folds: int = 4
    n_jobs: Any = None
    random_state: Any = None

    def fit(self, X: Any, y: Any, *, batch: Any = None, groups: Any = None) -> GSATClassifierCV:
        """Choose on left-out batches, then train on all samples.

        Parameters
        ----------
        X, y
            Samples (n, features) and labels (n,), as in `GSATClassifier.fit`.
        batch
            One id per sample; None for one batch, with a warning.
        groups
            One id per sample, such as the person: random folds, and rows that are held out for early stopping and
            calibration, have all rows of a group or none. None: each row by itself. Batches are left out as they are.

        Returns
        -------
        self
            The fitted classifier.
        """
        candidates, found, y = self.search(X, y, batch, groups)
        self._keep(candidates, found, X, y, batch=batch, groups=groups)
        return self

    def search(
        self,
        X: Any,
        y: Any,
        batch: Any = None,
        groups: Any = None,
        *,
        kept: Kept | None = None,
        progress: bool = False,
    ) -> tuple[list[Any], Scores, NDArray[Any]]:
        """The choice without the last training.

        Parameters
        ----------
        X, y, batch, groups
            As in `fit`.
        kept
            Scores of an earlier call for the same samples, which are not found again; new ones are added.
        progress
            Whether to show a bar.

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
        _checks.one_of("combine", self.combine, _defaults.COMBINATIONS)
        for name in ("structures", "budgets", "gammas", "cs", "shrinkages", "hidden"):
            _checks.several(name, getattr(self, name), empty=name != "hidden")
        X, y = template._checked(X, y)
        check_classification_targets(y)
        if batch is not None:
            _checks.batch_codes(batch, len(y))
            batch = np.asarray(batch)
            batch = batch.astype(str) if batch.dtype == object else batch  # ids of several types have no order
        groups = None if groups is None else _checks.batch_codes(groups, len(y), "groups").numpy()
        seed = template.random_state
        folds = folds_of(y, batch, cv=self.cv, n_folds=self.n_folds, seed=seed, group=groups)
        prepares, gammas = preparations(self.prepare, batch, folds), usable(self.gammas, template.metric, batch, folds)
        shrinkages = solvable(self.shrinkages, X.shape)
        networks, linear = without_adversary(template, prepares, self.hidden, gammas, self.cs, shrinkages)
        options = {"groups": groups, "kept": kept, "progress": progress}
        found = scored([*networks, *linear], X, y, batch, folds, self.n_jobs, **options)
        base = networks[found.best(range(len(networks)))]
        robust = adversaries(template, base, self.structures, self.budgets, gammas)
        found = found.joined(scored(robust, X, y, batch, folds, self.n_jobs, **options)) if robust else found
        return [*networks, *linear, *robust], found, y

    def _keep(self, candidates: list[Any], found: Scores, X: Any, y: Any, **more: Any) -> None:
        """Train on all samples what predicts, and where that needs whole batches, what predicts single samples."""
        places, alone = found.leading(self.combine), [i for i, one in enumerate(candidates) if not needs_batch(one)]
        singles = found.leading(self.combine, alone) if alone else []
        if not any(needs_batch(candidates[i]) for i in places):
            singles = places
        self.cv_results_ = found.table([chosen(one) for one in candidates])
        self.best_index_ = places[0]
        self.best_params_, self.best_score_ = chosen(candidates[places[0]]), float(found.mean[places[0]])
        others = list(dict.fromkeys(i for i in (*places, *singles) if i != places[0]))
        fitted = {places[0]: clone(candidates[places[0]]).fit(X, y, **more)}
        calls = (joblib.delayed(_quietly_fitted)(candidates[i], X, y, more) for i in others)
        fitted |= zip(others, joblib.Parallel(n_jobs=self.n_jobs)(calls), strict=True)
        self.best_estimator_ = fitted[places[0]]
        self.estimator_ = combined([fitted[i] for i in places])
        self.single_estimator_ = combined([fitted[i] for i in singles]) if singles else None
        if singles == places:
            self.single_estimator_ = self.estimator_
        self.single_score_ = float(found.mean[singles[0]]) if singles else None
        self.n_splits_ = found.accuracy.shape[1]
        self._describes(self.best_estimator_)

    def predict_proba(self, X: Any, batch: Any = None) -> NDArray[np.float64]:
        """The probability of each class.

        Parameters
        ----------
        X
            Samples (n, features).
        batch
            One id per sample, where what was chosen is centred; None: all samples are of one batch.

        Returns
        -------
        array
            Probabilities (n, classes), in the order of classes_.
        """
        check_is_fitted(self, "estimator_")
        if needs_batch(self.estimator_):
            n = np.shape(X)[0] if np.ndim(X) else 0
            alone = single_batch(np.zeros(n) if batch is None else np.asarray(batch))
            if alone is not None:
                got = "one" if batch is None else f"one of {alone!r}"
                raise ValueError(
                    f"X must hold at least two samples of a batch, got {got}: "
                    'the classifier was chosen with prepare="centre", which takes away the mean of the batch'
                    + self._instead()
                )
        return self.estimator_.predict_proba(X, batch)

    def save(self, folder: str | Path) -> Path:
        """Write what predicts as a folder that `gsat.load` opens.

        Where it needs whole batches, what predicts single samples is written beside it, as FOLDER-single.

        Parameters
        ----------
        folder
            A new folder, or that of a model, which is replaced.

        Returns
        -------
        Path
            The folder.
        """
        check_is_fitted(self, "estimator_")
        if self.single_estimator_ is not None and self.single_estimator_ is not self.estimator_:
            self.single_estimator_.save(beside(folder))
        return self.estimator_.save(folder)

    def _instead(self) -> str:
        """What predicts single samples, in words."""
        if self.single_score_ is None:
            return '; a model with prepare="none" or "zscore" predicts single samples'
        return (
            f"; single_estimator_ predicts single samples (left-out batches: {self.single_score_:.3f} instead of "
            f"{self.best_score_:.3f}{' by the best member' if self.combine == 'average' else ''})"
        )


def _quietly_fitted(candidate: Any, X: Any, y: Any, more: dict[str, Any]) -> Any:
    """The candidate trained; what there is to say of a training is said of the best one's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(candidate).fit(X, y, **more)
