"""diagnose(): from samples and batches to a verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from gsat import _checks
from gsat._arrays.norms import mean_norm
from gsat._arrays.standardise import Standardised, mean_and_scale
from gsat.data.memory import room
from gsat.data.rows import StoredRows
from gsat.diagnosis.cells import LEAST, Design, Pair
from gsat.diagnosis.energies import Energies, Samples, measure
from gsat.diagnosis.exchange import exchangeability
from gsat.diagnosis.moments import Moments, leading_features
from gsat.diagnosis.result import Diagnosis
from gsat.diagnosis.verdict import SHARE, Verdict, judge

MAX_PAIRS = 20  # of batches that are compared, those with the most samples
COPIES = 4  # of the samples that are compared, in float32: as they are, centred, their squares, and a part of them


def diagnose(
    X: Any,
    batch: Any,
    y: Any = None,
    *,
    standardize: bool = True,
    max_features: int | None = None,
    max_rank: int | None = None,
    n_splits: int = 10,
    n_permutations: int = 399,
    max_samples: int = 1000,
    random_state: int = 0,
) -> Diagnosis:
    """The structure of the shift between batches: none, universal, per class, group-sparse, low-rank or unstructured.

    Samples of two batches are matched within class by optimal transport. Their differences Δ are larger than those of
    the null, matched samples of one batch, by an excess ‖Δ‖² − ‖Δ_null‖². The structure is the simplest that holds
    80 % of it; which features and directions move is found in one half of the samples and measured in the other.

    Parameters
    ----------
    X
        Samples (n, *features), dense or sparse, or `StoredRows`, of which those that are compared are read into memory.
    batch, y
        One entry per sample; without y all are one class.
    standardize
        Columns to mean 0 and deviation 1 first, as the classifiers do.
    max_features
        The most features that group-sparse may mean; default √d.
    max_rank
        The most directions that low-rank may mean; default 5, or d/4 if that is less.
    n_splits
        How often the samples are halved.
    n_permutations
        Of the batches within the classes, for the test of "none".
    max_samples
        Larger data is thinned, the largest class of a batch first.
    random_state
        Same number, same result.

    Returns
    -------
    Diagnosis
        The structure, its size, a p-value, and which structures are worth trying.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_shift(120, 8, shift="universal", strength=1.0)
    >>> found = gsat.diagnose(table.X, table.batch, table.y, n_splits=3)
    >>> found.structure
    'universal'
    >>> found.worth_trying
    ('low-rank', 'universal')
    """
    _checks.not_anndata("X", X, "gsat.diagnose(adata.X, adata.obs[batch_key])")
    X = _samples(X)
    n, d = X.shape
    batches, batch_codes = _codes("batch", batch, n)
    labels, y_codes = _codes("y", np.zeros(n, np.int64) if y is None else y, n)
    _checks.count("max_samples", max_samples, least=2 * LEAST)
    _checks.count("n_permutations", n_permutations, least=199)
    rng = np.random.default_rng(_checks.count("random_state", random_state))
    design = Design.of(batch_codes, y_codes, max_pairs=MAX_PAIRS, max_samples=max_samples, rng=rng)
    if not design.pairs:
        raise ValueError(_nothing_to_compare(batches, batch_codes, labels))
    if isinstance(X, StoredRows):
        need = COPIES * 4 * len(design.kept) * d
        room(
            f"diagnose with {len(design.kept):,} samples of {d:,} features",
            need,
            "lower max_samples or take --features",
        )
    settings = {
        "max_features": min(d, _limit("max_features", max_features, round(d**0.5))),
        "max_rank": min(d, len(design.kept), _limit("max_rank", max_rank, max(1, min(5, d // 4)))),
        "n_splits": _checks.count("n_splits", n_splits, least=2),
    }
    as_it_is = np.zeros(d, np.float32), np.ones(d, np.float32)
    rows = Standardised(X, *(mean_and_scale(X) if standardize else as_it_is))
    unit = mean_norm(rows)
    if unit == 0:
        raise ValueError("X must have a feature that differs between samples, got none")

    def examine(part: Design) -> tuple[float, Energies, Verdict]:
        samples = Samples(rows[part.kept])
        p_value = exchangeability(samples.X, part, n_permutations, rng)
        energies = measure(samples, part, rng=rng, **settings)
        classes = any(len(pair.sizes) > 1 for pair in part.pairs)
        return p_value, energies, judge(energies, p_value, unit, classes=classes)

    p_value, energies, verdict = examine(design)
    several = len(design.pairs) > 1
    alone = [examine(design.only(pair)) for pair in design.pairs] if several else [(p_value, energies, verdict)]
    curves = {
        name: values.mean(0) / (verdict.excess if verdict.structure != "none" else np.nan)
        for name, values in (("features", energies.features), ("directions", energies.directions))
    }
    about = {
        "n_samples": n,
        "n_compared": len(design.kept),
        "n_features": d,
        "n_batches": len(batches),
        "n_classes": len(labels),
        "n_pairs": design.n_pairs,
        "standardize": bool(standardize),
        "random_state": random_state,
        **settings,
    }
    return Diagnosis(
        structure=verdict.structure,
        size=verdict.size,
        p_value=p_value,
        null=float(energies.null.mean()),
        excess=verdict.excess,
        mean_norm=unit,
        k=_fewest(curves["features"]),
        rank=_fewest(curves["directions"]),
        effective_rank=_effective_rank(verdict, energies),
        table=verdict.table,
        pairs=pd.DataFrame(
            {"first": str(batches[pair.first]), "second": str(batches[pair.second]), **_pair_row(pair, p, own, verdict)}
            for pair, (p, _, own) in zip(design.pairs, alone, strict=True)
        ),
        features=_moving(rows[design.kept], design, settings["max_features"]),
        curves=curves,
        about=about,
    )


def _samples(X: Any) -> Any:
    """The samples (n, d), dense, CSR or stored; what a reader has not looked at is checked."""
    if isinstance(X, StoredRows):
        return X
    X = check_array(X, accept_sparse="csr", dtype=[np.float32, np.float64], allow_nd=True, input_name="X")
    X = X if sparse.issparse(X) else X.reshape(len(X), -1)
    _checks.fits_float32("X", X)
    return X


def _pair_row(pair: Pair, p_value: float, own: Verdict, pooled: Verdict) -> dict[str, Any]:
    """The verdict on one pair, with a share for every structure that the pooled one has."""
    about = {"n": pair.size, "classes": len(pair.sizes), "structure": own.structure, "p_value": p_value}
    return {**about, "size": own.size, **{name: own.shares.get(name, np.nan) for name in pooled.shares}}


def _codes(name: str, values: Any, n: int) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values, sorted, and the position of each sample's value among them."""
    given = np.asarray(values)
    if given.shape != (n,):
        raise ValueError(f"{name} must have one entry per sample ({n}), got shape {given.shape}")
    if pd.isna(given).any():
        raise ValueError(f"{name} must have an entry for every sample, got {int(pd.isna(given).sum())} missing")
    distinct, codes = np.unique(given.astype(str) if given.dtype == object else given, return_inverse=True)
    return distinct.tolist(), codes.astype(np.int64)


def _limit(name: str, value: int | None, default: int) -> int:
    return default if value is None else _checks.count(name, value, least=1)


def _nothing_to_compare(batches: list[Any], codes: NDArray[np.int64], labels: list[Any]) -> str:
    if len(batches) < 2:
        return f"batch must name at least two batches, got only {batches[0]!r}"
    sizes = np.bincount(codes)
    if len(labels) < 2 or (sizes >= LEAST).sum() < 2:
        largest = sorted(sizes.tolist(), reverse=True)
        some = ", ".join(map(str, largest[:5])) + (" ..." if len(largest) > 5 else "")
        return f"batch must have {LEAST} samples in each of two batches, got {len(sizes)} batches of {some} samples"
    return (
        f"batch and label must share a class with {LEAST} samples in two batches, got none in {len(labels)} classes "
        f"and {len(batches)} batches: they are confounded; leave out the label to compare whole batches"
    )


def _fewest(curve: NDArray[Any]) -> int | None:
    enough = np.flatnonzero(curve >= SHARE)
    return int(enough[0]) + 1 if len(enough) else None


def _effective_rank(verdict: Verdict, energies: Energies) -> float | None:
    square = float(energies.overlap.mean())
    if verdict.structure == "none" or square <= 0:
        return None
    return max(1.0, verdict.excess**2 / square)


def _moving(X: NDArray[np.float32], design: Design, count: int) -> NDArray[np.intp]:
    """The features that move most, by all the samples that are compared."""
    moments = Moments(X, design.rows)
    louder = {pair: moments.louder(pair) for pair in design.pairs}
    return leading_features(X, np.square(X), design.rows, design.pairs, louder, count)
