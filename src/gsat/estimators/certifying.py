"""Certificates of classifiers: what `gsat.certify` is told of a fitted one."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from gsat.costs import GroupCost, PerBatch, Unstructured
from gsat.estimators.base import TorchEstimator
from gsat.theory import Certificate, certify


@dataclass(eq=False, repr=False, kw_only=True)
class Certified(TorchEstimator):
    """A classifier whose loss is bounded on laws near to that of given samples."""

    @abstractmethod
    def _codes(self, y: Any) -> NDArray[Any]:
        """The labels by their place in classes_."""

    def certificate(
        self, X: Any, y: Any, radii: Any, *, cost: Any = None, batch: Any = None, **options: Any
    ) -> Certificate:
        """Bound the mean cross-entropy of every law within each of the radii of X, y; class weights do not count.

        Parameters
        ----------
        X, y, batch
            Samples, labels of fit, and one batch id per sample or None.
        radii
            In the units that the module sees, after preparation and standardisation.
        cost
            By default α·g(Δ) + (1−α)·‖Δ‖²_F with the structure and alpha of the classifier, ‖Δ‖²_F where it has none.
        **options
            Of `gsat.certify`.

        Returns
        -------
        Certificate
            The bounds, with what they were computed from.
        """
        rows = self._rows(X, batch)
        options = {"group_size": min(self.group_size, len(rows)), **options}
        options.setdefault("feature_mask", self._certified_mask())
        cost = self._certified_cost(batch) if cost is None else cost
        return certify(self.module_, rows, self._codes(y), radii, cost, batch=batch, **options)

    def _certified_cost(self, batch: Any) -> GroupCost | PerBatch:
        """The cost of the certificate where none is given."""
        return Unstructured()

    def _certified_mask(self) -> Any:
        """The features that the certificate lets move."""
        return None
