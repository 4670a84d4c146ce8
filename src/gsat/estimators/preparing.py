"""What is done to samples before their columns are standardised: each by itself, then less the mean of its batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gsat import _checks, _defaults
from gsat._arrays.chunks import on_disk, pieces
from gsat._arrays.standardise import dense
from gsat.data.rows import StoredRows

MILLION = 1e6


def prepared(
    X: Any,
    prepare: str,
    batch: Any = None,
    weights: NDArray[np.float64] | None = None,
    normalise: str = _defaults.NORMALISE,
) -> Any:
    """The samples as the standardisation of columns sees them; rows are made when they are asked for.

    Parameters
    ----------
    X
        (n, d), dense, sparse (CSR) or memory-mapped; it is never copied whole.
    prepare
        "none", "centre" or "zscore".
    batch
        One id per sample for "centre", (n,); None for one batch.
    weights
        Of the samples in the means of batches, (n,), >= 0; None for 1 each.
    normalise
        "none", "log1p-cpm" or "zscore-samples": what is done to each sample before that.

    Returns
    -------
    X, LogCPM, Centred or ZScored
        Of shape (n, d), indexed by slices or row numbers.
    """
    _checks.one_of("prepare", prepare, _defaults.PREPARATIONS)
    _checks.one_of("normalise", normalise, _defaults.NORMALISATIONS)
    if normalise != "none":
        X = LogCPM(X) if normalise == "log1p-cpm" else ZScored(X)
    if prepare == "centre":
        return Centred(X, batch, weights)
    return ZScored(X) if prepare == "zscore" else X


def normalised(X: Any, normalise: str) -> Any:
    """All samples as `normalise` has them.

    Parameters
    ----------
    X
        (n, d), an array or `StoredRows`.
    normalise
        As in `prepared`.

    Returns
    -------
    array or StoredRows
        An array (n, d); of `StoredRows` such, whose rows are made when they are asked for.
    """
    if isinstance(X, StoredRows):
        return StoredRows(Normalised(X, normalise), feature_names=X.feature_names)
    return prepared(X, "none", normalise=normalise)[:]


class Normalised:
    """A store of the rows of another place, normalised.

    Parameters
    ----------
    X
        (n, d).
    normalise
        As in `prepared`.
    """

    def __init__(self, X: StoredRows, normalise: str) -> None:
        self.X, self.path, self.shape = prepared(X, "none", normalise=normalise), X.store.path, X.shape

    def read(self, rows: NDArray[np.int64]) -> Any:
        """These rows, as float32."""
        return self.X[rows].astype(np.float32)


def units(X: Any, rows: slice) -> Any:
    """How many units of the samples one of the prepared rows is: the deviations (m, 1) of z-scored ones, else 1.

    Parameters
    ----------
    X
        What `prepared` returned.
    rows
        m of its rows.

    Returns
    -------
    array or float
        What a perturbation of prepared rows is multiplied by, with the means and deviations as they are. After
        log1p-cpm the units are those of the logarithms.
    """
    if isinstance(X, Centred):
        X = X.X
    return X.split(rows)[1] if isinstance(X, ZScored) else 1.0


class Centred:
    """Row i of X (n, d) less the mean of the rows of its batch: x_i − Σ_b w_j·x_j / Σ_b w_j, in float64.

    Parameters
    ----------
    X, batch, weights
        As in `prepared`; a batch has at least two samples of a weight above 0, or none.
    """

    def __init__(self, X: Any, batch: Any = None, weights: NDArray[np.float64] | None = None) -> None:
        n, d = self.shape = X.shape
        self.X, self.on_disk = X, on_disk(X)
        self.codes = np.zeros(n, np.int64) if batch is None else _checks.batch_codes(batch, n).numpy()
        weights = np.ones(n) if weights is None else weights
        if (alone := np.flatnonzero(np.bincount(self.codes, weights > 0) == 1)).size:
            row = int(np.argmax(self.codes == alone[0]))
            got = "1 sample and no batch" if batch is None else f"1 of batch {np.asarray(batch).tolist()[row]!r}"
            raise ValueError(
                'X must have at least 2 samples of each batch with prepare="centre", which takes away the mean of the '
                f"unlabelled samples of a batch, also of one that is predicted, got {got}; a model with "
                'prepare="none" or "zscore" predicts single samples'
            )
        total = np.bincount(self.codes, weights)
        self.means = np.zeros((len(total), d))
        for part in pieces(n, d):
            codes, rows = self.codes[part], np.arange(part.stop - part.start)
            share = sparse.csr_array((weights[part], (codes, rows)), shape=(len(total), len(rows)))
            self.means += share @ dense(X[part], np.float64)
        self.means /= np.where(total > 0, total, 1)[:, None]

    def __getitem__(self, rows: Any) -> NDArray[np.float64]:
        found: NDArray[np.float64] = dense(self.X[rows], np.float64) - self.means[self.codes[rows]]
        return found


class LogCPM:
    """Row i of X (n, d) as logarithms of counts per million: log(1 + 10⁶·x_ij / Σ_j x_ij); a row of zeros stays so.

    Sparse rows stay sparse, since zeros stay zeros.

    Parameters
    ----------
    X
        Counts >= 0, dense or sparse.
    """

    def __init__(self, X: Any) -> None:
        self.X, self.shape, self.on_disk = X, X.shape, on_disk(X)

    def __getitem__(self, rows: Any) -> Any:
        part = self.X[rows]
        if sparse.issparse(part):
            found = part.astype(np.float64).tocsr()
            self._check(found.data)
            total = np.asarray(found.sum(axis=1)).ravel()
            found.data *= np.repeat(MILLION / np.where(total > 0, total, 1), np.diff(found.indptr))
            np.log1p(found.data, out=found.data)
            return found
        values = np.asarray(part, dtype=np.float64)
        self._check(values)
        total = values.sum(1, keepdims=True)
        return np.log1p(values * (MILLION / np.where(total > 0, total, 1)))

    @staticmethod
    def _check(values: NDArray[Any]) -> None:
        if values.size and (least := float(values.min())) < 0:
            raise ValueError(
                f'X must hold counts >= 0 with normalise="log1p-cpm", got {least:g}; normalised values need '
                'normalise="none"'
            )


class ZScored:
    """Row i of X (n, d) less its own mean, divided by its own deviation over the features; a constant row becomes 0.

    Parameters
    ----------
    X
        As in `prepared`.
    """

    def __init__(self, X: Any) -> None:
        self.X, self.shape, self.on_disk = X, X.shape, on_disk(X)

    def __getitem__(self, rows: Any) -> NDArray[np.float64]:
        centred, deviation = self.split(rows)
        return centred / deviation

    def split(self, rows: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The rows less their means (m, d), and their deviations (m, 1), 1 for a constant row."""
        values = dense(self.X[rows], np.float64)
        values = values - values[:, :1]  # a constant row is then 0 exactly, whatever the rounding of its mean
        values -= values.mean(1, keepdims=True)
        deviation = np.sqrt(np.square(values).mean(1, keepdims=True))
        return values, np.where(deviation > 0, deviation, 1)
